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
send program "manual 400"
sleep 0.15
kill -INT "${pid[drainer]}"
finish drainer
expect_status 0 "the first drainer"
sleep 1.2
run "$SCOPETRACE" drain --pin "$dir" -d 0.2s -o "$T/2.scope"
expect_status 0 "a second drainer"
! grep -q 'before this capture began' "$T/run.err" || fail "the capture had begun: $(cat "$T/run.err")"
run "$SCOPETRACE" detach --pin "$dir" -o "$T/3.scope"
expect_status 0 "detach"
send program stop
finish program

run "$SCOPETRACE" report --json "$T"/?.scope
expect_status 0 "report"
[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "not balanced"
run "$SCOPETRACE" export -t csv "$T"/?.scope
python3 - "$T/run.out" <<'CHECK' || fail "manual scopes do not end where they ended"
import csv
import sys

rows = [r for r in csv.DictReader(open(sys.argv[1])) if r["kind"] == "manual"]
slow = [r for r in rows if r["name"] == "m_slow"]
lengths = sorted((int(r["end_ns"]) - int(r["start_ns"])) / 1e6 for r in rows)
print(f"{len(rows)} manual scopes, the longest of {lengths[-1]:.3f} ms; m_slow: {slow}")
assert len(slow) == 1 and "unfinished" not in slow[0]["flags"]
assert 400 <= (int(slow[0]["end_ns"]) - int(slow[0]["start_ns"])) / 1e6 < 700
assert lengths[-1] < 700, "a scope lasts over the time in which nobody captured"
CHECK
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "drainers with a time between them"
