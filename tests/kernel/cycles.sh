#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Probes that come and go under a program that is deep inside its traced functions and throws all the while: two hundred
# times (a thousand with SCOPETRACE_LONG=1) by links made anew and closed, and meanwhile by whole recorders, every third of
# which is killed. The program ends as it does untraced, and the kernel finds nothing to complain of.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/cxxexc" "$O/stress/cycles"
snapshot "$T/before"
kernel_log_mark
FUNCTIONS=(catcher middle rethrower thrower)
CYCLES=200 RECORDERS=9
[ -z "${SCOPETRACE_LONG:-}" ] || CYCLES=1000 RECORDERS=60

start program out "$O/targets/cxxexc" --wait-go 0 deep
wait_line program '^pid [0-9]+$'
target=${line#pid }
send program go
hooks=()
for function in "${FUNCTIONS[@]}"; do
	hooks+=(-f "$function")
done
SECONDS=0
start cycles out "$O/stress/cycles" "$target" $CYCLES "${FUNCTIONS[@]}"

# What a recorder that is killed leaves to the kernel, and one that ends leaves nobody.
for ((i = 0; i < RECORDERS; i++)); do
	start "record$i" err "$SCOPETRACE" record -p "$target" "${hooks[@]}" -o "$T/record.scope"
	wait_line "record$i" 'armed 4 of 4'
	if ((i % 3 == 2)); then
		kill -KILL "${pid[record$i]}"
		finish "record$i"
		expect_status 137 "killed recorder $i"
	else
		kill -INT "${pid[record$i]}"
		finish "record$i"
		expect_status 0 "recorder $i"
		expect_text "$T/record$i.log" 'balanced$' "recorder $i"
	fi
	rm -f "$T/record$i".*
done
finish cycles 3000
expect_status 0 "the cycles"

kill -0 "$target" 2>/dev/null || fail "the program has ended early"
send program stop
finish program
expect_status 0 "the program"
say "$(cat "$T/cycles.log"), $RECORDERS recorders, in $SECONDS s; $(grep ^truth "$T/program.log")"
expect_text "$T/program.log" '^truth catcher=([0-9]+)/\1 ' "the program's account"
expect_kernel_silent "the program" "$target"
expect_nothing_left "$T/before" "cycles"
