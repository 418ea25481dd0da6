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
sleep 3.5 # without a renewal it ends after 3 s
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

say "== taken out while a drainer runs, and added again"
run "$SCOPETRACE" set --pin "$dir" --remove-pid "$traced"
expect_status 0 "set --remove-pid"
wait_line program '^capture off$'
run "$SCOPETRACE" set --pin "$dir" --add-pid "$traced"
expect_status 0 "set --add-pid"
wait_line program '^capture on$'

kill -INT "${pid[drainer2]}"
finish drainer2
expect_status 0 "the second drainer"
send program mark
wait_line program '^(mark|capture off)$'
[ "${BASH_REMATCH[1]}" = mark ] || fail "the capture went off with its drainer"

say "== switched off, and on again, where only the watcher is there"
key="$((traced & 255)) $((traced >> 8 & 255)) $((traced >> 16 & 255)) 0"
# shellcheck disable=SC2086
"$B" map update pinned "$dir/maps/targets" key $key value 0 0 0 0 0 0 0 0 || fail "bpftool map update targets"
wait_line program '^capture off$'
# shellcheck disable=SC2086
"$B" map update pinned "$dir/maps/targets" key $key value 1 0 0 0 0 0 0 0 || fail "bpftool map update targets"
wait_line program '^capture on$'

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

say "== children are freed of the breakpoints, where other mounts are seen, too: there is another file of their name here"
mkdir "$T/inside"
cp "$target" "$T/inside/heirs"
start parent out unshare --mount --propagation private sh -c \
	'mount -t tmpfs none "$1" && cp "$2" "$1" && exec "$1/heirs" --wait-go child' sh "$T/inside" "$O/targets/heirs"
wait_line parent '^pid ([0-9]+)$'
run "$SCOPETRACE" attach --pin "$dir" -p "${BASH_REMATCH[1]}" -f work --watch --ring-size 1M
expect_status 0 "attach"
send parent go
finish parent 90
expect_status 0 "the program whose children wait to be free"
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach"

run "$SCOPETRACE" report --json "$T/1.scope" "$T/2.scope" "$T/3.scope"
expect_status 0 "report"
run "$SCOPETRACE" export -t csv "$T/1.scope" "$T/2.scope" "$T/3.scope"
expect_status 0 "export"
cat >"$T/check.py" <<'CHECK'
import csv
import re
import sys
from collections import defaultdict

numbers = defaultdict(list)
for row in (row for file in sys.argv[2:] for row in csv.DictReader(open(file))):
	match = re.fullmatch(r"t(\d+)n(\d+)", row["name"]) if row["kind"] == "manual" else None
	if match:
		numbers[int(match[1])].append(int(match[2]))
total = sum(map(len, numbers.values()))
print(f"{total} of {sys.argv[1]} scopes")
for thread, values in sorted(numbers.items()):
	values.sort()
	assert len(values) == len(set(values)), f"thread {thread}: twice"
	assert values[0] == 0, f"thread {thread} begins at {values[0]}"
	assert values[-1] == len(values) - 1, f"thread {thread}: {values[-1] + 1 - len(values)} are missing"
assert sorted(numbers) == [0, 1, 2], "a thread is missing"
CHECK
python3 "$T/check.py" "$written" "$T/run.out" || fail "the files do not hold what was written"

say "== what was taken out of one capture is another's to have, until it is added again"
SCOPE_SLOTS=262144 start both out "$target" 3
wait_line both '^pid ([0-9]+)$'
traced=${BASH_REMATCH[1]}
attach_and_drain() { # NAME: in the directory NAME, into the file NAME.scope
	local file=$T/$1.scope
	run "$SCOPETRACE" attach --pin "$FS/$1" -p "$traced" -f 'write_*' --ring-size 1M
	expect_status 0 "attach"
	start "$1" err "$SCOPETRACE" drain --pin "$FS/$1" -o "$file"
	wait_line both '^capture on$'
	wait_until "the drainer has manual scopes" eval '[ "$(stat -c %s "$file")" -gt 50000 ]'
}
detach_and_check() { # NAME
	run "$SCOPETRACE" detach --pin "$FS/$1"
	expect_status 0 "detach"
	finish "$1"
	expect_status 0 "the drainer"
	wait_line both '^capture off$'
	run "$SCOPETRACE" report --json "$T/$1.scope"
	[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "$1 is not balanced: $(cat "$T/run.err")"
	run "$SCOPETRACE" export -t csv "$T/$1.scope"
	mv "$T/run.out" "$T/$1.csv"
}
attach_and_drain one
run "$SCOPETRACE" set --pin "$FS/one" --remove-pid "$traced"
expect_status 0 "set --remove-pid"
wait_line both '^capture off$'
attach_and_drain two
detach_and_check two
run "$SCOPETRACE" set --pin "$FS/one" --add-pid "$traced"
expect_status 0 "set --add-pid"
wait_line both '^capture on$'
# shellcheck disable=SC2034 # used by eval
size=$(stat -c %s "$T/one.scope")
wait_until "the drainer has manual scopes again" eval '[ "$(stat -c %s "$T/one.scope")" -gt $((size + 50000)) ]'
detach_and_check one
send both stop
wait_line both '^truth threads=3 written=([0-9]+)$'
finish both
python3 "$T/check.py" "${BASH_REMATCH[1]}" "$T/one.csv" "$T/two.csv" || fail "the two files do not hold what was written"
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "watched captures"
