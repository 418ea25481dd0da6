#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The demonstration, attached to while it runs, as a Perfetto trace: a track for each thread, both kinds of scope nested.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/demo"
command -v protoc >/dev/null || fail "protoc is missing: make deps"
snapshot "$T/before"

start demo out "$O/targets/demo"
wait_line demo '^demo: pid ([0-9]+)'
target=${BASH_REMATCH[1]}
run "$SCOPETRACE" record -p "$target" -f read_input -f pose_skeleton -f step_physics -f solve_contacts -f render_frame \
	-f sort_draw_keys -f submit_draw_call -f integrate_particles -f cull_particles -o "$T/demo.scope" --duration 1s
expect_status 0 "record"
expect_text "$T/run.err" 'armed 9 of 9 functions' "record"
kill -INT "$target"
finish demo
expect_status 0 "the demonstration"

run "$SCOPETRACE" export "$T/demo.scope" -t perfetto -o "$T/demo.pftrace"
expect_status 0 "export -t perfetto"
run "$SCOPETRACE" export "$T/demo.scope" -t csv -o "$T/demo.csv"
expect_status 0 "export -t csv"
protoc --decode_raw <"$T/demo.pftrace" >"$T/decoded" 2>"$T/protoc.err" || fail "protoc cannot decode the trace"
say "protoc: $(grep -c '^1 {' "$T/decoded") packets"
python3 "$HERE/check_perfetto.py" "$T/demo.pftrace" "$T/demo.csv" "$(grep -c '^1 {' "$T/decoded")" || fail "the trace is wrong"
expect_nothing_left "$T/before" "perfetto"
