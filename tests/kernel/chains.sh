#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Tail calls between functions whose returns are seen in different ways, by either mode throughout, and by both mixed;
# and hooks on the C library that an exec takes into a program that throws through them.
. "$(dirname "$0")/lib.sh"

need "$O/targets/chains" "$O/targets/throwsort"
snapshot "$T/before"

# judge WHAT COMPLETED UNFINISHED: each of the three functions, and the nesting.
judge() {
	run "$SCOPETRACE" report "$T/chains.scope" --json
	python3 - "$T/run.out" "$2" "$3" <<-'END' || fail "$1: the account"
		import json, sys
		report = json.load(open(sys.argv[1]))
		assert report["accounting"]["balanced"]
		functions = {f["name"]: f for f in report["functions"]}
		for name in ("front", "looping", "back"):
		    f = functions[name]
		    print(f"    {name}: {f['completed']} completed, {f['unfinished']} unfinished, {f['discarded']} discarded, "
		          f"{f['unwound']} unwound, {f['orphans']} orphans")
		    assert (f["completed"], f["unfinished"]) == (int(sys.argv[2]), int(sys.argv[3])), name
		    assert (f["discarded"], f["unwound"], f["orphans"]) == (0, 0, 0), name
	END
	run "$SCOPETRACE" export "$T/chains.scope" -t csv
	python3 - "$T/run.out" <<-'END' || fail "$1: the nesting"
		import csv, sys
		depth = {"front": {"0"}, "looping": {"1"}, "back": {"2"}}
		for row in csv.DictReader(open(sys.argv[1])):
		    assert row["depth"] in depth[row["name"]], row
	END
}

for returns in auto instruction uretprobe; do
	run "$SCOPETRACE" record --returns="$returns" -o "$T/chains.scope" -f front -f looping -f back -- "$O/targets/chains" 200
	expect_status 0 "$returns"
	say "$returns: $(cat "$T/run.out")"
	judge "$returns" 200 0
	run "$SCOPETRACE" record --returns="$returns" -o "$T/chains.scope" -f front -f looping -f back -- "$O/targets/chains" 50 exit
	expect_status 0 "$returns, exit"
	say "$returns, exit: $(cat "$T/run.out")"
	judge "$returns, exit" 49 1
done
# front() by its exits, looping() too, back() by a uretprobe; and the other way round.
run "$SCOPETRACE" functions "$O/targets/chains" front looping back
expect_text "$T/run.out" '^looping .* instruction$' "auto"
expect_text "$T/run.out" '^front .* uretprobe$' "auto"

# nice(1) itself throws nothing, but goes on as a program that does.
run "$O/targets/throwsort"
expect_status 0 "untraced throwsort"
run "$SCOPETRACE" record -o "$T/exec.scope" -f 'libc*:qsort' -- nice "$O/targets/throwsort"
expect_status 0 "a program that throws, through hooks that were made before its exec"
expect_text "$T/run.out" 'caught=100' "a program that throws, through hooks that were made before its exec"
expect_text "$T/run.err" 'returns by instruction: .*exec' "the reason"
expect_nothing_left "$T/before" "chains"
