#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What other builds rely on is as tests/api/abi.txt has it: exported symbols, sizes, offsets, values; every symbol of the
# archive has our prefix; segments of other minor versions are read, of other majors refused with both numbers.
# `abi.sh --write` renews abi.txt: after appending to it, never to change a line.
set -u

cd "$(dirname "$0")/../.." || exit 1
O=$(realpath "${O:-build}")
work=$(mktemp -d)
failed=0

report() { # STATUS NAME
	[ "$1" = 0 ] && { echo "ok $2"; return; }
	echo "not ok $2"
	sed 's/^/    /' "$work/log"
	failed=1
}

program=
stop_program() {
	[ -z "$program" ] || { exec 7>&-; wait "$program"; }
	program=
}
trap 'stop_program; rm -rf "$work"' EXIT

list() {
	nm -D --defined-only "$O/libscope.so" | awk '$3 != "LIBSCOPE_1" && $3 !~ /^LIBSCOPE_1@/ { print "symbol", $3 }' | sort
	gcc -std=c11 -Wall -Wextra -Werror -Ilibscope -Ilibscope/include tests/api/abi.c -o "$work/abi" && "$work/abi"
}

list >"$work/abi.txt"
if [ "${1:-}" = --write ]; then
	cp "$work/abi.txt" tests/api/abi.txt
	exit
fi
if [ "$(getconf LONG_BIT)" = 64 ]; then
	diff tests/api/abi.txt "$work/abi.txt" >"$work/log"
	report $? "the ABI is that of abi.txt"
fi
nm -g --defined-only "$O/libscope.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | grep -v '^scope_' >"$work/log"
[ ! -s "$work/log" ]
report $? "all symbols of libscope.a begin with scope_"

gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Ilibscope -Ilibscope/include tests/api/other_version.c "$O/libscope.a" -pthread \
	-o "$work/other_version" || exit 1

# start_program MAJOR MINOR: its pid is in $pid; it ends with descriptor 7.
start_program() {
	mkfifo "$work/in" "$work/out"
	"$work/other_version" "$1" "$2" <"$work/in" >"$work/out" 7>&- &
	program=$!
	exec 7>"$work/in"
	read -r pid <"$work/out"
	rm "$work/in" "$work/out"
}

for minor in 0 9; do
	start_program 1 $minor
	"$O/scopetrace" record -p "$pid" --duration 100ms -o "$work/minor.scope" >"$work/log" 2>&1 &&
		"$O/scopetrace" report "$work/minor.scope" >"$work/log" 2>&1 && grep -q '^scope of another version' "$work/log"
	report $? "a segment of version 1.$minor is read"
	stop_program
done
start_program 2 7
"$O/scopetrace" record -p "$pid" --duration 100ms -o "$work/major.scope" >"$work/log" 2>&1
[ $? != 0 ] && grep -q "process $pid is of version 2\.7, and this scopetrace (1\.[0-9]*) reads version 1 only" "$work/log"
report $? "a segment of version 2.7 is refused with both numbers"
cat "$work/log"
stop_program
exit $failed
