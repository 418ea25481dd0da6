#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A probe changes nothing: every form of first instruction that a distribution's functions have, executed from many
# register files, watched in every mode and not; C code that begins with vector instructions; a function that pops its
# arguments.
. "$(dirname "$0")/lib.sh"

SITES=$O/targets/sites
need "$SCOPETRACE" "$SITES" "$O/targets/vectors" "$O/targets/pops"
snapshot "$T/before"

# as_unwatched MODE [OPTION]...: the same lines; each form is counted, call for call, or named as not hooked.
as_unwatched() {
	local mode=$1
	shift
	run "$SCOPETRACE" record --all "--returns=$mode" -f 'form_*' "$@" -o "$T/$mode.scope" -- "$SITES"
	expect_status 0 "record --returns=$mode"
	diff "$T/unwatched" "$T/run.out" >"$T/difference" ||
		fail "--returns=$mode: $(grep -c '^>' "$T/difference") forms differ: $(sed -n 's/^> //p' "$T/difference" | head -n 3)"
	"$SCOPETRACE" report --json "$T/$mode.scope" >"$T/report.json" || fail "report"
	python3 - "$T/report.json" "$T/unwatched" <<'END' || fail "--returns=$mode: the counts"
import json, re, sys
report = json.load(open(sys.argv[1]))
hooked = {f["name"]: f for f in report["functions"]}
named = {f["name"] for f in report["not_hooked"]}
forms, wrong = {}, []
for line in open(sys.argv[2]):
    match = re.match(r"(form_\d+) (.*): \S+ went (\d+) ", line)
    forms[match[1]] = (match[2], int(match[3]))
for name, (text, went) in forms.items():
    if (name in hooked) == (name in named) and (name in hooked or went == 20):
        wrong.append(f"{name} {text}: neither counted nor named")
    elif name in hooked and went == 20 and hooked[name]["calls"] != 20:
        wrong.append(f"{name} {text}: {hooked[name]['calls']} calls, not 20")
print(f"{len(hooked)} forms counted, {len(named)} named as not hooked of {len(forms)}")
print(*wrong[:10], sep="\n")
sys.exit(bool(wrong) or len(hooked) < 0.9 * len(forms) or not report["accounting"]["balanced"])
END
	say "--returns=$mode: every form as unwatched"
}

say "== every form of first instruction"
"$SITES" >"$T/unwatched" || fail "the forms, unwatched: exit status $?"
as_unwatched auto
as_unwatched instruction
as_unwatched none
# What a signal leaves 64 times has no uretprobe left: the kernel's limit, which is not what is asked here.
raising=()
while read -r form; do raising+=(-N "$form"); done < <(sed -nE 's/^(form_[0-9]+) .* raised [1-9][0-9]*$/\1/p' "$T/unwatched")
as_unwatched uretprobe --force "${raising[@]}"

say "== the list tells what record leaves out"
run "$SCOPETRACE" functions "$SITES" 'form_*'
expect_status 0 "functions"
refused=$(grep -c ' refused$' "$T/run.out")
[ "$refused" -gt 20 ] || fail "functions refuses $refused forms"

say "== code that compilers begin with vector instructions"
"$O/targets/vectors" >"$T/vectors.unwatched" || fail "vectors, unwatched: exit status $?"
for mode in auto uretprobe instruction none; do
	run "$SCOPETRACE" record "--returns=$mode" -f 'vector_*' -o "$T/vectors.scope" -- "$O/targets/vectors"
	expect_status 0 "vectors, --returns=$mode"
	cmp -s "$T/vectors.unwatched" "$T/run.out" || fail "vectors, --returns=$mode: $(cat "$T/run.out")"
done
say "vectors: $(cat "$T/vectors.unwatched")"

say "== a function that pops its arguments: in each mode its returns are those of its entries"
"$O/targets/pops" >"$T/pops.unwatched" || fail "pops, unwatched: exit status $?"
for mode in auto uretprobe instruction none; do
	run "$SCOPETRACE" record "--returns=$mode" -f pop_sum -o "$T/pops.scope" -- "$O/targets/pops"
	expect_status 0 "pops, --returns=$mode"
	cmp -s "$T/pops.unwatched" "$T/run.out" || fail "pops, --returns=$mode: $(cat "$T/run.out")"
	"$SCOPETRACE" report --json "$T/pops.scope" | python3 -c "
import json, sys
report = json.load(sys.stdin)
function, = report['functions']
terms = {term: function[term] for term in ('calls', 'entries', 'discarded', 'orphans')}
print('--returns=$mode:', terms)
sys.exit(terms != {'calls': 3000, 'entries': 3000, 'discarded': 0, 'orphans': 0} or not report['accounting']['balanced'])" ||
		fail "pops, --returns=$mode: the counts"
done

expect_nothing_left "$T/before" "sites"
