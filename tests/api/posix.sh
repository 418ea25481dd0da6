#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The platform file for other POSIX systems, forced on here by -DSCOPE_PLATFORM_POSIX=1: built, and run by a program that
# records and reads itself back.
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

for compiler in gcc clang; do
	# shellcheck disable=SC2086
	$compiler -std=c11 -D_GNU_SOURCE -DSCOPE_PLATFORM_POSIX=1 $strict tests/api/portable.c $sources -pthread \
		-o "$work/posix" >"$work/log" 2>&1
	report $? "POSIX: built by $compiler"
	"$work/posix" >"$work/log" 2>&1
	report $? "POSIX: records and reads itself back: $(cat "$work/log")"
done
SCOPE_RINGS=2 "$work/posix" >/dev/null 2>&1
[ $? = 1 ]
report $? "POSIX: the environment is read"
find /dev/shm -name 'libscope-*' >"$work/log"
[ ! -s "$work/log" ]
report $? "POSIX: no shared memory is left behind"
exit $failed
