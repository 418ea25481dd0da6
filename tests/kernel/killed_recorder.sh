#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Recorders that are killed in the middle, each followed by the next: each file can be read, no scope is in two of them,
# none is missing but what a killed recorder had in its hands; two at once are refused; a dead one stops costing the
# program within seconds. With SCOPETRACE_LONG=1 fifty of them.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/numbers"
kills=${SCOPETRACE_LONG:+50}
kills=${kills:-8}
RANDOM=20261129

start program out "$O/targets/numbers" 3
wait_line program '^pid ([0-9]+)$'
target=${BASH_REMATCH[1]}

for i in $(seq "$kills"); do
	start "recorder$i" err "$SCOPETRACE" record -p "$target" -o "$T/$i.scope"
	# Some before they have begun, some in the middle.
	sleep "0.$(printf '%03d' $((RANDOM % 400)))"
	kill -KILL "${pid[recorder$i]}"
	wait "${pid[recorder$i]}" 2>/dev/null
	pid[recorder$i]=
done

say "== the last one is not killed; a second at once is refused"
start last err "$SCOPETRACE" record -p "$target" -o "$T/last.scope"
wait_line last 'armed|recording|manual'
run "$SCOPETRACE" record -p "$target" -o "$T/second.scope"
[ "$status" != 0 ] || fail "two recorders at once"
expect_text "$T/run.err" 'another reader' "a second recorder"
sleep 0.5
kill -INT "${pid[last]}"
finish last
expect_status 0 "the last recorder"
expect_text "$T/last.log" 'balanced' "the last recorder"

say "== a dead recorder stops costing the program"
send program mark
wait_line program '^mark$'
start dead err "$SCOPETRACE" record -p "$target" -o "$T/dead.scope"
wait_line program '^capture on$'
while ! [ -s "$T/dead.scope" ]; do sleep 0.01; done
kill -KILL "${pid[dead]}"
wait "${pid[dead]}" 2>/dev/null
pid[dead]=
wait_line program '^capture off$' 15

say "== what the program overwrote while nobody read is not said to be its fault"
run "$SCOPETRACE" record -p "$target" -d 0.2s -o "$T/after.scope"
expect_status 0 "a recorder after a dead one"
expect_text "$T/run.err" 'manual events that were written before this capture began, and not read, come first' "after a dead one"
expect_text "$T/run.err" '[0-9]+ manual events were lost before this capture began, as nobody read them' "after a dead one"
! grep -q SCOPE_SLOTS "$T/run.err" || fail "more slots would not have helped: $(cat "$T/run.err")"

send program stop
wait_line program '^truth threads=3 written=([0-9]+)$'
written=${BASH_REMATCH[1]}
finish program

say "== the files"
for file in "$T"/*.scope; do
	[ -s "$file" ] || continue
	run "$SCOPETRACE" export "$file" -t csv
	# Killed before its first whole chunk, it is no capture yet.
	[ "$status" = 0 ] || continue
	grep -E ',manual,t[0-9]+n[0-9]+,' "$T/run.out" | sed -E 's/.*,manual,t([0-9]+)n([0-9]+),.*/\1 \2/' |
		sed "s|\$| $(basename "$file")|" >>"$T/rows"
done
python3 - "$T/rows" "$((kills + 1))" "$written" <<'CHECK' || fail "what the files hold is not what was written"
import sys
from collections import defaultdict

rows, kills, written = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
numbers, files = defaultdict(list), set()
for line in open(rows):
	thread, number, name = line.split()
	numbers[int(thread)].append(int(number))
	files.add(name)
total = sum(len(v) for v in numbers.values())
twice = total - sum(len(set(v)) for v in numbers.values())
holes = {t: sum(b != a + 1 for a, b in zip(sorted(v), sorted(v)[1:])) for t, v in numbers.items()}
print(f"{total} of {written} scopes in {len(files)} files, {twice} twice; interruptions {holes}, {kills} kills")
assert sorted(numbers) == [0, 1, 2], "a thread is missing"
assert twice == 0, "a scope is in two files"
# One where each killed recorder had scopes in hand, and one where the last began and ended.
assert all(h <= kills + 2 for h in holes.values()), "more is missing than was in the hands of the killed"
CHECK
