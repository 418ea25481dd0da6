#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What becomes of a captured process: it and its threads change their names, it runs other programs, it forks. Each
# program says what it did and when; the capture must say the same.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O"/targets/{namesteps,execwait,execthrow,heirs}
snapshot "$T/before"
BUILDS=("")
[ "$(uname -m)" != x86_64 ] || BUILDS+=(.nop5)

# hook NAME PROGRAM "FUNCTION..." ARGUMENT...: it is captured, and begins at `send NAME`; its pid is in $target.
# `record_options` hold for one capture.
record_options=()
hook() {
	local name=$1 program=$2 functions=() function
	for function in $3; do
		functions+=(-f "$function")
	done
	shift 3
	start "$name" out "$program" --wait-go "$@"
	wait_line "$name" '^pid [0-9]+$'
	target=${line#pid }
	start "record-$name" err "$SCOPETRACE" record -p "$target" "${functions[@]}" "${record_options[@]}" -o "$T/$name.scope"
	wait_line "record-$name" "armed $((${#functions[@]} / 2)) of"
	record_options=()
}

# begin: the same, and it has begun; it goes on at `send NAME`.
begin() {
	hook "$@"
	send "$1" go
}

# end NAME: its report is in $T/NAME.json.
end() {
	finish "$1"
	expect_status 0 "$1"
	finish "record-$1"
	expect_status 0 "record of $1"
	run "$SCOPETRACE" report "$T/$1.scope" --json
	expect_status 0 "report of $1"
	mv "$T/run.out" "$T/$1.json"
}

# expect_calls NAME "FUNCTION=CALLS..." PID: so many completed calls, all of that process, and nothing else.
expect_calls() {
	python3 - "$T/$1.json" "$2" "$3" <<-'END' || fail "$1: the calls are wrong"
		import json, sys
		report, wrong = json.load(open(sys.argv[1])), []
		found = {f["name"]: f for f in report["functions"]}
		total = report["accounting"]
		for name, calls in (word.split("=") for word in sys.argv[2].split()):
		    f = found.pop(name, None)
		    for key, wanted in (("entries", calls), ("completed", calls), ("in_file", calls), ("orphans", 0), ("discarded", 0)):
		        if not f or f[key] != int(wanted):
		            wrong.append(f"{name}: {key} is {f and f[key]}, not {wanted}")
		if found or not total["balanced"] or total["ring_lost"]:
		    wrong.append(f"more: {list(found)}; {total}")
		if any(thread["pid"] != int(sys.argv[3]) for thread in report["threads"]):
		    wrong.append(f"threads: {report['threads']}")
		print(sys.argv[1].split("/")[-1], sys.argv[2])
		sys.exit("\n".join(wrong) if wrong else 0)
	END
}

say "== names, each since when it was true"
ln -s "$O/targets/namesteps" "$T/other-name"
begin names "$O/targets/namesteps" work "$T/other-name"
wait_line record-names 'process [0-9]+ runs other-name now: its functions are hooked as before'
send names go
end names
expect_calls names work=50 "$target"
python3 - "$T/names.json" "$T/names.log" "$target" "$T/other-name" "$O/targets/namesteps" <<'END' || fail "names"
import json, re, sys
report, wrong, target = json.load(open(sys.argv[1])), [], int(sys.argv[3])
given = {}
for tid, name, before, after in re.findall(r"^name (\d+) (\S+) (\d+) (\d+)$", open(sys.argv[2]).read(), re.M):
    given.setdefault(int(tid), []).append((name, int(before), int(after)))
lanes = {}
for thread in report["threads"]:
    lanes.setdefault(thread["tid"], []).append(thread)
for tid, names in given.items():
    # The first is what it was called when it was first seen.
    told = [n for lane in lanes.get(tid, []) for n in lane.get("names", [])]
    first, rest = (told[0]["name"], told[1:]) if tid == target else (names[0][0], told)
    if tid == target and first != "namesteps":
        wrong.append(f"{tid} is first called {first}")
    if [n["name"] for n in rest] != [n[0] for n in names]:
        wrong.append(f"{tid} is called {[n['name'] for n in rest]}, truly {names}")
    # Of what it was called already when it was first seen the time is that.
    for n, (name, before, after) in list(zip(rest, names))[0 if tid == target else 1:]:
        if not before <= n["time_ns"] <= after:
            wrong.append(f"{tid} is called {name} since {n['time_ns']}, truly since {before} to {after}")
if set(lanes) != set(given):
    wrong.append(f"threads {list(lanes)}, truly {list(given)}")
process = report["processes"]
if len(process) != 1 or process[0]["pid"] != target or process[0]["name"] != "other-name":
    wrong.append(f"processes: {process}")
names = process[0].get("names", [])
before, after = given[target][-1][1:]
if [n["name"] for n in names] != ["namesteps", "other-name"] or not before <= names[1]["time_ns"] <= after:
    wrong.append(f"process names {names}, truly other-name since {before} to {after}")
elif names[1]["command"].split() != [sys.argv[4], "since", str(before)] or not names[0]["command"].startswith(sys.argv[5]):
    wrong.append(f"commands: {names}")
print({tid: [name for name, _, _ in names] for tid, names in given.items()})
sys.exit("\n".join(wrong) if wrong else 0)
END

for build in "${BUILDS[@]}"; do
	say "== exec by a thread that is not the first, and calls nothing hooked itself$build"
	begin "thread$build" "$O/targets/execwait$build" "work libc.so*:getppid" thread
	wait_line "record-thread$build" 'warning: a thread that was not its first asked for it'
	wait_line "thread$build" '^again'
	send "thread$build" go
	end "thread$build"
	expect_calls "thread$build" "work=20 getppid=20" "$target"
done

say "== exec by the first thread"
begin main "$O/targets/execwait" "work libc.so*:getppid" main
wait_line main '^again'
send main go
end main
expect_calls main "work=20 getppid=20" "$target"

say "== exec of another program: of that only what lies in hooked libraries is seen"
cp "$O/targets/execwait" "$T/elsewhere"
for thread in main thread; do
	begin "other-$thread" "$O/targets/execwait" "work libc.so*:getppid" $thread "$T/elsewhere"
	wait_line "record-other-$thread" 'process [0-9]+ runs elsewhere now: its own functions are not hooked'
	[ $thread = main ] || wait_line "record-other-$thread" 'warning: a thread that was not its first asked for it'
	wait_line "other-$thread" '^again'
	send "other-$thread" go
	end "other-$thread"
	expect_calls "other-$thread" "work=10 getppid=20" "$target"
done

say "== exec of a program that throws: the hooks on libraries change for it, and go on"
for thread in main thread; do
	name=throws-$thread
	begin $name "$O/targets/execwait" "work call libc.so*:getppid" $thread "$O/targets/execthrow"
	# Whichever is found first.
	told='runs execthrow now: its own functions are not hooked' changed='returns by instruction: 2 of 3'
	wait_line record-$name "$told|$changed"
	[[ $line =~ $told ]] || changed=$told
	wait_line record-$name "$changed"
	expect_text "$T/record-$name.log" 'has mapped code that makes uretprobes dangerous' "$name"
	wait_line $name '^again'
	send $name go
	end $name
	expect_text "$T/$name.log" '^truth getppid=20/20 caught=10$' "$name"
	expect_calls $name "work=10 call=1 getppid=20" "$target"
done

say "== a command whose file is replaced before it runs: the other one is not hooked, which is said"
cp "$O/targets/execwait" "$T/replaced"
mkfifo "$T/full"
exec {full}<>"$T/full"
dd if=/dev/zero of="$T/full" bs=4096 oflag=nonblock 2>/dev/null # so that it waits when it is ready
start replaced err "$SCOPETRACE" record --ready-fd "$full" -f work -o "$T/replaced.scope" -- "$T/replaced" again
wait_line replaced 'armed 1 of 1'
cp "$O/targets/execwait" "$T/replaced.new"
mv "$T/replaced.new" "$T/replaced"
dd if="$T/full" of=/dev/null bs=4096 iflag=nonblock 2>/dev/null
wait_line replaced 'process [0-9]+ runs replaced now: its own functions are not hooked'
send replaced go
finish replaced
expect_status 0 "a replaced command"
exec {full}>&-

say "== exec by a thread that the ring has no room for: found out all the same"
record_options=(--ring-size 4K)
hook lost "$O/targets/execwait" "work libc.so*:getppid" thread /proc/self/exe 20
kill -STOP "${pid[record-lost]}"
send lost go
wait_line lost '^again'
kill -CONT "${pid[record-lost]}"
wait_line record-lost 'warning: process [0-9]+ runs exe now, and the kernel.s ring had no room'
send lost go
end lost
python3 - "$T/lost.json" <<'END' || fail "lost: the calls are wrong"
import json, sys
report = json.load(open(sys.argv[1]))
found = {f["name"]: f for f in report["functions"]}
print({name: (f["entries"], f["in_file"], f["ring_lost"]) for name, f in found.items()})
assert report["accounting"]["balanced"]
for f in found.values():
    assert f["entries"] == 210 and f["ring_lost"] > 0 and f["in_file"] >= 10 and f["orphans"] == 0, f
END

# Each child ends well only when its code is as it was before it was hooked.
for how in child grandchild thread "storm 1000"; do
	say "== children are freed of the breakpoints: $how"
	name=heirs-${how%% *}
	begin "$name" "$O/targets/heirs" work $how
	wait_line "$name" '^truth work=([0-9]+)/'
	calls=${BASH_REMATCH[1]}
	end "$name"
	expect_calls "$name" "work=$calls" "$target"
done

say "== children of whose forks the ring had no room to tell are freed all the same"
record_options=(--ring-size 4K)
hook untold "$O/targets/heirs" work child 0 500
kill -STOP "${pid[record-untold]}"
send untold go
wait_line untold '^forked'
kill -CONT "${pid[record-untold]}"
wait_line untold '^truth work=([0-9]+)/[0-9]+ failures=0/0'
calls=${BASH_REMATCH[1]}
end untold
python3 - "$T/untold.json" "$calls" <<'END' || fail "untold: the calls are wrong"
import json, sys
report, calls = json.load(open(sys.argv[1])), int(sys.argv[2])
total = report["accounting"]
print(f"{calls} calls, {total['ring_lost']} lost in the ring")
assert total["balanced"] and total["entries"] == calls and total["ring_lost"] > 0, total
END
expect_nothing_left "$T/before" "lifecycle"
