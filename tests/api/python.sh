#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A Python program traced end to end; then the same without the library, and with nobody recording.
set -u

cd "$(dirname "$0")/../.." || exit 1
O=$(realpath "${O:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=libscope PYTHONDONTWRITEBYTECODE=1
count=50

fail() { echo "not ok $*"; cat "$work/log"; exit 1; }

SCOPE_LIBRARY=$O/libscope.so.1 "$O/scopetrace" record -o "$work/python.scope" -- python3 tests/api/traced.py $count \
	>"$work/log" 2>&1 || fail "record"
grep -qx "truth count=$count enabled=True" "$work/log" || fail "the program's own words"
"$O/scopetrace" report --json "$work/python.scope" >"$work/report.json" 2>"$work/log" || fail "report"
python3 - "$work/report.json" $count >"$work/log" 2>&1 <<'CHECK' || fail "the numbers"
import json
import sys

with open(sys.argv[1]) as file:
    report = json.load(file)
n = int(sys.argv[2])
calls = {f["name"]: f["calls"] for f in report["functions"]}
assert calls == {"plain": n, "Solver.step": n, "inner": n, "named": n}, calls
assert [t["name"] for t in report["threads"]] == ["python worker"], report["threads"]
assert report["frames"][0]["frames"] == n - 1 and report["asyncs"][0]["calls"] == n
assert {c["name"]: c["last"] for c in report["counters"]} == {"integer": n - 1, "double": (n - 1) / 2}
assert [(a["scope"], a["name"], a["max"]) for a in report["arguments"]] == [("inner", "i", n - 1)]
assert report["instants"] == [{"name": "caught", "pid": report["threads"][0]["pid"], "count": n}]
assert report["accounting"]["balanced"] is True
CHECK
echo "ok a Python program, traced"

SCOPE_LIBRARY=$O/libscope.so.1 python3 tests/api/traced.py 3 >"$work/log" 2>&1 || fail "with nobody recording"
grep -qx "truth count=3 enabled=False" "$work/log" || fail "enabled, with nobody recording"
echo "ok nobody records"
SCOPE_LIBRARY=$work/none.so python3 -c 'import scope
assert not scope.available and not scope.enabled()
with scope.span("x") as s:
    scope.counter("c", 1)
assert scope.traced(lambda a: a + 1)(1) == 2' >"$work/log" 2>&1 || fail "without the library"
echo "ok no library"
