#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A pinned capture whose drainers are killed again and again, or find no room for what they write: their files, joined, hold every call and every manual scope
# once. With SCOPETRACE_LONG=1 fifty kills; KILLS and OUTER (calls of outer() in each of four threads) change it.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

kills=${KILLS:-${SCOPETRACE_LONG:+50}}
kills=${kills:-8}
outer=${OUTER:-$((kills * 1100))} # at 555 a second and thread: two seconds for each kill
RANDOM=20261130
target=$O/targets/calls.nop5
[ -x "$target" ] || target=$O/targets/calls
need "$SCOPETRACE" "$target"
dir=$FS/capture

snapshot "$T/before"
SCOPE_SLOTS=131072 start program out "$target" --threads 4 --calls "$outer" --rate 555 --manual --wait-go
wait_line program '^pid ([0-9]+)$'
traced=${BASH_REMATCH[1]}
run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f outer -f middle -f inner --ring-size 64M
expect_status 0 "attach"

say "== the first drainer is there before the first call, and a second one is refused"
start drainer0 err "$SCOPETRACE" drain --pin "$dir" -o "$T/0.scope"
wait_line drainer0 draining
# It reads the program's segment by then; there are no scopes yet that would tell.
grep -q 'memfd:libscope' "/proc/${pid[drainer0]}/maps" || fail "manual scopes are not captured"
run "$SCOPETRACE" drain --pin "$dir" -o "$T/second.scope"
expect_status 1 "a second drainer"
expect_text "$T/run.err" 'another process' "a second drainer"
rm -f "$T/second.scope"

say "== killed, and started again"
send program go
killed=0
# What a program has written and nobody has read ends with it: the last drainer comes before that, on a busy machine too.
until_s=$((SECONDS + outer / 555 * 2 / 3))
while [ $SECONDS -lt $until_s ] && [ $killed -lt "$kills" ]; do
	sleep "0.$(printf '%03d' $((RANDOM % 1000)))"
	kill -KILL "${pid[drainer$killed]}"
	wait "${pid[drainer$killed]}" 2>/dev/null
	pid[drainer$killed]=
	killed=$((killed + 1))
	# These end by themselves, and always in the middle: a write finds the file as large as it may be.
	for i in 1 2 3; do
		start "full$killed-$i" err prlimit --fsize=$((100000 + RANDOM * 10)) \
			"$SCOPETRACE" drain --pin "$dir" -o "$T/$killed.full$i.scope"
		finish "full$killed-$i"
	done
	start "drainer$killed" err "$SCOPETRACE" drain --pin "$dir" -o "$T/$killed.scope"
done
# A program that has ended counts as there until it is waited for: what it wrote tells.
wait_line program '^truth (.*)$' 300
printf '%s\n' "${BASH_REMATCH[1]}" >"$T/truth.json"
[ $killed -ge $((kills / 4)) ] || fail "only $killed kills"
finish program

say "== the end: the last drainer writes the account"
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach"
finish "drainer$killed"
expect_status 0 "the last drainer"
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "$killed drainers"

files=()
for file in "$T"/[0-9]*.scope; do
	# Killed before its header was whole, it is no capture yet.
	[ -s "$file" ] && files+=("$file")
done
run "$SCOPETRACE" report --json "${files[@]}"
cp "$T/run.out" "$T/report.json"
expect_status 0 "report of ${#files[@]} files"
run "$SCOPETRACE" export -t csv "${files[@]}"
expect_status 0 "export of ${#files[@]} files"
python3 - "$T/run.out" "$T/truth.json" "$T/report.json" "$killed" <<'CHECK' || fail "the files do not hold what was called"
import csv
import json
import sys
from collections import Counter

truth, report = json.load(open(sys.argv[2])), json.load(open(sys.argv[3]))
names, twice, here, last = Counter(), [], set(), None
# Rows are sorted by thread and start: those of one place stand together.
for row in csv.reader(open(sys.argv[1])):
	start, _, _, tid, _, kind, name = row[:7]
	names[kind, name] += 1
	if (tid, start) != last:
		here.clear()
		last = tid, start
	if (kind, name) in here:
		twice.append(row)
	here.add((kind, name))
print(f"{sys.argv[4]} kills: {dict(names)}; {len(twice)} twice; balanced: {report['accounting']['balanced']}")
assert not twice, f"twice: {twice[:5]}"
for name, entries in truth["entries"].items():
	assert names["hooked", name] == entries, f"{name}: {names['hooked', name]} of {entries} calls"
	assert names["manual", "m_" + name] == entries, f"m_{name}: {names['manual', 'm_' + name]} of {entries} scopes"
assert report["accounting"]["balanced"]
CHECK
