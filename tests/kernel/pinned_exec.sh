#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A process of a pinned capture that runs another program by exec: its manual scopes go on with the new program, while one
# drains and while only the watcher is there; its calls too if its first thread called exec, or the watcher hooks it again.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/execscopes
need "$SCOPETRACE" "$target"
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
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "programs that run others"
