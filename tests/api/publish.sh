#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What the write path compiles to: on x86-64 every store of a slot is a plain mov, the claim is the one locked instruction
# of a record; on aarch64 the stamp is one stlr. Prints `ok NAME` or `not ok NAME`; exit status 1 if any is not.
set -u

cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-std=c11 -D_GNU_SOURCE -O2 -g0 -fPIC -fvisibility=hidden -Ilibscope -Ilibscope/include"
failed=0

report() { # STATUS NAME
	if [ "$1" = 0 ]; then
		echo "ok $2"
	else
		echo "not ok $2"
		sed 's/^/    /' "$work/function"
		failed=1
	fi
}

# function_of OBJDUMP OBJECT NAME: its instructions alone.
function_of() {
	"$1" -d --no-show-raw-insn "$2" | awk -v name="<$3>:" '$2 == name { on = 1; next } on && NF == 0 { exit } on' |
		sed 's/^[^:]*:[[:space:]]*//' >"$work/function"
	[ -s "$work/function" ]
}

count() { grep -cE "$1" "$work/function"; }

check_x86_64() {
	# shellcheck disable=SC2086
	${CC:-gcc} $flags -c libscope/producer.c -o "$work/x86.o" || { failed=1; return; }
	# The stop record is the shortest path: one claim, seven words, one stamp, no call, no fence.
	function_of objdump "$work/x86.o" scope_stop
	report $? "x86-64: scope_stop is there"
	[ "$(count '^lock ')" = 1 ] && [ "$(count '^lock (xadd|cmpxchg)')" = 1 ] && [ "$(count '^lock cmpxchg')" = 0 ]
	report $? "x86-64: the claim is the one locked instruction"
	[ "$(count '^(xchg|mfence|sfence|lfence|cpuid|rdtscp|syscall)')" = 0 ]
	report $? "x86-64: no fence and no exchange"
	[ "$(count '^mov +[^,]*,0x38\(')" = 1 ]
	report $? "x86-64: the stamp is one plain mov"
	function_of objdump "$work/x86.o" scope_start
	[ "$(count '^lock xadd')" -ge 1 ] && [ "$(count '^(xchg|mfence|sfence|lfence)')" = 0 ] &&
		[ "$(count '^mov +[^,]*,0x38\(')" -ge 1 ]
	report $? "x86-64: scope_start publishes by a plain mov too"
}

check_aarch64() {
	local gcc=aarch64-linux-gnu-gcc
	if ! command -v $gcc >/dev/null; then
		echo "skipped aarch64: no $gcc"
		return
	fi
	# shellcheck disable=SC2086
	$gcc $flags -march=armv8-a+lse -c libscope/producer.c -o "$work/arm64.o" || { failed=1; return; }
	function_of aarch64-linux-gnu-objdump "$work/arm64.o" scope_stop
	report $? "aarch64: scope_stop is there"
	[ "$(count '^stlr')" = 1 ]
	report $? "aarch64: the stamp is one stlr"
	[ "$(count '^(dmb|dsb|isb|ldaxr|stlxr|cas|swp)')" = 0 ]
	report $? "aarch64: no barrier"
	[ "$(count '^ldadd[[:space:]]')" = 1 ]
	report $? "aarch64: the claim is one relaxed ldadd"
}

if [ "$(uname -m)" = x86_64 ]; then
	check_x86_64
fi
check_aarch64
exit $failed
