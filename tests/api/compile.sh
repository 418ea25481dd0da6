#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The public header in every language it promises: compiled clean, linked with the library, run; and with -DSCOPE_DISABLE
# compiled to nothing, linked without it. Prints `ok NAME` or `not ok NAME` for each; exit status 1 if any is not.
#
#	tests/api/compile.sh	O: build directory (default build)
set -u

cd "$(dirname "$0")/../.." || exit 1
O=$(realpath "${O:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict="-Wall -Wextra -Wpedantic -Wshadow -Werror -Ilibscope/include"
failed=0

report() { # STATUS NAME
	if [ "$1" = 0 ]; then
		echo "ok $2"
	else
		echo "not ok $2"
		sed 's/^/    /' "$work/log"
		failed=1
	fi
}

# try NAME COMMAND...
try() {
	local name=$1
	shift
	"$@" >"$work/log" 2>&1
	report $? "$name"
}

# build_and_run NAME COMPILER STANDARD SOURCE
build_and_run() {
	local name=$1 compiler=$2 standard=$3 source=$4 optimise
	command -v "$compiler" >/dev/null || return 0
	for optimise in -O0 -O2; do
		# shellcheck disable=SC2086
		try "$name $optimise static" "$compiler" -std="$standard" $optimise $strict "$source" "$O/libscope.a" \
			-pthread -o "$work/static" && try "$name $optimise static runs" "$work/static"
		# shellcheck disable=SC2086
		try "$name $optimise shared" "$compiler" -std="$standard" $optimise $strict "$source" -L"$O" -lscope \
			-Wl,-rpath,"$O" -o "$work/shared" && try "$name $optimise shared runs" "$work/shared"
		# shellcheck disable=SC2086
		try "$name $optimise disabled" "$compiler" -std="$standard" $optimise $strict -DSCOPE_DISABLE "$source" \
			-o "$work/disabled" && try "$name $optimise disabled runs" "$work/disabled"
	done
	# shellcheck disable=SC2086
	"$compiler" -std="$standard" -O2 $strict -DSCOPE_DISABLE -c "$source" -o "$work/object.o" &&
		! nm "$work/object.o" | grep -q ' U scope_' >"$work/log"
	report $? "$name disabled needs nothing of the library"
}

# refused NAME TEXT: what must not compile.
refused() {
	# shellcheck disable=SC2086
	printf '#include "scope.h"\nvoid f(const char *name);\nvoid f(const char *name)\n{\n\t%s\n}\n' "$2" |
		gcc -std=c11 $strict $3 -x c -c - -o "$work/object.o" >"$work/log" 2>&1
	[ $? != 0 ]
	report $? "$1"
}

for compiler in gcc clang; do
	for standard in c99 c11; do
		build_and_run "$compiler $standard" $compiler $standard tests/api/use.c
	done
done
for compiler in g++ clang++; do
	for standard in c++11 c++17 c++20; do
		build_and_run "$compiler $standard" $compiler $standard tests/api/use.cpp
	done
done
for disabled in "" -DSCOPE_DISABLE; do
	refused "a name that is no literal is refused $disabled" 'SCOPE(name);' "$disabled"
	refused "an instant of no literal is refused $disabled" 'SCOPE_INSTANT(name);' "$disabled"
	refused "a token that is none is refused $disabled" '{ const char *id; SCOPE_BEGIN(id, "x"); SCOPE_END(id); }' "$disabled"
	refused "a counter of a pointer is refused $disabled" 'SCOPE_COUNTER("x", name);' "$disabled"
	refused "a counter of no literal is refused $disabled" 'SCOPE_COUNTER(name, 1);' "$disabled"
	refused "an argument of floating point is refused $disabled" 'SCOPE_ARGUMENT("x", 1.5);' "$disabled"
	refused "a flow of a struct is refused $disabled" '{ struct { int x; } id = {0}; SCOPE_FLOW(id); }' "$disabled"
	refused "a length that is none is refused $disabled" 'SCOPE_DYNAMIC(name, name);' "$disabled"
done

# Disabled macros leave nothing behind: the object is, byte for byte, the one of the same source without them.
cat >"$work/nothing.c" <<'SOURCE'
#include "scope.h"
#ifdef WITHOUT
#define M(statement)
#else
#define M(statement) statement;
#endif
#ifdef __cplusplus
extern "C"
#endif
long work(long value, char *text);
long work(long value, char *text)
{
	scope_token token;
	M(SCOPE("scope"))
	M(SCOPE_FUNCTION())
	M(SCOPE_HOT("hot"))
	M(SCOPE_DYNAMIC(text++, (size_t)value++))
	M(SCOPE_BEGIN(token, "begun"))
	M(SCOPE_INSTANT("instant"))
	M(SCOPE_FRAME("frame"))
	M(SCOPE_COUNTER("integer", value++))
	M(SCOPE_COUNTER("double", (double)value++))
	M(SCOPE_ASYNC_BEGIN("async", value++))
	M(SCOPE_ASYNC_END("async", text))
	M(SCOPE_ARGUMENT("argument", value++))
	M(SCOPE_FLOW(value++))
	M(SCOPE_THREAD_NAME("name"))
	M(SCOPE_END(token))
	(void)token;
	return value * 3 + text[0];
}
SOURCE
for compiler in "gcc -std=c99" "gcc -std=c11" "clang -std=c11" "g++ -xc++ -std=c++11" "clang++ -xc++ -std=c++20"; do
	for optimise in -O0 -O2; do
		# shellcheck disable=SC2086
		$compiler $optimise -Wno-uninitialized -Ilibscope/include -DSCOPE_DISABLE -c "$work/nothing.c" -o "$work/with.o" >"$work/log" 2>&1 &&
			$compiler $optimise -Wno-uninitialized -Ilibscope/include -DSCOPE_DISABLE -DWITHOUT -c "$work/nothing.c" -o "$work/without.o" \
				>"$work/log" 2>&1 && cmp "$work/with.o" "$work/without.o" >"$work/log" 2>&1
		report $? "$compiler $optimise: disabled macros are nothing"
	done
done
exit $failed
