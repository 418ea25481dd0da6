#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A file that is written too slowly costs what is written, and nothing else: the rings are drained all the while, what finds
# no room on the way to the file is counted, told at its time, and the numbers are those of the program.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/calls"
PROGRAM=$O/targets/calls
[ ! -x "$PROGRAM.nop5" ] || PROGRAM=$PROGRAM.nop5
CALLS=6000
snapshot "$T/before"

# begin NAME OPTION...: a capture of the program into a pipe, which the caller reads by ${from_pipe}, while the program waits.
begin() {
	local name=$1
	shift
	start "calls-$name" out env SCOPE_SLOTS=131072 "$PROGRAM" --threads 2 --calls $CALLS --rate 1500 --manual --wait-go
	wait_line "calls-$name" '^pid [0-9]+$'
	mkfifo "$T/pipe-$name"
	exec {from_pipe}<>"$T/pipe-$name"
	start "record-$name" err bash -c 'exec "$@" >"$0"' "$T/pipe-$name" "$SCOPETRACE" record -p "${line#pid }" \
		-f outer -f middle -f inner --ring-size 1M -o - "$@"
	wait_line "record-$name" 'armed 3 of 3'
	# With no other writer than the recorder the reader meets the end.
	exec {read_only}<"$T/pipe-$name" {from_pipe}>&-
	from_pipe=$read_only
}

# conclude NAME: all are done, and what came out of the pipe is $T/NAME.scope.
conclude() {
	exec {from_pipe}<&-
	# The identities once more, of the file itself and by code that is not the loader's.
	run python3 "$HERE/read_capture.py" "$T/$1.scope"
	expect_status 0 "the file, $1: $(tail -n 1 "$T/run.out")"
	run "$SCOPETRACE" report "$T/$1.scope" --json
	expect_status 0 "report, $1"
	mv "$T/run.out" "$T/$1.json"
	run "$SCOPETRACE" export "$T/$1.scope" -t csv -o "$T/$1.csv"
	expect_status 0 "export, $1"
}

# judge NAME MODE: MODE stalled, throttled: much is lost, or none: nothing is.
judge() {
	python3 - "$T/$1.json" "$T/$1.csv" "$T/calls-$1.log" "$2" "$1" <<-'END' || fail "$1: the accounts"
		import csv, json, sys
		report, mode = json.load(open(sys.argv[1])), sys.argv[4]
		rows = list(csv.DictReader(open(sys.argv[2])))
		truth = json.loads([line for line in open(sys.argv[3]) if line.startswith("truth ")][-1].removeprefix("truth "))
		total, losses, wrong = report["accounting"], report["losses"], []
		def same(what, ours, theirs):
		    if ours != theirs:
		        wrong.append(f"{what}: {ours}, not {theirs}")
		calls = sum(truth["returns"].values())
		places = {loss["place"] for loss in losses}
		handoff = [loss for loss in losses if "hand-off" in loss["place"]]
		of_calls = [loss for loss in handoff if not loss["pid"]]
		of_events = [loss for loss in handoff if loss["pid"]]
		same("balanced", total["balanced"], True)
		same("entries, truly", total["entries"], sum(truth["entries"].values()))
		# Nothing but the hand-off has lost anything.
		same("lost in the kernel's ring", total["ring_lost"], 0)
		same("lost in the segment", total["segment_lost"] + total["written_off"], 0)
		same("calls in the file and lost", total["in_file"] + total["handoff_lost"], calls)
		same("by function", sum(f["handoff_lost"] for f in report["functions"] if f["kind"] == "hooked"),
		     total["handoff_lost"])
		for f in report["functions"]:
		    if f["kind"] == "hooked":
		        same(f"{f['name']} in the file and lost", f["in_file"] + f["handoff_lost"], truth["returns"][f["name"]])
		same("calls in the CSV", sum(row["kind"] == "hooked" for row in rows), total["in_file"])
		same("calls that the losses tell", sum(loss["count"] for loss in of_calls), total["handoff_lost"])
		same("events that the losses tell", sum(loss["count"] for loss in of_events), total["segment_handoff_lost"])
		same("places", places - {handoff[0]["place"]} if handoff else places, set())
		# Each scope is two records; each of the two threads writes its loop, its begin and its name.
		events = 2 * (truth["entries"]["outer"] + truth["entries"]["middle"] + truth["entries"]["inner"] + 2)
		if not events <= total["segment_delivered"] <= events + 8:
		    wrong.append(f"{total['segment_delivered']} events delivered, truly {events} and the threads' own")
		# At its time: within the run, and where nothing is in the file.
		for loss in of_calls:
		    if not truth["begin_ns"] <= loss["first_ns"] <= loss["last_ns"] <= truth["end_ns"]:
		        wrong.append(f"the program ran from {truth['begin_ns']} to {truth['end_ns']}: {loss}")
		for loss in of_events:
		    if not (loss["first_ns"] <= truth["end_ns"] and loss["last_ns"] >= truth["begin_ns"]):
		        wrong.append(f"the program ran from {truth['begin_ns']} to {truth['end_ns']}: {loss}")
		ends = sorted(int(row["end_ns"]) for row in rows if row["kind"] == "hooked")
		within = sum(any(loss["first_ns"] < end < loss["last_ns"] for loss in of_calls) for end in ends)
		# Calls that end on two processors at the same time may come in either order.
		if within > 8 * len(of_calls):
		    wrong.append(f"{within} calls ended while, they say, all were lost")
		# And the other way round: where for long nothing is in the file, a loss says so.
		def uncovered(first, last):
		    for loss in sorted(of_calls, key=lambda loss: loss["first_ns"]):
		        if loss["first_ns"] - first > SILENCE:
		            break
		        first = max(first, loss["last_ns"])
		    return last - first > SILENCE
		SILENCE = 300_000_000
		times = [truth["begin_ns"], *ends, truth["end_ns"]]
		wrong += [f"nothing in the file from {first} to {last}, and no loss: {of_calls}"
		          for first, last in zip(times, times[1:]) if uncovered(first, last)]
		if mode == "none":
		    same("lost", total["handoff_lost"] + total["segment_handoff_lost"], 0)
		elif not total["handoff_lost"] or not total["segment_handoff_lost"] or not total["in_file"]:
		    wrong.append("the buffer was not too small for this test")
		elif not any("lost" in row["flags"] for row in rows):
		    wrong.append("no scope is marked lost")
		if mode == "throttled" and len(of_calls) < 2:
		    wrong.append("it did not go on after a loss")
		names = {row["name"] for row in rows if row["kind"] == "manual"}
		if not names <= {"m_loop", "m_outer", "m_middle", "m_inner"} or not names:
		    wrong.append(f"names: {names}")
		print(f"{sys.argv[5]}: {calls} calls, {total['handoff_lost']} lost in {len(of_calls)} losses; {events} events,"
		      f" {total['segment_handoff_lost']} lost in {len(of_events)}")
		sys.exit("\n".join(wrong) if wrong else 0)
	END
}

say "== a pipe that nobody reads until the program has ended"
begin stalled --buffer 256K
send calls-stalled go
finish calls-stalled
expect_status 0 "the program"
cat <&"$from_pipe" >"$T/stalled.scope"
finish record-stalled
expect_status 0 "record, stalled"
conclude stalled
judge stalled stalled
expect_text "$T/record-stalled.log" 'warning: [0-9]+ calls and manual events were lost because.*--buffer' "what it says"

# Of more than twice the time that they took, so that more comes meanwhile than all buffers hold.
say "== a reader that takes a rest after each half MiB"
begin throttled --buffer 256K
python3 -c '
import os, sys, time
def take(most):
    while most > 0 and (data := os.read(0, min(most, 1 << 16))):
        sys.stdout.buffer.write(data)
        most -= len(data)
    return not most
while take(1 << 16):
    began = time.monotonic()
    if not take(7 << 16):
        break
    until = began + 3.5 * (time.monotonic() - began)
    while time.monotonic() < until and not os.path.exists(sys.argv[1]):
        time.sleep(0.02)
' "$T/over" <&"$from_pipe" >"$T/throttled.scope" &
reader=$!
pid[reader]=$reader
send calls-throttled go
finish calls-throttled
touch "$T/over"
finish record-throttled
wait $reader
pid[reader]=
expect_status 0 "record, throttled"
conclude throttled
judge throttled throttled

say "== a reader that keeps pace"
begin steady
cat <&"$from_pipe" >"$T/steady.scope" &
pid[reader]=$!
send calls-steady go
finish calls-steady
finish record-steady
wait "${pid[reader]}"
pid[reader]=
expect_status 0 "record, steady"
conclude steady
judge steady none
expect_nothing_left "$T/before" "hand-off"
