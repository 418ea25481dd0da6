#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The flight recorder: what lies in the window is in the file, call for call by the program's own account, and nothing
# older; files on SIGUSR1, on slow calls, at a crash, at the end; accounts that add up; memory that does not grow.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/flight"

# The program as $target.
begin() { # NAME PAUSE_US
	start "program-$1" out "$O/targets/flight" "$2"
	wait_line "program-$1" '^pid ([0-9]+)$'
	target=${BASH_REMATCH[1]}
}

# It runs for so many ms more: then it is $reached ns, and it has made so many $calls.
let_run() { # NAME MS
	send "program-$1" "after $2"
	wait_line "program-$1" '^reached ([0-9]+) ([0-9]+)$'
	reached=${BASH_REMATCH[1]} calls=${BASH_REMATCH[2]}
}

# What the program did, against a file that was asked for after the time NOT_BEFORE, and before NOT_AFTER if that is known.
# No hooked call ended before the window; of every call of work() in it the file has the scope, and the manual one
# inside it.
check_window() { # FILE LOG WINDOW_NS NOT_BEFORE [NOT_AFTER]
	SCOPETRACE=$SCOPETRACE PYTHONPATH=$HERE python3 - "$@" <<-'END' || fail "$1 and the program disagree"
		import bisect, csv, os, subprocess, sys
		import read_capture
		path, dump, window, not_before, *not_after = *sys.argv[1:3], *map(int, sys.argv[3:])
		capture = read_capture.Capture(path)
		capture.read()
		start, end = capture.footer[0], capture.footer[1]
		calls = [tuple(map(int, line.split()[1:])) for line in open(dump) if line.startswith("work ")]
		rows = list(csv.DictReader(subprocess.run([os.environ["SCOPETRACE"], "export", path, "-t", "csv"], check=True,
		                                          capture_output=True, text=True).stdout.splitlines()))
		bad = []
		# A snapshot holds what is over when it is asked for, and a little of what comes until it is written.
		asked = start + window
		if asked < not_before or asked > end or not_after and asked > not_after[0]:
		    bad.append(f"the window ends at {asked}, the file at {end}, asked for from {not_before} to {not_after}")
		def times(name):
		    return [(int(r["start_ns"]), int(r["end_ns"])) for r in rows
		            if r["name"] == name and "unfinished" not in r["flags"] and "cut" not in r["flags"]]
		for name in ("work", "m_work"):
		    found, stray = set(), 0
		    for first, last in times(name):
		        i = bisect.bisect_right(calls, (first + 1000, 1 << 62)) - 1  # a manual time may be off by some ns
		        if i < 0 or last > calls[i][1] + 1000:
		            stray += 1
		        else:
		            found.add(i)
		    inside = [i for i, (before, after) in enumerate(calls) if before >= start and after <= end]
		    missing = [i for i in inside if calls[i][1] <= asked and i not in found]
		    if missing:
		        bad.append(f"{len(missing)} of {len(inside)} calls of {name} in the window are not in the file: "
		                   f"{calls[missing[0]]}, {start} to {end}")
		    if len(found) != len(times(name)) - stray:
		        bad.append(f"a call of {name} is there twice")
		    if stray:
		        bad.append(f"{stray} scopes of {name} that were no calls")
		    if len(inside) < 20:
		        bad.append(f"only {len(inside)} calls lie in the window: this proves nothing")
		    print(f"{path.rsplit('/', 1)[-1]}: {name}: {len(inside)} calls in the window, {len(found)} scopes in the file")
		old = [r for r in rows if r["kind"] == "hooked" and int(r["end_ns"]) < start]
		if old:
		    bad.append(f"{len(old)} hooked calls ended before the window")
		# Manual scopes go by blocks of a 64th of the window, by the time at which they were drained.
		oldest = min(last for _, last in times("m_work"))
		if oldest < start - window // 32 - 100000000:
		    bad.append(f"a manual scope ended {(start - oldest) / 1e6} ms before the window")
		for line in bad:
		    print(line)
		sys.exit(bool(bad))
	END
}

expect_balanced() { # FILE WHAT
	run "$SCOPETRACE" report --json "$1"
	expect_status 0 "$2: report"
	expect_text "$T/run.out" '"balanced":true' "$2: report"
	PYTHONPATH=$HERE python3 -c 'import read_capture as r, sys; c = r.Capture(sys.argv[1]); c.read(); r.check_accounts(c)' "$1" ||
		fail "$2: the account"
}

snapshot "$T/before"

say "== the window, SIGUSR1 twice, Ctrl-C"
begin window 1000
start record-window err "$SCOPETRACE" record -p "$target" -f work -f slow_call --flight 200ms -o "$T/window.scope"
wait_line record-window "armed 2 of 2 functions in pid $target"
let_run window 600
first=$reached
kill -USR1 "${pid[record-window]}"
wait_line record-window 'SIGUSR1: the last 0.2 s are in .*/window.scope.1: [0-9]+ calls, [0-9]+ manual events'
let_run window 400
second=$reached
kill -USR1 "${pid[record-window]}"
wait_line record-window 'SIGUSR1: the last 0.2 s are in .*/window.scope.2: '
let_run window 400
kill -INT "${pid[record-window]}"
finish record-window
expect_status 0 "the flight recorder after Ctrl-C"
expect_text "$T/record-window.log" 'the capture was ended: the last 0.2 s are in .*/window.scope: ' "what was written"
expect_text "$T/record-window.log" '[1-9][0-9]* before the window.*, [1-9][0-9]* before the window; balanced' "the account"
send program-window stop
wait_line program-window '^end$'
finish program-window
expect_status 0 "the program"
check_window "$T/window.scope.1" "$T/program-window.log" 200000000 "$first" "$second"
check_window "$T/window.scope.2" "$T/program-window.log" 200000000 "$second" "$reached"
check_window "$T/window.scope" "$T/program-window.log" 200000000 "$reached"
expect_balanced "$T/window.scope" "the last file"
[ "$(ls "$T"/window.scope* | wc -l)" = 3 ] || fail "other files: $(ls "$T"/window.scope*)"

say "== slow calls"
begin trigger 1000
start record-trigger err "$SCOPETRACE" record -p "$target" -f work -f slow_call --flight 3s -o "$T/trigger.scope" \
	--trigger 'slow_call>200ms' --trigger ' m_slow > 200ms' --trigger 'no_such>1h'
wait_line record-trigger "armed 2 of 2 functions in pid $target"
send program-trigger "call 0"
send program-trigger "manual 0"
let_run trigger 700
send program-trigger "call 300"
wait_line record-trigger "slow_call took [0-9.]+ ms in thread $target \(--trigger 'slow_call>200ms'\): .*/trigger.scope.1: "
# One that comes too soon after another waits, and so does the next: the file that they are in comes by itself.
send program-trigger "manual 300"
send program-trigger "call 202"
wait_line record-trigger "m_slow took [0-9.]+ ms in thread $target .*, and 1 more: .*/trigger.scope.2: "
# It is in the file of the end.
send program-trigger "call 201"
let_run trigger 1
kill -TERM "${pid[record-trigger]}"
finish record-trigger
expect_status 0 "the flight recorder after slow calls"
expect_text "$T/record-trigger.log" "no_such>1h.*no hooked function is called so" "a trigger of no function, at once"
expect_text "$T/record-trigger.log" '^scopetrace: slow calls without a file of their own: 2; ' "slow calls just after others"
expect_text "$T/record-trigger.log" "no_such>1h.*no such call was seen" "a trigger that is nobody's name"
send program-trigger quit
finish program-trigger
expect_balanced "$T/trigger.scope" "after slow calls"
expect_slow() { # FILE KIND NAME
	run "$SCOPETRACE" export "$1" -t csv
	awk -F, -v kind="$2" -v name="$3" '$6 == kind && $7 == name && $2 - $1 > 200000000 { found = 1 } END { exit !found }' \
		"$T/run.out" || fail "$1 has no $3 of more than 200 ms"
}
expect_slow "$T/trigger.scope.1" hooked slow_call
expect_slow "$T/trigger.scope.2" manual m_slow
expect_slow "$T/trigger.scope.2" hooked slow_call
expect_slow "$T/trigger.scope" hooked slow_call
[ "$(ls "$T"/trigger.scope* | wc -l)" = 3 ] || fail "other files: $(ls "$T"/trigger.scope*)"

say "== a slow call whose file cannot be written"
begin again 1000
mkdir "$T/place"
start record-again err "$SCOPETRACE" record -p "$target" -f slow_call --flight 1s -o "$T/place/again.scope" --trigger 'slow_call>200ms'
wait_line record-again 'armed 1 of 1'
mv "$T/place" "$T/elsewhere"
send program-again "call 201"
wait_line record-again 'slow_call took .*: there is no whole file of it in .*/place/again.scope.1; '
mv "$T/elsewhere" "$T/place"
wait_line record-again 'slow_call took .*: the last (1|0\.[0-9]+) s are in .*/place/again.scope.2: '
expect_slow "$T/place/again.scope.2" hooked slow_call
kill -INT "${pid[record-again]}"
finish record-again
expect_status 0 "the flight recorder after a file that could not be written"
send program-again quit
finish program-again

say "== manual scopes alone"
begin manual 1000
start record-manual err "$SCOPETRACE" record -p "$target" --flight 200ms -o "$T/manual.scope"
wait_line record-manual 'manual scopes of pid'
let_run manual 200
kill -USR1 "${pid[record-manual]}"
wait_line record-manual 'SIGUSR1: the last 0.2 s are in .*/manual.scope.1: 0 calls, [1-9][0-9]* manual events'
run "$SCOPETRACE" report "$T/manual.scope.1"
expect_status 0 "a file of manual scopes alone"
expect_text "$T/run.out" '[1-9][0-9]* manual events, .*its account comes with its end' "a file of manual scopes alone"
kill -INT "${pid[record-manual]}"
finish record-manual
send program-manual quit
finish program-manual
expect_balanced "$T/manual.scope" "manual scopes alone"

say "== a program that ends long before the window is over"
run "$SCOPETRACE" record -f outer --flight 60s -o "$T/brief.scope" -- "$O/targets/calls" --threads 1 --calls 1 --rate 0
expect_status 0 "a short program"
expect_text "$T/run.err" 'exit status 0: the last [0-9]?(\.[0-9]+)? s are in .*/brief.scope: ' "a short program"

say "== a crash"
start record-crash out "$SCOPETRACE" record -f work -f slow_call --flight 500ms -o "$T/crash.scope" -- "$O/targets/flight" 1000
wait_line record-crash '^pid ([0-9]+)$'
send record-crash "after 700"
wait_line record-crash '^reached ([0-9]+)'
reached=${BASH_REMATCH[1]}
send record-crash crash
finish record-crash
expect_status 139 "the command that crashed"
expect_text "$T/record-crash.err" 'the command was ended by signal 11 \(.*\): the last 0.5 s are in .*/crash.scope: ' "the crash"
check_window "$T/crash.scope" "$T/record-crash.log" 500000000 "$reached"
expect_balanced "$T/crash.scope" "after a crash"
run "$SCOPETRACE" export "$T/crash.scope" -t csv
expect_text "$T/run.out" ',hooked,work,.*unfinished' "the call that crashed"
expect_text "$T/run.out" ',manual,m_work,.*(unfinished|cut)' "the manual scope that crashed"
expect_text "$T/run.out" ',manual,m_session,.*(unfinished|cut)' "the scope that was open since before the window"

say "== a program that was attached to crashes"
begin crashed 1000
start record-crashed err "$SCOPETRACE" record -p "$target" -f work -f slow_call --flight 500ms -o "$T/crashed.scope"
wait_line record-crashed "armed 2 of 2 functions in pid $target"
let_run crashed 700
send program-crashed crash
finish program-crashed
expect_status 139 "the program that crashed"
finish record-crashed
expect_text "$T/record-crashed.log" "process $target has ended: the last 0.5 s are in .*/crashed.scope: " "its crash"
check_window "$T/crashed.scope" "$T/program-crashed.log" 500000000 "$reached"
expect_balanced "$T/crashed.scope" "after the crash of a program that was attached to"
run "$SCOPETRACE" export "$T/crashed.scope" -t csv
expect_text "$T/run.out" ',hooked,work,.*unfinished' "the call that crashed, attached to"

say "== what it is doing right now"
begin now 1000
echo mine >"$T/now.scope.1" # stays
start record-now err "$SCOPETRACE" record -p "$target" -f work -f slow_call --flight 500ms -o "$T/now.scope"
wait_line record-now "armed 2 of 2 functions in pid $target"
let_run now 600
send program-now "call 1500"
sleep 0.7
kill -USR1 "${pid[record-now]}"
wait_line record-now 'SIGUSR1: the last 0.5 s are in .*/now.scope.2: '
let_run now 100
kill -USR1 "${pid[record-now]}"
wait_line record-now 'SIGUSR1: the last 0.5 s are in .*/now.scope.3: '
send program-now quit
finish program-now
finish record-now
run "$SCOPETRACE" export "$T/now.scope.2" -t csv
[ "$(grep -c ',hooked,slow_call,' "$T/run.out")" = 1 ] || fail "the running call is in the snapshot $(grep -c ',hooked,slow_call,' "$T/run.out") times"
awk -F, '/,hooked,slow_call,.*unfinished/ && $2 - $1 > 600000000 && $2 - $1 < 1500000000 { found = 1 } END { exit !found }' \
	"$T/run.out" || fail "the running call: $(grep slow_call "$T/run.out")"
run "$SCOPETRACE" export "$T/now.scope.3" -t csv
[ "$(grep -c ',hooked,slow_call,' "$T/run.out")" = 1 ] || fail "the call that has ended is there $(grep -c ',hooked,slow_call,' "$T/run.out") times"
! grep -q ',hooked,slow_call,.*unfinished' "$T/run.out" || fail "the call that has ended is unfinished"
expect_balanced "$T/now.scope" "after a look at a running call"
[ "$(cat "$T/now.scope.1")" = mine ] || fail "a file of that name was written over"

say "== a command that ends"
start record-exit out "$SCOPETRACE" record -f work --flight 10s -o "$T/exit.scope" -- "$O/targets/flight" 1000
wait_line record-exit '^pid ([0-9]+)$'
# Ctrl-C is the command's, which does not mind; SIGUSR1 is ours as before.
send record-exit deaf
send record-exit "after 0"
wait_line record-exit '^reached'
kill -INT "${pid[record-exit]}"
kill -USR1 "${pid[record-exit]}"
until grep -Eq 'SIGUSR1: the last [0-9.]+ s are in .*/exit.scope.1: ' "$T/record-exit.err"; do
	kill -0 "${pid[record-exit]}" 2>/dev/null || fail "SIGUSR1 after Ctrl-C has ended the recorder"
	sleep 0.02
done
send record-exit quit
finish record-exit
expect_status 0 "a command that ends"
expect_text "$T/record-exit.err" 'the command has ended with exit status 0: the last [0-9.]+ s are in ' "a command that ends"
expect_balanced "$T/exit.scope" "a command that ends"

say "== memory"
rss() { awk '/^VmRSS/ { print $2 }' "/proc/${pid[record-memory]}/status"; }
begin memory 0
# Small rings, all of whose pages are soon in use.
start record-memory err "$SCOPETRACE" record -p "$target" -f work --flight 100ms -o "$T/memory.scope" --buffer 256K --ring-size 256K
wait_line record-memory "armed 1 of 1 functions in pid $target"
let_run memory 300
early=$(rss)
# These are 5 MB.
for ((enough = calls + 40000; calls < enough; )); do let_run memory 100; done
late=$(rss)
say "resident: $early kB after 3 windows, $late kB after 40,000 calls more"
[ "$late" -le $((early + 2048)) ] || fail "the recorder grows: from $early kB to $late kB"
kill -INT "${pid[record-memory]}"
finish record-memory
expect_status 0 "the flight recorder of a fast program"
send program-memory quit
finish program-memory
expect_balanced "$T/memory.scope" "a fast program"

say "== a bound of memory"
begin bound 0
start record-bound err "$SCOPETRACE" record -p "$target" -f work --flight 1h --flight-size 8M -o "$T/bound.scope"
wait_line record-bound "armed 1 of 1 functions in pid $target"
let_run bound 0
# A call is 48 bytes, its manual scope 80: more than fits when 70,000 have been made.
for ((enough = calls + 80000; calls < enough; )); do let_run bound 100; done
kill -INT "${pid[record-bound]}"
finish record-bound
expect_status 0 "the flight recorder at its bound"
expect_text "$T/record-bound.log" 'the window was down to [0-9.]+ s at times.*--flight-size' "the bound is said"
[ "$(stat -c %s "$T/bound.scope")" -lt $((9 << 20)) ] || fail "more than the bound is in the file"
send program-bound quit
finish program-bound
expect_balanced "$T/bound.scope" "at the bound"

say "== no memory any more"
begin short 0
start record-short err "$SCOPETRACE" record -p "$target" -f work --flight 1h -o "$T/short.scope"
wait_line record-short "armed 1 of 1 functions in pid $target"
let_run short 100
# 4 MB from here on.
prlimit --pid "${pid[record-short]}" --as=$(($(awk '/^VmSize/ { print $2 }' "/proc/${pid[record-short]}/status") * 1024 + (4 << 20)))
finish record-short
expect_status 1 "without memory"
expect_text "$T/record-short.log" 'error: no memory for the flight recorder' "without memory"
# What there was is what one wants to see now; it does not look like all.
run "$SCOPETRACE" report "$T/short.scope"
expect_status 1 "without memory: report"
expect_text "$T/run.out" '^work +hooked +[0-9]{3,} .*' "without memory"
expect_text "$T/run.out" 'NOT BALANCED: the file was cut short' "without memory"
send program-short quit
finish program-short

say "== options"
refused() { # PATTERN OPTION...
	local pattern=$1
	shift
	run "$SCOPETRACE" record -p $$ "$@"
	expect_status 2 "record $*"
	expect_text "$T/run.err" "$pattern" "record $*"
}
refused 'flight recorder: give --flight' --trigger 'a>1ms'
refused 'flight recorder: give --flight' --flight-size 16M
refused 'wants a time' --flight 0
refused 'wants NAME>TIME' --flight 1 --trigger 'a'
refused 'wants NAME>TIME' --flight 1 --trigger 'a>b'
refused 'a name before' --flight 1 --trigger ' >1ms'
refused '8M to' --flight 1 --flight-size 1M

expect_nothing_left "$T/before" "the flight recorder"
