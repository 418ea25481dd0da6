#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# `attach --watch`: manual scopes are captured while nobody drains, and drainers that come, go and are killed miss none.
# A second pinned capture of the same process gets its calls alone, and says so.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/numbers
need "$SCOPETRACE" "$target" "$O/targets/heirs"
dir=$FS/watched

snapshot "$T/before"
SCOPE_SLOTS=262144 start program out "$target" 3
wait_line program '^pid ([0-9]+)$'
traced=${BASH_REMATCH[1]}
run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f 'write_*' --watch --ring-size 1M
expect_status 0 "attach"
watcher=$(sed -nE 's/.*process ([0-9]+) watches.*/\1/p' "$T/run.err")
[ -d "/proc/$watcher" ] || fail "no watcher: $(cat "$T/run.err")"
wait_line program '^capture on$'

say "== it stays on for longer than a reader that is gone keeps it on"
sleep 5
send program mark
wait_line program '^(mark|capture off)$'
[ "${BASH_REMATCH[1]}" = mark ] || fail "the capture went off"

say "== drainers, one of them killed"
for i in 1 2; do
	start "drainer$i" err "$SCOPETRACE" drain --pin "$dir" -o "$T/$i.scope"
	wait_until "drainer $i has manual scopes" eval '[ "$(stat -c %s "$T/$i.scope" 2>/dev/null || echo 0)" -gt 300000 ]'
	[ $i = 2 ] && break
	kill -KILL "${pid[drainer1]}"
	wait "${pid[drainer1]}" 2>/dev/null
	pid[drainer1]=
done
say "== another capture of the same process"
run "$SCOPETRACE" attach --pin "$FS/second" -p "$traced" -f 'write_*' --ring-size 1M
expect_status 0 "attach to the same process"
run "$SCOPETRACE" drain --pin "$FS/second" -o "$T/second.scope" --duration 0.3
expect_status 0 "drain of the second capture"
expect_text "$T/run.err" 'another reader' "the second capture"
expect_text "$T/run.err" 'going on without the manual scopes' "the second capture"
run "$SCOPETRACE" detach --pin "$FS/second"
expect_status 0 "detach of the second capture"

kill -INT "${pid[drainer2]}"
finish drainer2
expect_status 0 "the second drainer"
send program mark
wait_line program '^(mark|capture off)$'
[ "${BASH_REMATCH[1]}" = mark ] || fail "the capture went off with its drainer"

say "== the end"
run "$SCOPETRACE" detach --pin "$dir" -o "$T/3.scope"
expect_status 0 "detach"
wait_line program '^capture off$' 30
send program stop
wait_line program '^truth threads=3 written=([0-9]+)$'
written=${BASH_REMATCH[1]}
finish program
wait_until "the watcher ends" eval '! [ -d "/proc/$watcher" ]'
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "a watched capture"

say "== children are freed of the breakpoints"
start parent out "$O/targets/heirs" --wait-go child
wait_line parent '^pid ([0-9]+)$'
run "$SCOPETRACE" attach --pin "$dir" -p "${BASH_REMATCH[1]}" -f work --watch --ring-size 1M
expect_status 0 "attach"
send parent go
finish parent 90
expect_status 0 "the program whose children wait to be free"
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach"

run "$SCOPETRACE" export -t csv "$T/1.scope" "$T/2.scope" "$T/3.scope"
expect_status 0 "export"
python3 - "$T/run.out" "$written" <<'CHECK' || fail "the files do not hold what was written"
import csv
import re
import sys
from collections import defaultdict

numbers = defaultdict(list)
for row in csv.DictReader(open(sys.argv[1])):
	match = re.fullmatch(r"t(\d+)n(\d+)", row["name"]) if row["kind"] == "manual" else None
	if match:
		numbers[int(match[1])].append(int(match[2]))
total = sum(map(len, numbers.values()))
print(f"{total} of {sys.argv[2]} scopes")
for thread, values in sorted(numbers.items()):
	values.sort()
	assert len(values) == len(set(values)), f"thread {thread}: twice"
	assert values[0] == 0, f"thread {thread} begins at {values[0]}"
	assert values[-1] == len(values) - 1, f"thread {thread}: {values[-1] + 1 - len(values)} are missing"
assert sorted(numbers) == [0, 1, 2], "a thread is missing"
CHECK
