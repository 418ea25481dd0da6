#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A process of a pinned capture that runs another program by exec: its manual scopes go on with the new program, while one
# drains and while only the watcher is there; its calls too if its first thread called exec, or the watcher hooks it again:
# each file when the new program maps it, and no call is seen twice.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/execscopes
again=$O/targets/execagain
need "$SCOPETRACE" "$target" "$again"
dir=$FS/exec
snapshot "$T/before"

begin() { # NAME BY [OPTION]...: attached, nobody drains yet
	local name=$1 by=$2
	shift 2
	start "$name" out "$target" "$by"
	wait_line "$name" '^pid ([0-9]+)$'
	traced=${BASH_REMATCH[1]}
	run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f work --ring-size 1M "$@"
	expect_status 0 "attach"
}

hooked_again() { [ "$(status_of "$dir" '[l["pid"] for l in d["links"] if "pid" in l]')" = "[$traced, $traced]" ]; }

to_the_end() { # NAME: its scopes and calls before and after the exec
	wait_line "$1" '^before on$'
	send "$1" call
	wait_line "$1" '^before called$'
	send "$1" exec
	wait_line "$1" '^after on$'
	[ "${2:-}" = again ] && wait_until "the watcher hooks it again" hooked_again
	send "$1" call
	wait_line "$1" '^after called$'
}

count() { # FILE KIND NAME
	"$SCOPETRACE" export -t csv "$1" 2>/dev/null | awk -F, -v kind="$2" -v name="^\"?$3" '$6 == kind && $7 ~ name' | wc -l
}

expect_in() { # FILE KIND NAME COUNT
	local have
	have=$(count "$1" "$2" "$3")
	[ "$have" = "$4" ] || fail "$1: $have $2 $3, not $4"
}

for by in main thread; do
	say "== by $by, while one drains"
	begin "drained_$by" $by
	start "drainer_$by" err "$SCOPETRACE" drain --pin "$dir" -o "$T/$by.scope"
	wait_line "drainer_$by" draining
	to_the_end "drained_$by"
	send "drained_$by" end
	finish "drained_$by"
	run "$SCOPETRACE" detach --pin "$dir"
	expect_status 0 "detach"
	finish "drainer_$by"
	expect_status 0 "the drainer"
	expect_in "$T/$by.scope" manual before 10
	expect_in "$T/$by.scope" manual after 10
	# The kernel filters by the first thread, which is another after an exec by a thread that was not.
	[ $by = main ] && calls=20 || calls=10
	expect_in "$T/$by.scope" hooked work $calls
	run "$SCOPETRACE" report --json "$T/$by.scope"
	[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "$by: not balanced"

	say "== by $by, watched; the rest is taken by detach"
	begin "watched_$by" $by --watch
	to_the_end "watched_$by" again
	run "$SCOPETRACE" detach --pin "$dir" -o "$T/watched.$by.scope"
	expect_status 0 "detach"
	send "watched_$by" end
	finish "watched_$by"
	expect_in "$T/watched.$by.scope" manual after 10
	expect_in "$T/watched.$by.scope" hooked work 20
done

begin_again() { # NAME [OPTION]...
	local name=$1
	shift
	start "$name" out "$again" libz.so.1
	wait_line "$name" '^pid ([0-9]+)$'
	traced=${BASH_REMATCH[1]}
	send "$name" load
	wait_line "$name" '^loaded$'
	run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f work --ring-size 4M --watch "$@"
	expect_status 0 "attach"
}

# in_force FILE COUNT: so many links to places of the file.
links_to() { status_of "$dir" "sum('/$1' in l['path'] for l in d['links'] if l.get('pid') == $traced)"; }
in_force() { [ "$(links_to "$1")" = "$2" ]; }

# end_again NAME FILE: detached into the file, whose numbers add up; its report is in $T/run.out.
end_again() {
	run "$SCOPETRACE" detach --pin "$dir" -o "$2"
	expect_status 0 "detach"
	kill -KILL "${pid[$1]}"
	wait "${pid[$1]}" 2>/dev/null
	pid[$1]=
	run "$SCOPETRACE" report --json "$2"
	[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "$2: not balanced"
}

say "== a library that the new program maps later"
begin_again later -f 'libz*:zlibVersion'
in_force libz 2 || fail "the library is not hooked"
send later call
wait_line later '^called$'
send later exec
wait_line later '^again$'
wait_until "the watcher hooks the program again" in_force execagain 2
in_force libz 0 || fail "what is not mapped is hooked"
send later call
wait_line later '^called$'
send later load
wait_line later '^loaded$'
wait_until "the watcher hooks the library again" in_force libz 2
send later call
wait_line later '^called$'
[ "$(status_of "$dir" 'sum("pid" in l for l in d["links"])')" = 4 ] || fail "links that are in force nowhere stay"
end_again later "$T/later.scope"
expect_in "$T/later.scope" hooked work 30
expect_in "$T/later.scope" hooked zlibVersion 20

say "== calls flat out while it is hooked again"
# The library's many places are hooked after the program's one, which is hit meanwhile.
begin_again flat --returns instruction -f 'libz*:*'
count=$(links_to libz)
[ "$count" -ge 2 ] || fail "the library is not hooked"
send flat flat
wait_line flat '^again$'
wait_until "the watcher hooks it again" in_force libz "$count"
entries() { status_of "$dir" '[f["entries"] for f in d["functions"] if f["symbol"] == "work"][0]'; }
wait_until "its calls are seen" eval '[ "$(entries)" -gt 100 ]'
send flat stop
wait_line flat '^truth work=([0-9]+)$' 120
truth=${BASH_REMATCH[1]}
end_again flat "$T/flat.scope"
python3 - "$T/run.out" "$truth" <<'CHECK' || fail "calls that never happened"
import json
import sys

work = [f for f in json.load(open(sys.argv[1]))["functions"] if f["name"] == "work"][0]
account = {term: work[term] for term in ("entries", "completed", "unwound", "orphans")}
print(f"{sys.argv[2]} calls, {account}")
assert account["unwound"] == 0 and account["entries"] <= int(sys.argv[2])
CHECK

# Another file has its name where we are.
mkdir "$T/inside"
cp "$O/targets/flight" "$T/inside/prog"
cat >"$T/contained.sh" <<'END'
mount -t tmpfs none "$1/inside" && cp "$2" "$1/inside/prog" && exec "$1/inside/prog" libz.so.1
END
begin_contained() { # NAME COMMAND...
	local name=$1
	shift
	start "$name" out "$@"
	wait_line "$name" '^pid ([0-9]+)$'
	wait_line "$name" '^first$'
}
change() { # OPTION...
	run "$SCOPETRACE" set --pin "$dir" "$@"
	expect_status 0 "set $*"
}
own=(unshare --mount --propagation private sh "$T/contained.sh" "$T" "$again")

say "== processes that see other mounts: added, hooked again, taken out and added"
begin_contained first "${own[@]}"
first=${pid[first]}
begin_contained same nsenter --mount="/proc/$first/ns/mnt" "$T/inside/prog" libz.so.1
begin_contained copy "${own[@]}"
run "$SCOPETRACE" attach --pin "$dir" -p "$first" -f work --ring-size 1M --watch
expect_status 0 "attach"
change --add-pid "${pid[same]}" --add-pid "${pid[copy]}"
for name in first same copy; do
	traced=${pid[$name]}
	in_force prog 2 || fail "$name is not hooked"
	[ $name = copy ] || send "$name" exec
	[ $name = copy ] || wait_line "$name" '^again$'
	wait_until "the watcher hooks $name again" in_force prog 2
done
change --remove-pid "${pid[same]}" --remove-pid "${pid[copy]}" --remove-pid "$first" --add-pid "$first"
for name in first same copy; do
	send "$name" call
	wait_line "$name" '^called$'
done
[ "$(entries)" = 10 ] || fail "$(entries) calls are seen, not 10"
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach"
for name in first same copy; do
	kill -KILL "${pid[$name]}"
	wait "${pid[$name]}" 2>/dev/null
	pid[$name]=
done
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "programs that run others"
