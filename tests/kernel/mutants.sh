#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Is the call-for-call test able to fail? Each patch of tests/mutants makes a loader with one plausible fault, built from a
# patched copy of the sources; the checker must catch it, and must pass the true loader in the same run.
. "$(dirname "$0")/lib.sh"

ROOT=$(cd "$HERE/../.." && pwd)
# shellcheck disable=SC2034
PATIENCE=300 # of `run` in this script
export THREADS=2 RATE=5000 CALLS=1000

# One copy of the sources, and its objects, serve all mutants in turn: a patch is taken back when its loader is built, and
# make builds again only what the patches touch.
source=$O/mutants/source
rm -rf "$O/mutants"
mkdir -p "$source/tests"
cp -rp "$ROOT/Makefile" "$ROOT/bpf" "$ROOT/vmlinux" "$ROOT/loader" "$ROOT/libscope" "$source/"
cp -p "$ROOT"/tests/*.mk "$source/tests/"

build() {
	local name=$1 apply=(patch --quiet --strip=1 "--directory=$source")
	"${apply[@]}" <"$ROOT/tests/mutants/$name.patch" ||
		fail "tests/mutants/$name.patch does not fit the sources any more: make it anew"
	env -u MAKEFLAGS -u MAKELEVEL make -s -j2 -C "$source" "O=$O/mutants/build" "$O/mutants/build/scopetrace" \
		>"$T/$name.log" 2>&1 || fail "the mutant $name does not build"
	mv "$O/mutants/build/scopetrace" "$O/mutants/$name"
	"${apply[@]}" --reverse <"$ROOT/tests/mutants/$name.patch"
}

# judge NAME SHAPE CHECK...: the true loader passes this shape, the mutant does not, and one of these checks says so.
judge() {
	local name=$1 shape=$2 mutant=$O/mutants/$1 check
	shift 2
	run bash "$HERE/call_for_call.sh" "$shape"
	[ "$status" = 0 ] || { cat "$T/run.out"; fail "the true loader does not pass '$shape', so it cannot judge $name"; }
	build "$name"
	run env LOADER="$mutant" bash "$HERE/call_for_call.sh" "$shape"
	[ "$status" != 0 ] || fail "the mutant $name passed"
	say "$name, caught by:"
	grep -A 1 -E '^check .* FAILED|record: exit status' "$T/run.out" | cut -c 1-160
	for check in "$@"; do
		grep -q "^check $check FAILED" "$T/run.out" || { cat "$T/run.out"; fail "the mutant $name is not caught by check $check"; }
	done
}

judge plain_stack escape 2
judge tiny_ring calls 7
judge dropped_siblings calls 7

# A capture that does not add up says so, and so does its report.
export KEEP=$T/kept
judge uncounted overflow identity
expect_text "$T/run.out" 'record: exit status 1$' "record of a capture that does not add up"
expect_text "$T/run.out" 'error: the numbers of this capture do not add up' "record of a capture that does not add up"
run "$SCOPETRACE" report "$T/kept/overflow/calls.scope"
expect_status 1 "report of a capture that does not add up"
expect_text "$T/run.out" 'NOT BALANCED: .*completed is [0-9]+, but' "report of a capture that does not add up"
