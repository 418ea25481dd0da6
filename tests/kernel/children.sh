#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Children that a hooked program forks live as they do untraced, whatever its entries look like and however it forks.
. "$(dirname "$0")/lib.sh"

snapshot "$T/before"
source=$HERE/../targets/forkserver.c
include=$HERE/../../libscope/include

# check WHAT PROGRAM [ARGUMENT]: no child dies, and the parent's calls are counted.
check() {
	local what=$1
	shift
	run "$SCOPETRACE" record -o "$T/children.scope" -f handle -- "$@"
	say "$what: $(tail -n 1 "$T/run.out")"
	expect_status 0 "$what"
	expect_text "$T/run.out" 'truth handle=2020/2020 died=0' "$what"
	expect_text "$T/run.err" '[0-9] processes were forked; what they called is not in this capture' "$what"
	run "$SCOPETRACE" report "$T/children.scope" --json
	expect_text "$T/run.out" '"name":"handle".*"calls":2020,' "$what"
}

for how in "" raw; do
	check "plain ${how:-fork}" "$O/targets/forkserver" $how
	[ ! -x "$O/targets/forkserver.nop5" ] || check "gcc's nop ${how:-fork}" "$O/targets/forkserver.nop5" $how
	# clang writes another nop of five bytes, which the kernel optimises just as well.
	if clang -O2 -D_GNU_SOURCE -fpatchable-function-entry=5 -I"$include" "$source" -o "$T/clang" 2>"$T/clang.err"; then
		check "clang's nop ${how:-fork}" "$T/clang" $how
	else
		say "clang cannot: $(head -n 1 "$T/clang.err")"
	fi
done
# fork() inside a hooked call, which returns in both: parent and children do, and end, as they do untraced.
for build in "" .nop5; do
	program=$O/targets/forkin$build
	[ -x "$program" ] || continue
	run "$program"
	expect_status 0 "untraced forkin$build"
	mv "$T/run.out" "$T/untraced"
	run "$SCOPETRACE" record -o "$T/forkin.scope" -f forker -f after -- "$program"
	expect_status 0 "forkin$build"
	cmp "$T/untraced" "$T/run.out" || fail "forkin$build says something else than untraced"
	run "$SCOPETRACE" report "$T/forkin.scope" --json
	for function in forker after; do
		expect_text "$T/run.out" "\"name\":\"$function\".*\"calls\":20,.*\"entries\":20,.*\"completed\":20," "forkin$build"
	done
	say "forkin$build: $(cat "$T/untraced")"
done
expect_nothing_left "$T/before" "children"
