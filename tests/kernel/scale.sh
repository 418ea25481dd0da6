#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Two million calls (with SCOPETRACE_LONG=1: a hundred million) recorded, reported and exported: every one is accounted for,
# and memory does not grow with them.
. "$(dirname "$0")/lib.sh"

PATIENCE=1800 # of `run` in this script
THREADS=4
OUTER=$((55556 * $([ -n "${SCOPETRACE_LONG:-}" ] && echo 50 || echo 1))) # calls of outer() by each thread, of nine calls each
LIMIT_MIB=100                             # for each of our processes; the calls take 64 bytes each in the file
target=$O/targets/calls.nop5
[ -x "$target" ] || target=$O/targets/calls
peak=(python3 "$HERE/peak.py")
need "$SCOPETRACE" "$target"
snapshot "$T/before"

expect_bounded() { # WHAT FILE
	local mib
	mib=$(sed -n 's/^peak \([0-9]*\) MiB$/\1/p' "$2")
	say "$1: $mib MiB at most"
	[ "${mib:-$LIMIT_MIB}" -lt $LIMIT_MIB ] || fail "$1 takes ${mib:-?} MiB, and $LIMIT_MIB are allowed"
}

say "== $((THREADS * OUTER * 9)) calls"
start calls out "$target" --threads $THREADS --calls $OUTER --rate 0 --wait-go
wait_line calls '^pid ([0-9]+)$'
start record err "${peak[@]}" "$SCOPETRACE" record -p "${BASH_REMATCH[1]}" -f outer -f middle -f inner \
	-o "$T/scale.scope"
wait_line record 'armed 3 of 3 functions'
send calls go
wait_line calls '^truth ' $PATIENCE
finish calls
finish record $PATIENCE
expect_status 0 "record"
grep -E ' calls?;' "$T/record.log"
expect_bounded record "$T/record.log"

run "${peak[@]}" "$SCOPETRACE" report --json "$T/scale.scope"
expect_status 0 "report"
mv "$T/run.out" "$T/report.json"
expect_bounded report "$T/run.err"
for format in perfetto csv; do
	run "${peak[@]}" bash -c '"$@" | wc -c -l' - "$SCOPETRACE" export -t $format "$T/scale.scope"
	expect_status 0 "export -t $format"
	say "$format: $(tr -s ' ' <"$T/run.out") lines and bytes"
	expect_bounded "export -t $format" "$T/run.err"
done

# All that the program did is in the file or said to be lost, and the last export has a row for each scope of the file.
python3 - "$T/report.json" "$T/calls.log" "$T/run.out" <<'END' || fail "the numbers"
import json, sys
account = json.load(open(sys.argv[1]))["accounting"]
truth = json.loads([line for line in open(sys.argv[2]) if line.startswith("truth ")][-1].removeprefix("truth "))
rows = int(open(sys.argv[3]).read().split()[0]) - 1
print({name: value for name, value in account.items() if value}, rows)
assert account["balanced"]
assert account["entries"] == account["returns"] == sum(truth["entries"].values())
assert rows == account["in_file"] == account["entries"] - account["ring_lost"] - account["handoff_lost"]
END
rm "$T/scale.scope"
expect_nothing_left "$T/before" "a large capture"
