#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Drainers of a pinned capture with a time between them in which nobody captures: a manual scope that is open when one
# stops ends where it ended in truth, which the next one finds, and does not last until then.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/flight
need "$SCOPETRACE" "$target"
dir=$FS/gap
snapshot "$T/before"
start program out "$target" 1000
wait_line program '^pid ([0-9]+)$'
traced=${BASH_REMATCH[1]}
run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f work --ring-size 1M
expect_status 0 "attach"
start drainer err "$SCOPETRACE" drain --pin "$dir" -o "$T/1.scope"
wait_line drainer draining
wait_until "manual scopes are captured" eval '[ "$(stat -c %s "$T/1.scope")" -gt 20000 ]'
send program hold
wait_line program '^holding$'
kill -INT "${pid[drainer]}"
finish drainer
expect_status 0 "the first drainer"
send program ""
wait_line program '^held ([0-9]+) ([0-9]+)$'
held=("${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
sleep 0.3 # by which it would be too long
run "$SCOPETRACE" drain --pin "$dir" -d 0.2s -o "$T/2.scope"
expect_status 0 "a second drainer"
! grep -q 'before this capture began' "$T/run.err" || fail "the capture had begun: $(cat "$T/run.err")"
run "$SCOPETRACE" detach --pin "$dir" -o "$T/3.scope"
expect_status 0 "detach"
send program stop
wait_line program '^end$'
finish program

run "$SCOPETRACE" report --json "$T"/?.scope
expect_status 0 "report"
[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "not balanced"
run "$SCOPETRACE" export -t csv "$T"/?.scope
python3 - "$T/run.out" "$T/program.log" "${held[@]}" <<'CHECK' || fail "manual scopes do not end where they ended"
import bisect
import csv
import sys

SLACK = 1_000_000  # of the counter's conversion to ns, over a time in which nobody compared the two
rows = [r for r in csv.DictReader(open(sys.argv[1])) if r["kind"] == "manual"]
slow = [r for r in rows if r["name"] == "m_slow"]
begin, end = int(sys.argv[3]), int(sys.argv[4])
print(f"{len(rows)} manual scopes; m_slow: {slow}, in truth {begin} to {end}")
assert len(slow) == 1 and "unfinished" not in slow[0]["flags"]
assert begin - SLACK <= int(slow[0]["start_ns"]) and abs(int(slow[0]["end_ns"]) - end) <= SLACK
# The others are each in a call of work().
calls = sorted(tuple(map(int, line.split()[1:])) for line in open(sys.argv[2]) if line.startswith("work "))
work = [r for r in rows if r["name"] == "m_work"]
assert work
for row in work:
	before, after = calls[bisect.bisect_right(calls, (int(row["start_ns"]) + SLACK, 1 << 64)) - 1]
	assert int(row["end_ns"]) <= after + SLACK, f"{row} ended by {after}"
CHECK
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "drainers with a time between them"
