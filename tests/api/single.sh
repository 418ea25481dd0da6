#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The single-file form of libscope: made, compiled clean by both compilers, and with it a C99, a C11 and a C++11 program
# that records itself. It shows nothing but what scope.h declares.
set -u

cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict="-O2 -Wall -Wextra -Wpedantic -Werror -I$work/single"
failed=0

report() { # STATUS NAME
	[ "$1" = 0 ] && { echo "ok $2"; return; }
	echo "not ok $2"
	sed 's/^/    /' "$work/log"
	failed=1
}

libscope/single.sh "$work/single" >"$work/log" 2>&1
report $? "scope_single.c is made"
[ "$(ls "$work/single" | tr '\n' ' ')" = "scope.h scope.hpp scope_single.c " ]
report $? "beside the headers"
for compiler in gcc clang; do
	# shellcheck disable=SC2086
	$compiler -std=c11 $strict -fPIC -c "$work/single/scope_single.c" -o "$work/$compiler.o" >"$work/log" 2>&1
	report $? "compiled by $compiler"
done
gcc -shared "$work/gcc.o" -o "$work/single.so" -pthread && nm -D --defined-only "$work/single.so" | awk '{ print $3 }' |
	sort >"$work/shown"
sed -n 's/^symbol \([a-z_]*\)@.*/\1/p' tests/api/abi.txt | sort | diff - "$work/shown" >"$work/log"
report $? "a library made of it shows the public functions and nothing else"
for standard in c99 c11; do
	# shellcheck disable=SC2086
	gcc -std=$standard $strict tests/api/use.c "$work/clang.o" -o "$work/use" -pthread >"$work/log" 2>&1 && "$work/use"
	report $? "used by a $standard program"
done
# shellcheck disable=SC2086
g++ -std=c++11 $strict tests/api/use.cpp "$work/gcc.o" -o "$work/use" -pthread >"$work/log" 2>&1 && "$work/use"
report $? "used by a C++11 program"
# shellcheck disable=SC2086
gcc -std=c11 $strict -Ilibscope tests/api/portable.c "$work/gcc.o" -o "$work/self" -pthread >"$work/log" 2>&1 &&
	"$work/self" >"$work/log" 2>&1
report $? "records and reads itself back: $(cat "$work/log")"
exit $failed
