#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Call for call: what a program truly did, against what the capture says (design/quality.md, "Tests").
#
#	call_for_call.sh [calls|manual|escape|overflow|sweep]...	default: all but sweep
#
# THREADS, RATE and CALLS in the environment make it larger (8 x 5000 x 5000); KEEP=DIR keeps the captures. LOADER names
# another loader than the one built (tests/mutants).
KEEP=${KEEP:+$(realpath -m "$KEEP")}
. "$(dirname "$0")/lib.sh"

LOADER=${LOADER:-$SCOPETRACE}
THREADS=${THREADS:-2}
RATE=${RATE:-5000}
CALLS=${CALLS:-5000}
PLAIN=$O/targets/calls
NOP5=$O/targets/calls.nop5
need "$LOADER" "$PLAIN"
[ "$(uname -m)" = x86_64 ] && need "$NOP5" || NOP5=$PLAIN

failures=0

# one NAME PROGRAM "PROGRAM OPTIONS" "RECORD OPTIONS" "CHECKER OPTIONS": the go line is sent only when the probes are armed.
one() {
	local name=$1 program=$2 program_options=$3 record_options=$4 checker_options=$5 where=$T/$1
	say "== $name: calls $program_options; record $record_options"
	mkdir "$where"
	start "calls-$name" out "$program" --wait-go $program_options
	wait_line "calls-$name" '^pid [0-9]+$'
	start "record-$name" err "$LOADER" record -p "${line#pid }" -f outer -f middle -f inner \
		-o "$where/calls.scope" $record_options
	wait_line "record-$name" 'armed 3 of 3 functions'
	send "calls-$name" go
	wait_line "calls-$name" '^truth '
	finish "calls-$name"
	expect_status 0 "calls"
	finish "record-$name"
	[ "$status" = 0 ] || { say "record: exit status $status"; failures=$((failures + 1)); }
	run "$LOADER" export "$where/calls.scope" -t csv -o "$where/calls.csv"
	expect_status 0 "export -t csv"
	run "$LOADER" report "$where/calls.scope" --json
	[ -s "$T/run.out" ] || fail "report --json printed nothing"
	mv "$T/run.out" "$where/calls.json"
	cp "$T/record-$name.log" "$where/record.log"
	cp "$T/calls-$name.log" "$where/truth.log"
	grep -E ' calls?;|error:' "$where/record.log"
	python3 "$HERE/check_calls.py" --csv "$where/calls.csv" --json "$where/calls.json" --status "$where/record.log" \
		--program "$where/truth.log" $checker_options || failures=$((failures + 1))
	[ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && cp -r "$where" "$KEEP/"; }
	rm -rf "$where"
}

# Threads and rates upwards, until even the default ring may overflow: then the accounts must still add up.
sweep() {
	local threads rate
	for threads in 1 2 4 8 16; do
		for rate in 1000 5000 20000 0; do
			one "sweep-$threads-$rate" "$NOP5" "--threads $threads --calls 5000 --rate $rate" "" --allow-ring-loss
		done
	done
}

for what in "${@:-calls manual escape overflow}"; do
	for shape in $what; do
		case $shape in
		calls) one calls "$NOP5" "--threads $THREADS --calls $CALLS --rate $RATE" "" "" ;;
		manual) one manual "$NOP5" "--threads $THREADS --calls $CALLS --rate $RATE --manual" "" "" ;;
		escape)
			one escape "$NOP5" "--threads $THREADS --calls $CALLS --rate $RATE --escape 10" "" ""
			one escape-plain "$PLAIN" "--threads $THREADS --calls 500 --rate 500 --escape 7" "" ""
			;;
		overflow) one overflow "$NOP5" "--threads 4 --calls 5000 --rate 0" "--ring-size 4096" --allow-ring-loss ;;
		sweep) sweep ;;
		*) fail "no such shape: $shape" ;;
		esac
	done
done
[ $failures = 0 ] || fail "$failures failures"
