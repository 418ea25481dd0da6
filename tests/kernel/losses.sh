#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What is lost is said, marked where it is missing, and spoils nothing else.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/scopes" "$O/targets/calls"
snapshot "$T/before"

say "== a segment that is much too small"
SECONDS=0
run env SCOPE_RINGS=1 SCOPE_SLOTS=64 "$SCOPETRACE" record --json -o "$T/lap.scope" -- "$O/targets/scopes" 2 200000
expect_status 0 "a lapped segment"
took=$((SECONDS + 1))
expect_text "$T/run.err" 'warning: [0-9]+ manual events were lost.*SCOPE_SLOTS' "a lapped segment"
expect_text "$T/run.out" '"balanced": ?true' "a lapped segment"
run "$SCOPETRACE" export "$T/lap.scope" -t csv -o "$T/lap.csv"
expect_status 0 "export"
python3 - "$T/lap.csv" "$took" <<'END' || fail "the scopes of a lapped segment"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
lost = [row for row in rows if "lost" in row["flags"]]
wrong = [row for row in rows if not row["flags"] and int(row["depth"]) > 2]
longest = max(int(row["end_ns"]) - int(row["start_ns"]) for row in rows)
deepest = max(int(row["depth"]) for row in rows)
print(f"{len(rows)} scopes, {len(lost)} marked lost, deepest {deepest}, longest {longest / 1e6:.1f} ms")
assert rows and lost, "nothing is marked lost"
assert not wrong, wrong[:3]
# A scope whose stop was lost must not last to the end of its thread, nor everything after it lie inside it.
assert deepest < 50, "scopes pile up"
END

say "== a kernel ring that is much too small"
run "$SCOPETRACE" record -o "$T/ring.scope" --ring-size 4K -f outer -f middle -f inner -- \
	"$O/targets/calls" --threads 2 --calls 3000 --rate 0
expect_status 0 "a full ring"
expect_text "$T/run.err" 'warning: [0-9]+ calls were lost.*--ring-size' "a full ring"
run "$SCOPETRACE" export "$T/ring.scope" -t csv
expect_text "$T/run.out" ',hooked,outer,calls,lost' "a full ring"
run "$SCOPETRACE" report "$T/ring.scope" --json
python3 - "$T/run.out" <<'END' || fail "the account of a full ring"
import json, sys
a = json.load(open(sys.argv[1]))["accounting"]
print({key: a[key] for key in ("entries", "completed", "ring_lost", "in_file")})
assert a["balanced"] and a["entries"] == 3000 * 2 * 9 and a["ring_lost"] > 0
assert a["completed"] == a["ring_lost"] + a["in_file"]
END
expect_nothing_left "$T/before" "losses"
