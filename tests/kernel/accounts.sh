#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The accounts of captures by the real loader: for every program of the pairing tests the identities hold, for each
# function and in all, and say what the program says; and where the ring loses some of the calls each loss is in the file.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE"
NOP5=()
[ "$(uname -m)" != x86_64 ] || NOP5=(.nop5)

# capture NAME PROGRAM "FUNCTION..." "RECORD OPTIONS" ARGUMENT...
capture() {
	local name=$1 program=$2 functions=() function options=$4
	for function in $3; do
		functions+=(-f "$function")
	done
	shift 4
	start "$name" out "$program" --wait-go "$@"
	wait_line "$name" '^pid [0-9]+$'
	start "record-$name" err "$SCOPETRACE" record -p "${line#pid }" "${functions[@]}" -o "$T/$name.scope" $options
	wait_line "record-$name" "armed $((${#functions[@]} / 2)) of"
	send "$name" go
	finish "$name"
	expect_status 0 "$name"
	finish "record-$name"
	expect_status 0 "record of $name"
	run "$SCOPETRACE" report "$T/$name.scope" --json
	expect_status 0 "report of $name"
	mv "$T/run.out" "$T/$name.json"
}

# Judged by what a user can read, without the loader's code: the program's truth line against the report.
judge() {
	python3 - "$T/$1.json" "$T/$1.log" "$1" <<-'END' || fail "$1: the accounts are wrong"
		import json, re, sys
		report, wrong = json.load(open(sys.argv[1])), []
		truth = [line for line in open(sys.argv[2]) if line.startswith("truth ")][-1]
		total = report["accounting"]
		def identities(terms, where):
		    def add(*names):
		        return sum(terms[name] for name in names)
		    for left, parts in (
		        ("entries", ("not_a_call", "too_deep", "filtered", "map_full", "chain_full", "opened")),
		        ("opened", ("completed", "discarded", "unwound", "unfinished")),
		        ("returns", ("completed", "not_a_return", "orphans")),
		        ("completed", ("below_minimum", "ring_lost", "handoff_lost", "expired", "in_file"))):
		        if terms[left] != add(*parts):
		            wrong.append(f"{where}: {left} is {terms[left]}, its parts are {add(*parts)}")
		functions = {f["name"]: f for f in report["functions"] if "entries" in f}
		for name, entries, returns in re.findall(r" (\w+)=(\d+)/(\d+)", truth):
		    seen = functions.pop(name, None)
		    if not seen:
		        if int(entries):
		            wrong.append(f"{name} is not in the report")
		        continue
		    identities(seen, name)
		    if seen["entries"] - seen["not_a_call"] != int(entries):
		        wrong.append(f"{name}: {seen['entries']} entries, truly {entries}")
		    # Of a call that is too deep the kernel gives no return.
		    if seen["returns"] - seen["not_a_return"] + seen["too_deep"] != int(returns):
		        wrong.append(f"{name}: {seen['returns']} returns, truly {returns}")
		identities(total, "in all")
		if not total["balanced"] or functions:
		    wrong.append(f"balanced: {total['balanced']}; not in the truth: {list(functions)}")
		print(f"{sys.argv[3]}: {total['entries']} entries, {total['returns']} returns, {total['in_file']} in the file,"
		      f" {total['discarded']} discarded, {total['unfinished']} unfinished, {total['too_deep']} too deep")
		sys.exit("\n".join(wrong) if wrong else 0)
	END
}

# each NAME "FUNCTION..." "RECORD OPTIONS" ARGUMENT...: plain, and with the entries that the kernel can optimise.
each() {
	local name=$1 build
	shift
	for build in "" "${NOP5[@]}"; do
		need "$O/targets/$name$build"
		capture "$name$build$SUFFIX" "$O/targets/$name$build" "$@"
		judge "$name$build$SUFFIX"
	done
}

SUFFIX=
each longjmp "top mid leaf" ""
each recurse rec "" 70
each tailcall "a b even odd" ""
each exitin "last bye fin steps" ""
each threads fn "" 8
each signals "work on_signal step" ""
SUFFIX=-jump each signals "work on_signal step" "" jump
each vforkin "vforker step" ""
each abandon "outer visit leaf" ""
each execin "work replace" ""
each threadend "leave step" --force
SUFFIX=-killed each threadend "leave step" --force killed
SUFFIX=
each forkin "forker after" "" # a child that called an optimised site would die: behind the nop they are not

# A ring of one page, drained each millisecond. 0; 3 if that pace loses nothing, 4 if nothing finds room.
halve() {
	start halved out "$O/targets/calls${NOP5[*]}" --threads 4 --calls 2000 --rate "$1" --wait-go
	wait_line halved '^pid [0-9]+$'
	start record-halved err "$SCOPETRACE" record -p "${line#pid }" -f outer -f middle -f inner -o "$T/halved.scope" \
		--ring-size 4096
	wait_line record-halved 'armed 3 of 3'
	send halved go
	finish halved
	finish record-halved
	expect_status 0 "record with a tiny ring"
	run "$SCOPETRACE" report "$T/halved.scope" --json
	expect_status 0 "report of a capture with losses"
	mv "$T/run.out" "$T/halved.json"
	run "$SCOPETRACE" report "$T/halved.scope"
	mv "$T/run.out" "$T/halved.txt"
	run "$SCOPETRACE" export "$T/halved.scope" -t csv
	mv "$T/run.out" "$T/halved.csv"
	python3 - "$T" <<-'END'
	import json, re, sys
	where = sys.argv[1]
	truth = json.loads(open(f"{where}/halved.log").read().splitlines()[-1].removeprefix("truth "))
	report, wrong = json.load(open(f"{where}/halved.json")), []
	total, calls = report["accounting"], sum(truth["returns"].values())
	losses = report["losses"]
	text = open(f"{where}/halved.txt").read()
	rows = [(float(at), int(count)) for at, count in re.findall(r"^ *([+-][\d.]+) s +(\d+) +\S+ +kernel ring full on cpu", text, re.M)]
	rest = re.search(r"^and (\d+) more losses of (\d+) events$", text, re.M)
	told = sum(count for _, count in rows) + (int(rest[2]) if rest else 0)
	in_csv = sum(",hooked," in line for line in open(f"{where}/halved.csv"))
	for what, left, right in (
	    ("entries, truly", total["entries"], sum(truth["entries"].values())),
	    ("returns, truly", total["returns"], calls),
	    ("lost and in the file, of the calls", total["ring_lost"] + total["in_file"], calls),
	    ("lost, of those that the rows of losses tell", total["ring_lost"], told),
	    ("in the file, of those in the CSV", total["in_file"], in_csv),
	    ("lost, of those that the losses tell", total["ring_lost"], sum(loss["count"] for loss in losses)),
	    ("lost by function, in all", sum(f["ring_lost"] for f in report["functions"]), total["ring_lost"])):
	    if left != right:
	        wrong.append(f"{what}: {left}, {right}")
	if bool(rows) != bool(losses) or any(at < 0 or count < 1 for at, count in rows) or [at for at, _ in rows] != sorted(at for at, _ in rows):
	    wrong.append(f"rows of losses: {rows}")
	for loss in losses:
	    if not truth["begin_ns"] <= loss["first_ns"] <= loss["last_ns"] <= truth["end_ns"]:
	        wrong.append(f"{loss}: the program ran from {truth['begin_ns']} to {truth['end_ns']}")
	print(f"halved: {calls} calls, {total['ring_lost']} lost in {len(rows) + (int(rest[1]) if rest else 0)} records of losses,"
	      f" {total['in_file']} in the file")
	sys.exit("\n".join(wrong) if wrong else 3 if not total["ring_lost"] else 4 if not total["in_file"] else 0)
	END
}

# Until it is a pace at which some calls find room, and some do not, which is another one on each machine.
rate=${RATE:-2500} outcome=
for _ in 1 2 3 4 5 6; do
	halve "$rate"
	outcome=$?
	case $outcome in
	3) rate=$((rate * 2)) ;;
	4) rate=$((rate / 2)) ;;
	*) break ;;
	esac
done
[ "$outcome" = 0 ] || fail "losses ($outcome, at a rate of $rate)"
