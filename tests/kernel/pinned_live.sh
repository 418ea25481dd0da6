#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Live control by the very commands that scopetrace-pinned(7) gives, and how soon each is in force: by the time stamps of
# the calls, none that begins 100 ms after `bpftool map update` has returned is of the old kind. And --near, by its dump;
# and a process that is taken out.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/calls
page=$HERE/../../man/scopetrace-pinned.7
need "$SCOPETRACE" "$target" "$O/targets/flight"
PATH=$PATH:$(dirname "$B")
snapshot "$T/before"

begin() { # NAME DIR [OPTION]...
	local name=$1 dir=$2
	shift 2
	start "$name" out "$target" --threads 2 --calls 100000000 --rate 2000 --wait-go
	wait_line "$name" '^pid ([0-9]+)$'
	traced=${BASH_REMATCH[1]}
	run "$SCOPETRACE" attach --pin "$dir" -p "$traced" --ring-size 16M "$@"
	expect_status 0 "attach"
	send "$name" go
}

end_program() {
	kill -KILL "${pid[$1]}" 2>/dev/null
	wait "${pid[$1]}" 2>/dev/null
	pid[$1]=
}

# now NAME: notes the time as the calls have it, to 10 ms, and at once. /proc/uptime counts on while the machine sleeps.
slept=$(python3 -c 'import time; print(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns())')
now() {
	local up
	read -r up _ </proc/uptime
	printf '%s %s\n' "$1" $((10#${up/./} * 10000000 - slept)) >>"$T/times"
}

dir=$FS/live
begin program "$dir" -f outer -f middle -f inner
start drainer err "$SCOPETRACE" drain --pin "$dir" -o "$T/live.scope"
wait_line drainer draining
mapfile -t lines < <(sed -n 's/^\.Dl \(bpftool map update .*\)/\1/p' "$page")
[ ${#lines[@]} = 3 ] || fail "the man page has other commands than this test knows: ${#lines[@]}"
block=$(sed -n '/^Function 2 off:/,/^\.Ed/p' "$page" | grep -v '^\.\|^Function')
sleep 0.5

say "== pause, and resume with a minimum"
now pausing
bash -ec "${lines[0]//DIR/$dir}" || fail "pause"
now paused
sleep 0.6
now resuming
bash -ec "${lines[1]//DIR/$dir}" || fail "resume with a minimum"
now minimum
sleep 0.6
run "$SCOPETRACE" status --pin "$dir" --json
[ "$(json 'd["minimum_ns"]' "$T/run.out")" = 50000 ] || fail "the minimum is not that of the page"
now lifting
run "$SCOPETRACE" set --pin "$dir" --min 0
now without
sleep 0.4

say "== a function and a process off"
now switching
bash -ec "${block//DIR/$dir}" || fail "function 2 off"
now function_off
sleep 0.6
bash -ec "${lines[2]//DIR/$dir}" || fail "process 4660 off"
# The same of the process that is traced.
key=$(printf '0x%02x 0x%02x' $((traced & 255)) $((traced >> 8 & 255)))
[ $((traced >> 16)) = 0 ] || skip "process ids are longer than the page's example"
bash -ec "$(sed "s/0x34 0x12/$key/" <<<"${lines[2]//DIR/$dir}")" || fail "the process off"
now process_off
sleep 0.6
now end
status_of "$dir" '[f["symbol"] for f in d["functions"] if f["id"] == 2][0]' >"$T/off"
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach"
finish drainer
end_program program

run "$SCOPETRACE" export -t csv "$T/live.scope"
python3 - "$T/run.out" "$T/times" "$(cat "$T/off")" <<'CHECK' || fail "not in force in time"
import csv
import sys

at = {name: int(time) for name, time in (line.split() for line in open(sys.argv[2]))}
off, bound = sys.argv[3], 100_000_000
rows = csv.reader(open(sys.argv[1]))
header = next(rows)
start, end, kind, name = (header.index(c) for c in ("start_ns", "end_ns", "kind", "name"))
calls = [(int(r[start]), int(r[end]) - int(r[start]), r[name]) for r in rows if r[kind] == "hooked"]


def between(first, last, wait=bound):
	return [c for c in calls if at[first] + wait <= c[0] and c[0] + c[1] < at[last]]


latest = max(c[0] for c in calls if c[0] < at["resuming"])
print(f"{len(calls)} calls; the last one before the pause began {(latest - at['paused']) / 1e6:.3f} ms after the command")
assert between("without", "switching"), "nothing is captured when everything is on"
assert not between("paused", "resuming"), "calls in a pause"
short = [c for c in between("minimum", "lifting") if c[1] < 50000]
assert not short, f"calls shorter than the minimum: {short[:3]}"
assert any(c[1] < 50000 for c in between("without", "switching")), "no call is short"
later = between("function_off", "process_off")
assert later and not [c for c in later if c[2] == off], f"calls of {off}, which is off"
assert not between("process_off", "end"), "calls of a process that is off"
CHECK

say "== --near: the dump has fields, and shows what is open"
begin near "$FS/near" -f caller_main --near
both_open() { [ "$(status_of "$FS/near" '[c["symbol"] for c in d["open"]].count("caller_main")')" = 2 ]; }
wait_until "both threads are in caller_main" both_open
bpftool -j map dump pinned "$FS/near/maps/near_scopes" >"$T/near.json" || fail "bpftool cannot dump near_scopes"
bpftool -j map dump pinned "$FS/near/maps/open_scopes" >"$T/open.json" || fail "bpftool cannot dump open_scopes"
python3 - "$T/near.json" "$T/open.json" "$traced" <<'CHECK' || fail "the dumps do not show what is open"
import json
import sys

near = [e["formatted"]["value"]["slot"] for e in json.load(open(sys.argv[1]))]
far = [e["formatted"]["value"] for e in json.load(open(sys.argv[2]))]
running = [s for s in near + far if s["chain_length"] and s["tgid"] == int(sys.argv[3])]
print(f"{len(running)} are open, {sum(s in near for s in running)} of them near")
assert len(running) == 2 and any(s in near for s in running)
CHECK
run "$SCOPETRACE" detach --pin "$FS/near"
expect_status 0 "detach"
end_program near

say "== a call that is open when its process is taken out may still return"
dir=$FS/out
start out out "$O/targets/flight" 1000
wait_line out '^pid ([0-9]+)$'
traced=${BASH_REMATCH[1]}
run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f slow_call --ring-size 1M
expect_status 0 "attach"
send out "call 100"
slow_open() { [ "$(status_of "$dir" '[c["symbol"] for c in d["open"]]')" = "['slow_call']" ]; }
wait_until "slow_call is open" slow_open
run "$SCOPETRACE" set --pin "$dir" --remove-pid "$traced"
expect_status 0 "set --remove-pid"
run "$SCOPETRACE" detach --pin "$dir" -o "$T/out.scope"
expect_status 0 "detach"
end_program out
run "$SCOPETRACE" report --json "$T/out.scope"
expect_status 0 "report"
[ "$(json '(d["accounting"]["completed"], d["accounting"]["unfinished"])' "$T/run.out")" = "(1, 0)" ] ||
	fail "the call was not seen to return: $(cat "$T/run.out")"
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "live control"
