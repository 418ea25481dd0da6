#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Call for call: what a program truly did, against what the capture says.
#
#	call_for_call.sh [calls|manual|escape|overflow|sweep|rings]...	default: the first four, with SCOPETRACE_LONG=1 all
#
# THREADS, RATE and CALLS in the environment make it larger (8 x 5000 x 5000); KEEP=DIR keeps the captures. LOADER names
# another loader than the one built (tests/mutants). `sweep` and `rings` end with their table, which TABLE=FILE keeps.
KEEP=${KEEP:+$(realpath -m "$KEEP")}
TABLE=${TABLE:+$(realpath -m "$TABLE")}
. "$(dirname "$0")/lib.sh"

LOADER=${LOADER:-$SCOPETRACE}
THREADS=${THREADS:-2}
RATE=${RATE:-5000}
CALLS=${CALLS:-5000}
PLAIN=$O/targets/calls
NOP5=$O/targets/calls.nop5
need "$LOADER" "$PLAIN"
[ "$(uname -m)" = x86_64 ] && need "$NOP5" || NOP5=$PLAIN

TABLE=${TABLE:-$T/table}
CPUS=$(nproc)

failures=0

# disturb NAME KIND PID: what runs beside the program while it is captured. undisturb NAME ends it.
disturb() {
	local i
	case $2 in
	bounced) start "disturb-$1-1" out "$O/targets/bounce" "$3" ;;
	hogs)
		for ((i = 1; i <= CPUS; i++)); do
			start "disturb-$1-$i" out sh -c 'while :; do :; done'
		done
		;;
	esac
}

undisturb() {
	local name
	for name in "${!pid[@]}"; do
		[[ $name == disturb-$1-* && -n ${pid[$name]} ]] || continue
		kill -KILL "${pid[$name]}" 2>/dev/null
		finish "$name"
	done
}

# one NAME PROGRAM "PROGRAM OPTIONS" "RECORD OPTIONS" "CHECKER OPTIONS" [DISTURBANCE]: the go line is sent only when the
# probes are armed.
one() {
	local name=$1 program=$2 program_options=$3 record_options=$4 checker_options=$5 where=$T/$1
	say "== $name: calls $program_options; record $record_options"
	mkdir "$where"
	start "calls-$name" out "$program" --wait-go $program_options
	wait_line "calls-$name" '^pid [0-9]+$'
	start "record-$name" err "$LOADER" record -p "${line#pid }" -f outer -f middle -f inner \
		-o "$where/calls.scope" $record_options
	wait_line "record-$name" 'armed 3 of 3 functions'
	disturb "$name" "${6:-quiet}" "${pid[calls-$name]}"
	send "calls-$name" go
	wait_line "calls-$name" '^truth '
	finish "calls-$name"
	expect_status 0 "calls"
	undisturb "$name"
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

# swept SHAPE PROGRAM THREADS RATE TOTAL "RECORD OPTIONS" [DISTURBANCE]: some half a second of it, at most TOTAL calls of
# outer(); a row of the table.
swept() {
	local shape=$1 threads=$3 rate=$4 calls=$(($5 / $3))
	[ "$rate" = 0 ] || [ $((rate / 2)) -gt "$calls" ] || calls=$((rate / 2))
	one "$shape-$threads-$rate" "$2" "--threads $threads --calls $calls --rate $rate" "$6" \
		"--allow-ring-loss --table $TABLE --shape $shape" "${7:-quiet}"
}

# Threads and rates upwards, to flat out; on both builds, alone, pushed from cpu to cpu, and beside busy programs.
sweep() {
	local disturbance threads rate
	for disturbance in quiet bounced hogs; do
		for threads in 1 2 4 8 16; do
			for rate in 1000 5000 20000 0; do
				swept "nop5,$disturbance" "$NOP5" $threads $rate 20000 "" $disturbance
			done
			for rate in 500 0; do
				swept "plain,$disturbance" "$PLAIN" $threads $rate 4000 "" $disturbance
			done
		done
	done
}

# What the size of the ring is chosen by: flat out on four threads, and on sixteen beside busy programs.
rings() {
	local size
	for size in 64K 256K 1M 4M 8M 16M; do
		swept "nop5,ring=$size" "$NOP5" 4 0 40000 "--ring-size $size"
		swept "nop5,hogs,ring=$size" "$NOP5" 16 0 40000 "--ring-size $size" hogs
	done
}

[ $# -gt 0 ] || set -- calls manual escape overflow ${SCOPETRACE_LONG:+sweep rings}
for shape in "$@"; do
	case $shape in
	calls)
		one calls "$NOP5" "--threads $THREADS --calls $CALLS --rate $RATE" "" ""
		one calls-uretprobe "$NOP5" "--threads $THREADS --calls $CALLS --rate $RATE" --returns=uretprobe ""
		;;
	manual) one manual "$NOP5" "--threads $THREADS --calls $CALLS --rate $RATE --manual" "" "" ;;
	escape)
		one escape "$NOP5" "--threads $THREADS --calls $CALLS --rate $RATE --escape 10" "" ""
		one escape-plain "$PLAIN" "--threads $THREADS --calls 500 --rate 500 --escape 7" "" ""
		one escape-uretprobe "$NOP5" "--threads $THREADS --calls $CALLS --rate $RATE --escape 10" --returns=uretprobe ""
		;;
	overflow) one overflow "$NOP5" "--threads 4 --calls 5000 --rate 0" "--ring-size 4096" --allow-ring-loss ;;
	sweep | rings) "$shape" ;;
	*) fail "no such shape: $shape" ;;
	esac
done
[ ! -s "$TABLE" ] || column -t -s $'\t' "$TABLE"
[ $failures = 0 ] || fail "$failures failures"
