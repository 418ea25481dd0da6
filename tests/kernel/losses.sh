#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What is lost is said, marked where it is missing, and spoils nothing else.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/scopes" "$O/targets/calls"
snapshot "$T/before"

say "== a segment that is much too small"
monotonic_ns() { python3 -c 'import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC))'; }
recorder_began=$(monotonic_ns)
run env SCOPE_RINGS=1 SCOPE_SLOTS=64 "$SCOPETRACE" record --json -o "$T/lap.scope" -- "$O/targets/scopes" 2 200000
recorder_ended=$(monotonic_ns)
cp "$T/run.out" "$T/lap.truth"
expect_status 0 "a lapped segment"
expect_text "$T/run.err" 'warning: [0-9]+ manual events were lost.*SCOPE_SLOTS' "a lapped segment"
! grep 'before this capture began' "$T/run.err" || fail "we started the program: nothing was lost before we came"
expect_text "$T/run.out" '"balanced": ?true' "a lapped segment"
run "$SCOPETRACE" export "$T/lap.scope" -t csv -o "$T/lap.csv"
expect_status 0 "export"
run "$SCOPETRACE" report "$T/lap.scope" --json
python3 - "$T/lap.csv" "$T/run.out" "$T/lap.truth" "$recorder_began" "$recorder_ended" <<'END' || fail "the scopes of a lapped segment"
import csv, json, re, sys
rows = list(csv.DictReader(open(sys.argv[1])))
lost = [row for row in rows if "lost" in row["flags"]]
wrong = [row for row in rows if not row["flags"] and int(row["depth"]) > 2]
losses = json.load(open(sys.argv[2]))["losses"]
begin, end = map(int, re.search(r"begin_ns=(\d+) end_ns=(\d+)", open(sys.argv[3]).read()).groups())
longest = max(int(row["end_ns"]) - int(row["start_ns"]) for row in rows)
deepest = max(int(row["depth"]) for row in rows)
print(f"{len(rows)} scopes, {len(lost)} marked lost, deepest {deepest}, longest {longest / 1e6:.1f} ms")
assert rows and lost, "nothing is marked lost"
# What is cut ends with what is around it, and that with the program.
outside = [row for row in rows if not begin <= int(row["start_ns"]) <= int(row["end_ns"]) <= end]
# Of what the reader found gone it knows when it looked before and when it found that: the run lies between, or overlaps.
recorder = int(sys.argv[4]), int(sys.argv[5])
for loss in losses:
    if not recorder[0] <= loss["first_ns"] <= end or not begin <= loss["last_ns"] <= recorder[1]:
        outside.append(loss)
assert losses and not outside, f"the program ran from {begin} to {end}: {outside[:3]}"
assert not wrong, wrong[:3]
# A scope whose stop was lost must not last to the end of its thread, nor everything after it lie inside it.
assert deepest < 50, "scopes pile up"
END

say "== a kernel ring that is much too small"
run "$SCOPETRACE" record -o "$T/ring.scope" --ring-size 4K -f outer -f middle -f inner -- \
	"$O/targets/calls" --threads 2 --calls 3000 --rate 0
cp "$T/run.out" "$T/ring.truth"
expect_status 0 "a full ring"
expect_text "$T/run.err" 'warning: [0-9]+ calls were lost.*--ring-size' "a full ring"
run "$SCOPETRACE" export "$T/ring.scope" -t csv
expect_text "$T/run.out" ',hooked,outer,calls,lost' "a full ring"
run "$SCOPETRACE" report "$T/ring.scope" --json
python3 - "$T/run.out" "$T/ring.truth" <<'END' || fail "the account of a full ring"
import json, sys
report = json.load(open(sys.argv[1]))
a, losses = report["accounting"], report["losses"]
truth = json.loads([line for line in open(sys.argv[2]) if line.startswith("truth ")][-1].removeprefix("truth "))
print({key: a[key] for key in ("entries", "completed", "ring_lost", "in_file")})
assert a["balanced"] and a["entries"] == 3000 * 2 * 9 and a["ring_lost"] > 0
assert a["completed"] == a["ring_lost"] + a["in_file"]
assert sum(loss["count"] for loss in losses) == a["ring_lost"]
outside = [loss for loss in losses if not truth["begin_ns"] <= loss["first_ns"] <= loss["last_ns"] <= truth["end_ns"]]
assert not outside, f"the program ran from {truth['begin_ns']} to {truth['end_ns']}: {outside[:3]}"
END
expect_nothing_left "$T/before" "losses"
