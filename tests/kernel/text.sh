#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Code that in memory is not that of its file, and processes that the kernel does not arm: the program runs as unwatched,
# and what is not hooked is named, never shown as not called.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

need "$SCOPETRACE" "$O/targets/textchange" "$O/targets/textrel"
snapshot "$T/before"

# runs NAME MODE: the program, working.
runs() {
	start "$1" out "$O/targets/textchange" "$2"
	wait_line "$1" '^pid [0-9]+$'
}

ends_right() {
	send "$1" end
	wait_line "$1" '^calls [1-9][0-9]* right [1-9][0-9]*$'
	[[ $line =~ ^calls\ ([0-9]+)\ right\ ([0-9]+)$ ]]
	[ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ] || fail "$1: $line"
	finish "$1"
	expect_status 0 "$1"
}

for mode in auto instruction none; do
	say "== patched before we came, --returns=$mode"
	runs "patch-$mode" patch
	run "$SCOPETRACE" record -p "${pid[patch-$mode]}" "--returns=$mode" -f changed -f plain --duration 300ms -o "$T/patch.scope"
	expect_status 0 "record of a patched program"
	expect_text "$T/run.err" 'entry of changed, which is other code in memory than in its file' "the patched function"
	run "$SCOPETRACE" report "$T/patch.scope"
	expect_text "$T/run.out" '^plain ' "the other function"
	expect_text "$T/run.out" '^Not hooked: changed' "the patched function in the report"
	run "$SCOPETRACE" record -p "${pid[patch-$mode]}" "--returns=$mode" -f changed --duration 300ms -o "$T/patch.scope"
	expect_status 1 "record of a patched function alone"
	ends_right "patch-$mode"
done

say "== code moved to memory of no file"
runs move move
run "$SCOPETRACE" record -p "${pid[move]}" -f changed -f plain --duration 300ms -o "$T/move.scope"
expect_status 0 "record of a program that moved a page"
expect_text "$T/run.err" 'changed is not reached' "the function on the page"
run "$SCOPETRACE" report "$T/move.scope"
expect_text "$T/run.out" '^Not hooked: changed: its probe is not in the memory' "the function in the report"
expect_text "$T/run.out" '^plain ' "the other function"
ends_right move

say "== a first thread that has ended"
for mode in auto instruction none; do
	runs "leader-$mode" leader
	run "$SCOPETRACE" record -p "${pid[leader-$mode]}" "--returns=$mode" -f plain --duration 300ms -o "$T/leader.scope"
	expect_status 1 "record without a first thread, --returns=$mode"
	expect_text "$T/run.err" 'the first thread of process [0-9]+ has ended' "the reason"
	ends_right "leader-$mode"
done

say "== the same, pinned"
runs leader leader
run "$SCOPETRACE" attach --pin "$FS/leader" -p "${pid[leader]}" -f plain
expect_status 1 "attach without a first thread"
expect_text "$T/run.err" 'the first thread of process [0-9]+ has ended' "the reason"
[ ! -e "$FS/leader" ] || fail "attach: a directory is left"
ends_right leader

say "== text relocations"
"$O/targets/textrel" >"$T/unwatched" || fail "textrel, unwatched: exit status $?"
for mode in auto uretprobe instruction none; do
	run "$SCOPETRACE" record "--returns=$mode" -f relocated -f main -o "$T/textrel.scope" -- "$O/targets/textrel"
	expect_status 0 "textrel, --returns=$mode"
	cmp -s "$T/unwatched" "$T/run.out" || fail "textrel, --returns=$mode: $(cat "$T/run.out")"
	expect_text "$T/run.err" 'entry of relocated, which is .*text relocations' "textrel, --returns=$mode"
done

expect_nothing_left "$T/before" "text"
