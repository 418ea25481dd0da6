#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Under bpftool-managed pinned maps: what bpftool loads is used, what it prints has names, what it writes is in force at
# once; attach is all or nothing, and detach removes everything, whatever happened before.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/calls
need "$SCOPETRACE" "$target"
functions=(-f outer -f middle -f inner)
snapshot "$T/before"

# new_program NAME CALLS RATE: waits for a line before its first call; its pid is in $traced. It leaves the processors to
# whoever looks at it.
new_program() {
	start "$1" out nice -n 19 "$target" --threads 2 --calls "$2" --rate "$3" --sleep --wait-go
	wait_line "$1" '^pid ([0-9]+)$'
	traced=${BASH_REMATCH[1]}
}

# No more than is needed to end it.
end_program() {
	kill -KILL "${pid[$1]}" 2>/dev/null
	wait "${pid[$1]}" 2>/dev/null
	pid[$1]=
}

attach() { # DIR PID [OPTION]...
	local dir=$1 of=$2
	shift 2
	run "$SCOPETRACE" attach --pin "$dir" -p "$of" "${functions[@]}" "$@"
}

change() { # DIR CHANGE...
	run "$SCOPETRACE" set --pin "$@"
}

detach() {
	run "$SCOPETRACE" detach --pin "$@"
	expect_status 0 "detach $*"
}

dump() { # DIR MAP
	"$B" -j map dump pinned "$1/maps/$2" >"$T/dump.json" || fail "bpftool cannot dump $2"
}

bytes_of() { # KEY-BYTES MAP-PATH: the value's bytes, as `bpftool map update` takes them
	# shellcheck disable=SC2086
	"$B" -j map lookup pinned "$2" key $1 | python3 -c 'import json, sys; print(*json.load(sys.stdin)["value"])'
}

say "== bpftool loads, with a ring of its own making, as the page says; attach finds it"
dir=$FS/managed
mapfile -t lines < <(sed -nE 's/^\.Dl ((mkdir|bpftool map create|bpftool prog loadall) .*)/\1/p' \
	"$HERE/../../man/scopetrace-pinned.7")
[ ${#lines[@]} = 3 ] || fail "the man page has another recipe than this test knows: ${lines[*]}"
for line in "${lines[@]}"; do
	line=${line//DIR/$dir}
	line=${line//\/sys\/fs\/bpf/$FS}
	line=${line/ scopetrace.bpf.o/ $O/scopetrace.bpf.o}
	PATH=$PATH:$(dirname "$B") bash -ec "${line/67108864/1048576}" >"$T/recipe.out" 2>&1 || fail "$line: $(cat "$T/recipe.out")"
done
new_program one 300 500
attach "$dir" "$traced"
expect_status 0 "attach"
expect_text "$T/run.err" 'using the programs and maps' "attach"
expect_text "$T/run.err" 'armed .* with those that were loaded there' "attach"
[ "$(status_of "$dir" 'd["ring_bytes"]')" = 1048576 ] || fail "the ring is not bpftool's"
attach "$dir" "$traced"
expect_status 1 "a second attach to the same place"
expect_text "$T/run.err" 'attached .* already' "a second attach"
[ "$(status_of "$dir" 'd["state"]')" = running ] || fail "a refused attach has ended the capture"

say "== tracing without a loader; the account comes with detach"
send one go
wait_line one '^truth (.*)$'
printf '%s\n' "${BASH_REMATCH[1]}" >"$T/truth.json"
finish one
truth() { json "d['entries']['$1']" "$T/truth.json"; }
for name in outer middle inner; do
	seen=$(status_of "$dir" "[f['entries'] for f in d['functions'] if f['symbol'] == '$name'][0]")
	[ "$seen" = "$(truth "$name")" ] || fail "status: $seen calls of $name, not $(truth "$name")"
done
[ "$(status_of "$dir" 'd["processes"][0]["ended"]')" = True ] || fail "status does not see that the process has ended"

say "== bpftool prints it by field"
dump "$dir" functions
[ "$(json 'sorted((v["name"], v["module"].rpartition("/")[2]) for v in (e["formatted"]["value"] for e in d) if v["name"])' \
	"$T/dump.json")" = "[('inner', 'calls'), ('middle', 'calls'), ('outer', 'calls')]" ] ||
	fail "functions: $(head -c 300 "$T/dump.json")"
dump "$dir" targets
[ "$(json 'd[0]["formatted"]' "$T/dump.json")" = "{'key': $traced, 'value': {'on': 1, 'reserved': 0}}" ] ||
	fail "targets: $(head -c 300 "$T/dump.json")"
dump "$dir" settings
[ "$(json 'd[0]["formatted"]["value"]["generation"]' "$T/dump.json")" = 1 ] || fail "settings: $(head -c 300 "$T/dump.json")"
for id in 0 1 2; do # all 8192 would take a second to read
	"$B" -j map lookup pinned "$dir/maps/counters" key $id 0 0 0 || fail "bpftool map lookup counters"
done >"$T/dump.json"
total=$(python3 -c 'import json, sys
print(sum(c["value"]["entries"] for line in sys.stdin for c in json.loads(line)["formatted"]["values"]))' <"$T/dump.json")
[ "$total" = $(($(truth outer) + $(truth middle) + $(truth inner))) ] || fail "counters: $total entries"

detach "$dir" -o "$T/rest.scope"
run "$SCOPETRACE" report --json "$T/rest.scope"
expect_status 0 "report of what detach took"
[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "not balanced"
rm "$FS/ring"
expect_empty "$FS" "detach"

say "== two captures beside each other, with live control"
new_program left 100000000 200
left=$traced
new_program right 100000000 200
right=$traced
attach "$FS/a/first" "$left" -f caller_main
expect_status 1 "attach where the directory above is not there"
expect_text "$T/run.err" "$FS/a is not there" "attach where the directory above is not there"
expect_empty "$FS" "a refused attach"
mkdir "$FS/a"
attach "$FS/a/first" "$left" -f caller_main
expect_status 0 "attach"
expect_text "$T/run.err" 'armed .* with programs and maps of its own' "attach"
mkdir -m 755 "$FS/b"
attach "$FS/b" "$right" --ring-size 4M --returns instruction
expect_status 0 "attach beside another"
[ "$(stat -c %a "$FS/b")" = 700 ] || fail "others can enter the directory, and lock it"
send left go
send right go
sum_of() { echo "sum(f['$1'] for f in d['functions']$2)"; } # TERM CONDITION
counts() { status_of "$1" "$(sum_of "$2" "$3")"; }
more() { # DIR TERM [CONDITION]: the count grows from here on
	local now
	now=$(counts "$1" "$2" "${3:-}")
	wait_until "$2 of $1 grows" test_more "$now" "$@"
}
test_more() { [ "$(counts "$2" "$3" "${4:-}")" -gt "$1" ]; }
# Entries are filtered, all of them: none more is opened while many are.
none_opened() { # DIR CONDITION
	local opened filtered
	more "$1" filtered "$2"
	opened=$(json "$(sum_of opened "$2")" "$T/status.json")
	filtered=$(json "$(sum_of filtered "$2")" "$T/status.json")
	wait_until "calls of $1 are filtered" test_more $((filtered + 40)) "$1" filtered "$2"
	[ "$(json "$(sum_of opened "$2")" "$T/status.json")" = "$opened" ] ||
		fail "$1: calls are opened although they are off ($2)"
}
more "$FS/a/first" completed
more "$FS/b" completed
[ "$(status_of "$FS/b" '[p["pid"] for p in d["processes"]]')" = "[$right]" ] || fail "captures meet"

say "== what is open now: the two threads' own functions, by status and by bpftool"
both_open() { [ "$(status_of "$FS/a/first" 'sorted(c["symbol"] for c in d["open"]).count("caller_main")')" = 2 ]; }
wait_until "both threads are in caller_main" both_open
[ "$(status_of "$FS/a/first" '[f["open"] for f in d["functions"] if f["name"] == "caller_main"]')" = "[2]" ] ||
	fail "status counts other open calls than it lists"
id=$(status_of "$FS/a/first" '[f["id"] for f in d["functions"] if f["symbol"] == "caller_main"][0]')
dump "$FS/a/first" open_scopes
running=$(json "sum(v['chain_length'] > 0 and v['frames'][0]['function'] == $id and v['tgid'] == $left
	for v in (e['formatted']['value'] for e in d))" "$T/dump.json")
[ "$running" = 2 ] || fail "bpftool shows $running threads in caller_main"

flags_are() { # DIR FLAGS: of settings, by bpftool alone: bytes 16 to 19
	local value
	read -r -a value <<<"$(bytes_of "0 0 0 0" "$1/maps/settings")"
	value[16]=$2
	"$B" map update pinned "$1/maps/settings" key 0 0 0 0 value "${value[@]}" || fail "bpftool map update settings"
}
flags_are "$FS/a/first" 0x0b # PAUSED | TARGETS | HASH_ONLY
none_opened "$FS/a/first" ""
[ "$(status_of "$FS/a/first" 'd["state"]')" = paused ] || fail "status does not say paused"
more "$FS/b" completed
flags_are "$FS/a/first" 0x0a
more "$FS/a/first" completed

say "== a function off, by bpftool and by name"
id=$(status_of "$FS/a/first" '[f["id"] for f in d["functions"] if f["symbol"] == "inner"][0]')
read -r -a value <<<"$(bytes_of "$id 0 0 0" "$FS/a/first/maps/functions")"
value[0]=$(printf '0x%02x' $((value[0] | 1))) # FUNCTION_OFF
"$B" map update pinned "$FS/a/first/maps/functions" key "$id" 0 0 0 value "${value[@]}" || fail "bpftool map update functions"
none_opened "$FS/a/first" " if f['symbol'] == 'inner'"
more "$FS/a/first" completed " if f['symbol'] == 'outer'"
change "$FS/a/first" --on inner --off middle
expect_status 0 "set"
more "$FS/a/first" completed " if f['symbol'] == 'inner'"
none_opened "$FS/a/first" " if f['symbol'] == 'middle'"
change "$FS/a/first" --on 'mid*' --min 1h
expect_status 0 "set"
more "$FS/a/first" below_minimum " if f['symbol'] == 'middle'"
change "$FS/a/first" --min 0 --min inner=1h
more "$FS/a/first" below_minimum " if f['symbol'] == 'inner'"
change "$FS/a/first" --off nothing_like_it
expect_status 1 "set of a function that is not there"

say "== a name with brackets is found as it stands"
mapfile -t renamed < <(printf 'in[ner]' | od -An -v -tu1 -w1)
"$B" map update pinned "$FS/a/first/maps/functions" key "$id" 0 0 0 \
	value "${value[@]:0:128}" "${renamed[@]}" "${value[@]:$((128 + ${#renamed[@]}))}" || fail "bpftool map update functions"
change "$FS/a/first" --off 'in[ner]'
expect_status 0 "set of a name with brackets"
[ "$(status_of "$FS/a/first" '[f["off"] for f in d["functions"] if f["symbol"] == "in[ner]"]')" = "[True]" ] ||
	fail "a name with brackets was taken for a pattern"

say "== narrowed to fewer processes, and another one added"
"$B" map update pinned "$FS/b/maps/targets" key $((right & 255)) $((right >> 8 & 255)) $((right >> 16 & 255)) 0 \
	value 0 0 0 0 0 0 0 0 || fail "bpftool map update targets"
none_opened "$FS/b" ""
change "$FS/b" --add-pid "$left"
expect_status 0 "set --add-pid"
more "$FS/b" completed
[ "$(status_of "$FS/b" 'sorted(p["links"] for p in d["processes"])')" = "[2, 2]" ] || fail "the added process has no links of its own"
change "$FS/b" --add-pid "$left"
expect_status 1 "adding a process twice"
change "$FS/b" --add-pid $$
expect_status 1 "adding a process that runs nothing of it"
change "$FS/b" --remove-pid "$left"
expect_status 0 "set --remove-pid"
[ "$(status_of "$FS/b" 'sum(p["links"] for p in d["processes"])')" = 2 ] || fail "links of a process that was taken out stay"
more "$FS/a/first" completed " if f['symbol'] == 'outer'"
# The capture outlives its last process, and takes it, or another, again.
change "$FS/b" --remove-pid "$right"
expect_status 0 "removing the last process"
[ "$(status_of "$FS/b" '[len(d["processes"]), sum(l.get("pid", 0) for l in d["links"])]')" = "[0, 0]" ] ||
	fail "something of a process is left: $(cat "$T/status.json")"
for again in "$left" "$right"; do
	change "$FS/b" --add-pid "$again"
	expect_status 0 "adding a process after the last one has gone"
	more "$FS/b" completed
done
[ "$(status_of "$FS/b" 'sorted(p["links"] for p in d["processes"])')" = "[2, 2]" ] || fail "an added process has not its links"
change "$FS/b" --remove-pid "$left"
change "$FS/b" --remove-pid "$right" --add-pid "$right"
expect_status 0 "removing and adding the only process"
more "$FS/b" completed
# What is left by a hooked exit is counted as completed later, and open no more.
for _ in 1 2 3 4 5; do
	run "$SCOPETRACE" status --pin "$FS/b"
	awk '/^ +entries/ { table = 1; next } /^open now: / { exit $3 != sum } table { sum += $4 }' "$T/run.out" ||
		fail "status shows other numbers of open calls: $(cat "$T/run.out")"
done

say "== who changes it waits for another who does"
hold "$FS/b"
start waits err "$SCOPETRACE" set --pin "$FS/b" --min 1h
wait_line waits 'waiting for another command'
release
finish waits
expect_status 0 "set beside another command"
[ "$(status_of "$FS/b" 'd["minimum_ns"]')" = 3600000000000 ] || fail "the change was not made"
hold "$FS/b"
start ends err "$SCOPETRACE" detach --pin "$FS/b"
wait_line ends 'waiting for another command'
release
finish ends
expect_status 0 "detach beside another command"
[ ! -e "$FS/b" ] || fail "detach has left something: $(find "$FS/b")"
mkdir -p "$FS/b/links"
hold "$FS/b"
start comes err "$SCOPETRACE" attach --pin "$FS/b" -p "$right" "${functions[@]}"
wait_line comes 'waiting for another command'
rmdir "$FS"/b/{progs,maps,links} "$FS/b" # as a detach at its end
release
finish comes
expect_status 0 "attach while another is just being removed"
detach "$FS/b"
more "$FS/a/first" completed " if f['symbol'] == 'outer'"
detach "$FS/a/first"
end_program right
rmdir "$FS/a"
expect_empty "$FS" "two captures"

say "== programs of another build are refused, and stay"
python3 - "$O/scopetrace.bpf.o" "$T/other.bpf.o" <<-'END'
	# The time by which duplicates are told, of `if r > 1000` in scope_entry, made another.
	import sys, struct
	data, found = bytearray(open(sys.argv[1], "rb").read()), 0
	for at in range(0, len(data) - 8, 8):
	    code, _, _, immediate = struct.unpack_from("<BBhi", data, at)
	    if code & 7 == 5 and code & 8 == 0 and immediate in (999, 1000):
	        struct.pack_into("<i", data, at + 4, immediate + 7)
	        found += 1
	assert found, "no such instruction"
	open(sys.argv[2], "wb").write(data)
END
mkdir "$FS/other"
"$B" prog loadall "$T/other.bpf.o" "$FS/other/progs" pinmaps "$FS/other/maps" || fail "loading the other build"
attach "$FS/other" "$left"
expect_status 1 "attach to another build"
expect_text "$T/run.err" 'another build' "attach to another build"
[ -e "$FS/other/progs/scope_entry" ] || fail "a refused attach has removed what bpftool loaded"
[ ! -e "$FS/other/links" ] || fail "a refused attach has left its folder"
detach "$FS/other"
expect_empty "$FS" "another build"

say "== an attach that fails leaves nothing; one that is killed is detached"
attach "$FS/none" "$left" -N '*'
[ "$status" != 0 ] || fail "attach with no function"
expect_empty "$FS" "an attach that failed"
attach "$FS/a.b" "$left"
expect_status 1 "attach to a name with a dot"
expect_text "$T/run.err" 'no dots' "attach to a name with a dot"
attach "$T/not-bpffs" "$left"
expect_status 1 "attach outside a BPF file system"
expect_text "$T/run.err" 'BPF file system' "attach outside a BPF file system"
cat >"$T/kill.c" <<-'END'
	#define _GNU_SOURCE
	#include <dlfcn.h>
	#include <linux/bpf.h>
	#include <signal.h>
	#include <stdarg.h>
	#include <stdlib.h>
	#include <sys/syscall.h>
	#include <unistd.h>
	long syscall(long number, ...)
	{
		static int left;
		long a[6];
		va_list list;

		va_start(list, number);
		for (int i = 0; i < 6; i++)
			a[i] = va_arg(list, long);
		va_end(list);
		if (!left)
			left = atoi(getenv("KILLED_AT_PIN"));
		if (number == SYS_bpf && a[0] == BPF_OBJ_PIN && --left == 0)
			kill(getpid(), SIGKILL);
		return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	}
END
half=$FS/half
cd "$FS" || exit 1
attach half "$left"
cd "$T" || exit 1
expect_status 0 "attach by the directory's name alone, where we are"
pins=$(find "$half" -type f | wc -l)
detach "$half"
if cc -shared -fPIC -o "$T/kill.so" "$T/kill.c" 2>"$T/kill.err"; then
	steps=(1 8 "$pins") # of the maps, the programs, the links
	[ -z "${SCOPETRACE_LONG:-}" ] || mapfile -t steps < <(seq "$pins")
	for step in "${steps[@]}"; do
		run env LD_PRELOAD="$T/kill.so" KILLED_AT_PIN="$step" sh -c '"$@"; exit $?' sh "$SCOPETRACE" attach --pin "$half" -p "$left" "${functions[@]}"
		expect_status 137 "attach killed at pin $step"
		[ "$(find "$half" -type f | wc -l)" = $((step - 1)) ] || fail "attach killed at pin $step has made others: $(find "$half")"
		run "$SCOPETRACE" status --pin "$half"
		expect_status 1 "status after an attach that was killed at pin $step"
		expect_text "$T/run.err" 'no capture is|only a part' "status after an attach that was killed at pin $step"
		[ "$step" = 1 ] || { attach "$half" "$left" && expect_status 1 "attach after one that was killed at pin $step"; }
		detach "$half"
		expect_empty "$FS" "an attach killed at pin $step"
	done
else
	say "no compiler: left out"
fi

say "== bpftool without pinmaps; maps with too little room, or just enough"
mkdir "$FS/alone"
"$B" prog loadall "$O/scopetrace.bpf.o" "$FS/alone/progs" >"$T/load.out" 2>&1 || fail "bpftool: $(cat "$T/load.out")"
attach "$FS/alone" "$left"
expect_status 1 "attach to programs without maps"
expect_text "$T/run.err" 'pinmaps' "attach to programs without maps"
[ "$(ls "$FS/alone")" = progs ] || fail "a refused attach has left folders: $(ls "$FS/alone")"
detach "$FS/alone"
"$B" map create "$FS/few" type percpu_array key 4 value 192 entries 2 name counters || fail "bpftool map create"
bpf_load "$FS/room" map name counters pinned "$FS/few"
attach "$FS/room" "$left"
expect_status 1 "attach with too few counters"
expect_text "$T/run.err" 'counters .* 2 entries, and 3 are needed' "attach with too few counters"
detach "$FS/room"
bpf_load "$FS/room"
value_bytes=$("$B" -j map show pinned "$FS/room/maps/open_scopes" | python3 -c 'import json, sys; print(json.load(sys.stdin)["bytes_value"])')
run "$SCOPETRACE" detach --pin "$FS/room"
expect_status 0 "detach of what was only loaded"
"$B" map create "$FS/one" type hash key 16 value "$value_bytes" entries 1 name open_scopes || fail "bpftool map create"
bpf_load "$FS/room" map name open_scopes pinned "$FS/one"
new_program full 20 0
attach "$FS/room" "$traced"
expect_status 0 "attach with room for one open call"
send full go
wait_line full '^truth '
finish full
[ "$(status_of "$FS/room" '[f["entries"] - sum(f[t] for t in ("not_a_call", "too_deep", "filtered", "map_full", "chain_full",
	"opened", "instants")) for f in d["functions"]]')" = "[0, 0, 0]" ] || fail "the account of status does not add up"
[ "$(json 'd["map_full"] > 0 and d["map_full"] == sum(f["map_full"] for f in d["functions"])' "$T/status.json")" = True ] ||
	fail "status hides calls that found no room"
run "$SCOPETRACE" status --pin "$FS/room"
expect_text "$T/run.out" 'calls completed.* [1-9][0-9]* not opened \(map full\)' "status"
detach "$FS/room"
rm "$FS/few" "$FS/one"
expect_empty "$FS" "maps of another size"

say "== content removed by hand"
parts=(maps links)
[ -z "${SCOPETRACE_LONG:-}" ] || parts+=(progs maps/settings)
for part in "${parts[@]}"; do
	attach "$FS/torn" "$left"
	expect_status 0 "attach"
	rm -r "$FS/torn/${part:?}"
	if [ "$part" = maps ]; then
		attach "$FS/torn" "$left"
		expect_status 1 "attach where a part of another capture is"
		[ -e "$FS/torn/progs/scope_entry" ] || fail "a refused attach has removed what was there"
	fi
	detach "$FS/torn"
	expect_empty "$FS" "detach without $part"
done
attach "$FS/torn" "$left"
mkdir "$FS/torn/maps/theirs"
detach "$FS/torn"
expect_text "$T/run.err" 'maps/theirs is a directory, which is not ours' "detach beside a directory"
[ "$(find "$FS/torn" -mindepth 1)" = "$FS/torn/maps"$'\n'"$FS/torn/maps/theirs" ] || fail "left: $(find "$FS/torn")"
rm -r "$FS/torn"
run "$SCOPETRACE" detach --pin "$FS/torn"
expect_status 1 "detach of nothing"
run python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' \
	"$SCOPETRACE" detach --pin "$FS/torn" -o -
expect_status 2 "detach to a terminal"
expect_text "$T/run.out" 'standard output is a terminal' "detach to a terminal"

say "== where no BPF file system is mounted"
cat >"$T/unmounted.sh" <<-'END'
	umount -l /sys/fs/bpf 2>/dev/null
	"$1" attach --pin /sys/fs/bpf/own -p "$2" -f outer && "$1" status --pin /sys/fs/bpf/own && "$1" detach --pin /sys/fs/bpf/own
END
run unshare --mount --propagation private bash "$T/unmounted.sh" "$SCOPETRACE" "$left"
expect_status 0 "attach where none is mounted"
expect_text "$T/run.err" 'mounted a BPF file system' "attach where none is mounted"

end_program left
expect_nothing_left "$T/before" "pinned captures"
