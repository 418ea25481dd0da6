#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Functions that look at their own return address, and code that is not of 64 bits: the program runs as unwatched in every
# mode, and what cannot be hooked so is named.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/deepjump" "$O/targets/lookers" "$O/targets/lookers.profiled" "$O/targets/bits32"
snapshot "$T/before"

# calls FILE NAME: by the report, in $calls.
calls() {
	calls=$("$SCOPETRACE" report --json "$1" | python3 -c "
import json, sys
report = json.load(sys.stdin)
print(sum(f['calls'] for f in report['functions'] if f['name'] == '$2'))")
}

say "== functions that look at their return address"
"$O/targets/lookers" >"$T/unwatched" || fail "lookers, unwatched: exit status $?"
for mode in auto instruction none; do
	run "$SCOPETRACE" record "--returns=$mode" -f 'look_*' -o "$T/$mode.scope" -- "$O/targets/lookers"
	expect_status 0 "lookers, --returns=$mode"
	cmp -s "$T/unwatched" "$T/run.out" || fail "lookers, --returns=$mode: $(cat "$T/run.out")"
	for function in look_own look_next look_set look_profiled; do
		calls "$T/$mode.scope" $function
		[ "$calls" = 100 ] || fail "lookers, --returns=$mode: $calls calls of $function, not 100"
	done
	say "--returns=$mode: $(cat "$T/run.out")"
done
# Each by itself: in this process nothing else calls for the safe way.
for function in look_own look_next look_pop look_profiled; do
	run "$SCOPETRACE" record --returns=uretprobe --force -f $function -o "$T/refused.scope" -- "$O/targets/lookers"
	expect_status 125 "$function by uretprobe"
	expect_text "$T/run.err" "$function.* looks at its own return address" "$function by uretprobe"
done
run "$SCOPETRACE" record --returns=uretprobe --force -f look_set -f main -o "$T/set.scope" -- "$O/targets/lookers"
expect_status 0 "look_set by uretprobe, and main"
cmp -s "$T/unwatched" "$T/run.out" || fail "look_set by uretprobe, and main: $(cat "$T/run.out")"
expect_text "$T/run.err" 'look_set returns cannot be told: it looks' "look_set by uretprobe"

say "== compiled with -pg, with -finstrument-functions"
for build in profiled instrumented; do
	run "$SCOPETRACE" functions "$O/targets/lookers.$build" 'look_own'
	expect_status 0 "functions of lookers.$build"
	expect_text "$T/run.out" '^look_own .* instruction$' "lookers.$build"
done

say "== calls left by longjmp from ever deeper: the kernel would keep 64 uretprobes for them, and see no return after"
run "$SCOPETRACE" record -f left -f after -o "$T/jump.scope" -- "$O/targets/deepjump"
expect_status 0 "deepjump"
expect_text "$T/run.out" '^left 70 after 100$' "deepjump"
expect_text "$T/run.err" 'may longjmp out of them' "the reason"
calls "$T/jump.scope" after
[ "$calls" = 100 ] || fail "deepjump: $calls calls of after, not 100"
calls "$T/jump.scope" left
[ "$calls" = 70 ] || fail "deepjump: $calls calls of left, not 70"
# By uretprobe the later ones are not seen, and the account tells.
run "$SCOPETRACE" record --returns=uretprobe -f left -f after -o "$T/jump.scope" -- "$O/targets/deepjump"
expect_status 0 "deepjump by uretprobe"
calls "$T/jump.scope" after
say "by uretprobe $calls of 100 calls are seen: $(grep -o '[0-9]* too deep' "$T/run.err")"
[ "$calls" = 100 ] || expect_text "$T/run.err" ' [1-9][0-9]* too deep' "calls without a return"

say "== code of 32 bits"
run "$SCOPETRACE" functions "$O/targets/bits32" twice
expect_status 0 "functions of bits32"
expect_text "$T/run.out" '^twice .* refused +refused$' "functions of bits32"

bits32_is_refused() {
	local mode
	for mode in auto uretprobe instruction none; do
		run "$SCOPETRACE" record "--returns=$mode" -f twice -o "$T/bits.scope" -- "$O/targets/bits32"
		expect_status 125 "bits32, --returns=$mode"
		expect_text "$T/run.err" 'entry of twice.* code of another kind than 64 bits' "bits32, --returns=$mode"
		[ ! -e "$T/bits.scope" ] || fail "bits32, --returns=$mode: a file is left"
	done
	start bits32 out "$O/targets/bits32" wait
	run "$SCOPETRACE" record -p "${pid[bits32]}" -f twice -o "$T/bits.scope" --duration 1
	expect_status 1 "record -p of bits32"
	expect_text "$T/run.err" 'code of another kind than 64 bits' "record -p of bits32"
	send bits32 go
	wait_line bits32 '^499500 of 499500$'
	finish bits32
	expect_status 0 "bits32"
}

if "$O/targets/bits32" >"$T/run.out" 2>&1; then
	bits32_is_refused
else
	say "this kernel runs no programs of 32 bits: only their list was looked at"
fi

expect_nothing_left "$T/before" "lookers"
