#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Files that are written to while their functions are hooked: the writer waits until the probes are gone, and the program
# runs as unwatched.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

for n in 1 2; do
	need "$O/targets/libversion$n.so" "$O/targets/version$n.prog"
done
need "$SCOPETRACE" "$O/targets/reloader"
snapshot "$T/before"

# hosts NAME: a program with the first version of the library loaded.
hosts() {
	cp "$O/targets/libversion1.so" "$T/lib$1.so"
	start "$1" out "$O/targets/reloader" "$T/lib$1.so"
	wait_line "$1" '^pid [0-9]+$'
	tell "$1" load "done"
	tell "$1" call 'sum 100'
}

# tell NAME COMMAND ANSWER
tell() {
	send "$1" "$2"
	wait_line "$1" "^$3\$"
}

# records NAME MODE
records() {
	start "record-$1" err "$SCOPETRACE" record -p "${pid[$1]}" "--returns=$2" -f version_of -o "$T/$1.scope"
	wait_line "record-$1" 'Ctrl-C ends'
}

ends_for_the_writer() {
	wait_line "record-$1" "lib$1.so is being written to"
	finish "record-$1"
	expect_status 1 "record of a library that was written to"
	run "$SCOPETRACE" report "$T/$1.scope"
	expect_status 0 "report of what was recorded until then"
	expect_text "$T/run.out" '^version_of ' "the calls until then"
	expect_text "$T/run.out" '(^100 calls|, 100 entries alone).*; balanced$' "the account until then"
}

for mode in auto instruction none; do
	say "== a library written over while nobody has it loaded, --returns=$mode"
	hosts "over-$mode"
	records "over-$mode" "$mode"
	tell "over-$mode" call 'sum 100'
	tell "over-$mode" unload "done"
	cp "$O/targets/libversion2.so" "$T/libover-$mode.so"
	cmp -s "$O/targets/libversion2.so" "$T/libover-$mode.so" || fail "the copy is not what was copied"
	tell "over-$mode" load "done"
	tell "over-$mode" call 'sum 200'
	ends_for_the_writer "over-$mode"
	send "over-$mode" end
	finish "over-$mode"
	expect_status 0 "the program, --returns=$mode"

	say "== the same, cut to nothing, and made anew"
	hosts "cut-$mode"
	records "cut-$mode" "$mode"
	tell "cut-$mode" call 'sum 100'
	tell "cut-$mode" unload "done"
	truncate -s 0 "$T/libcut-$mode.so"
	cat "$O/targets/libversion2.so" >"$T/libcut-$mode.so"
	tell "cut-$mode" load "done"
	tell "cut-$mode" call 'sum 200'
	ends_for_the_writer "cut-$mode"
	say "== and recorded again: no probe of before is left in it"
	records "cut-$mode" "$mode"
	tell "cut-$mode" call 'sum 200'
	kill -INT "${pid[record-cut-$mode]}"
	finish "record-cut-$mode"
	expect_status 0 "record of the new version"
	tell "cut-$mode" call 'sum 200'
	send "cut-$mode" end
	finish "cut-$mode"
	expect_status 0 "the program, --returns=$mode"
done

say "== a program written over between its plan and its start"
for i in {1..20}; do
	cp "$O/targets/version1.prog" "$T/program$i"
	start "start$i" err "$SCOPETRACE" record -f version_of -o "$T/start.scope" -- "$T/program$i"
	# From here the copy comes at some moment of the plan, the arming or the run.
	for ((turn = 0; turn < i * 400; turn++)); do :; done
	cp "$O/targets/version2.prog" "$T/program$i" 2>/dev/null && copied=yes || copied=no
	finish "start$i"
	[ "$status" -lt 128 ] || fail "try $i: the program has died: $status"
	out=$(cat "$T/start$i.out")
	case $out in
	'version 1 right 1000' | 'version 2 right 1000' | '') ;;
	*) fail "try $i: $out" ;;
	esac
	[ "$copied" = no ] || cmp -s "$O/targets/version2.prog" "$T/program$i" || fail "try $i: the copy is not what was copied"
	run "$T/program$i"
	expect_status 0 "try $i: the program afterwards"
done

say "== a writer who was there before"
hosts early
exec 9>>"$T/libearly.so"
records early auto
grep -q 'libearly.so is open for writing' "$T/record-early.log" || fail "no warning of a writer"
tell early call 'sum 100'
tell early unload "done"
printf 'more' >&9
exec 9>&-
wait_line record-early 'libearly.so is being written to'
finish record-early
expect_status 1 "record of a library that was written to without a lease"
send early end
finish early
expect_status 0 "the program"

expect_nothing_left "$T/before" "files"
