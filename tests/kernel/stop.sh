#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# However a capture ends, nothing that was made for it is left, and its target runs on.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/demo"
FUNCTIONS=(-f read_input -f solve_contacts -f integrate_particles)

# A demonstration under capture: $target is its pid.
begin() {
	snapshot "$T/$1.before"
	start "demo-$1" out "$O/targets/demo" $2
	wait_line "demo-$1" '^demo: pid ([0-9]+)'
	target=${BASH_REMATCH[1]}
	start "record-$1" err "$SCOPETRACE" record -p "$target" "${FUNCTIONS[@]}" -o "$T/$1.scope" $3
	wait_line "record-$1" "armed 3 of 3 functions in pid $target"
}

end_demo() {
	kill -INT "$target"
	finish "demo-$1"
	expect_status 0 "the demonstration after $1"
}

# The capture is whole, and holds hooked and manual scopes.
expect_capture() {
	expect_text "$T/record-$1.log" '[0-9] calls?;' "$1: closing line"
	run "$SCOPETRACE" export "$T/$1.scope" -t csv
	expect_status 0 "$1: export"
	expect_text "$T/run.out" ',hooked,read_input,' "$1"
	expect_text "$T/run.out" ',manual,frame,' "$1"
}

# The same target can be captured once more: nobody holds its segment or its probes.
expect_capturable() {
	run "$SCOPETRACE" record -p "$target" -f read_input --duration 200ms -o "$T/again.scope" --ready-fd 7 7>"$T/ready"
	expect_status 0 "a second capture after $1"
	expect_text "$T/ready" '^ready$' "--ready-fd"
}

# What was captured is on the disk: the loader writes it out at least each second.
wait_until_written() {
	local deadline=$((SECONDS + PATIENCE))
	until [ "$(stat -c %s "$T/$1.scope" 2>/dev/null || echo 0)" -ge 8192 ]; do
		[ $SECONDS -lt $deadline ] || fail "the capture '$1' does not grow"
		sleep 0.02
	done
}

say "Ctrl-C"
begin interrupt "" ""
wait_until_written interrupt
kill -INT "${pid[record-interrupt]}"
finish record-interrupt
expect_status 0 "record after Ctrl-C"
expect_capture interrupt
expect_capturable interrupt
end_demo interrupt
expect_nothing_left "$T/interrupt.before" "Ctrl-C"

say "--duration"
begin duration "" "--duration 500ms"
finish record-duration
expect_status 0 "record --duration"
expect_capture duration
end_demo duration
expect_nothing_left "$T/duration.before" "--duration"

say "the target ends"
begin exit 1 ""
finish record-exit
expect_status 0 "record when the target ended"
finish demo-exit
expect_status 0 "the demonstration that ended while captured"
expect_capture exit
expect_nothing_left "$T/exit.before" "the target's end"

say "the target is killed"
begin killed "" ""
wait_until_written killed
kill -KILL "$target"
finish record-killed
expect_status 0 "record when the target was killed"
finish demo-killed
expect_status 137 "the killed demonstration"
expect_capture killed
expect_nothing_left "$T/killed.before" "kill -9 of the target"

say "the loader is killed"
begin loader "" ""
wait_until_written loader
kill -KILL "${pid[record-loader]}"
finish record-loader
expect_status 137 "the killed loader"
expect_capturable loader
run "$SCOPETRACE" export "$T/loader.scope" -t csv
expect_status 0 "export of a capture cut short"
expect_text "$T/run.err" 'cut short' "export of a capture cut short"
expect_text "$T/run.out" ',manual,frame,' "what a killed loader had written"
end_demo loader
expect_nothing_left "$T/loader.before" "kill -9 of the loader"
