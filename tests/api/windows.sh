#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# libscope for Windows, built with mingw-w64 as C and C++; exit status 77 if that compiler is not there. `--wine` runs what
# was built (make wine).
set -u

cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict="-O2 -Wall -Wextra -Werror -Ilibscope -Ilibscope/include"
sources=$(find libscope -name '*.c' ! -name reader.c ! -name validate.c ! -name find.c | sort)
failed=0

report() { # STATUS NAME
	[ "$1" = 0 ] && { echo "ok $2"; return; }
	echo "not ok $2"
	sed 's/^/    /' "$work/log"
	failed=1
}

name=x86_64-w64-mingw32
if ! command -v $name-gcc >/dev/null || ! command -v $name-g++ >/dev/null; then
	echo "no $name-gcc and g++ (package mingw-w64)"
	exit 77
fi
# shellcheck disable=SC2086
$name-gcc -std=c11 $strict tests/api/portable.c $sources -o "$work/self.exe" >"$work/log" 2>&1
report $? "Windows: built"
mkdir "$work/o" && for source in $sources; do
	# shellcheck disable=SC2086
	$name-gcc -std=c11 $strict -c "$source" -o "$work/o/$(basename "$source" .c).o" || failed=1
done
for standard in c99 c11; do
	# shellcheck disable=SC2086
	$name-gcc -std=$standard -Wpedantic $strict tests/api/use.c "$work"/o/*.o -o "$work/use-$standard.exe" >"$work/log" 2>&1
	report $? "Windows: a $standard program"
done
for standard in c++11 c++17; do
	# shellcheck disable=SC2086
	$name-g++ -std=$standard -Wpedantic $strict tests/api/use.cpp "$work"/o/*.o -static -o "$work/use-$standard.exe" \
		>"$work/log" 2>&1
	report $? "Windows: a $standard program"
done
# shellcheck disable=SC2086
clang --target=x86_64-pc-windows-msvc -ffreestanding -std=c11 $strict -fsyntax-only tests/api/begin_end.c >"$work/log" 2>&1
report $? "Windows: scope.h as Visual C++ takes it (SCOPE_BEGIN and SCOPE_END)"

run_under_wine() {
	local program
	if ! command -v wine >/dev/null || [ ! -e "$work/self.exe" ]; then
		echo "no wine, or no mingw-w64"
		exit 77
	fi
	export WINEPREFIX=$work/wine WINEDEBUG=-all
	for program in self use-c99 use-c11 use-c++11 use-c++17; do
		timeout 120 wine "$work/$program.exe" >"$work/log" 2>&1
		report $? "Windows: $program.exe runs under wine: $(tail -n 1 "$work/log" | tr -d '\r')"
	done
	timeout 60 wineserver --wait 2>/dev/null
}

[ "${1:-}" != --wine ] || run_under_wine
exit $failed
