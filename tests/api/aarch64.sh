#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# libscope, cross-built for aarch64 and run under qemu-user: programs that record themselves and read themselves back, by the
# reader, and slot by slot.
# Exit status 77 where the cross compiler or qemu is missing.
set -u

cd "$(dirname "$0")/../.." || exit 1
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
	if ! command -v $tool >/dev/null; then
		echo "no $tool"
		exit 77
	fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for optimise in -O0 -O2; do
	aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE $optimise -Wall -Wextra -Werror -Ilibscope -Ilibscope/include -static \
		tests/api/aarch64.c libscope/*.c -pthread -o "$work/self" || exit 1
	aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE $optimise -Wall -Wextra -Werror -Ilibscope -Ilibscope/include -static \
		tests/api/portable.c libscope/*.c -pthread -o "$work/portable" || exit 1
	if timeout 60 qemu-aarch64 "$work/portable" --no-fork >"$work/log" 2>&1; then
		echo "ok $optimise, every macro: $(cat "$work/log")"
	else
		echo "not ok $optimise, every macro: $(cat "$work/log")"
		failed=1
	fi
	if timeout 60 qemu-aarch64 "$work/self" >"$work/log" 2>&1; then
		echo "ok $optimise: $(cat "$work/log")"
	else
		echo "not ok $optimise: $(cat "$work/log")"
		failed=1
	fi
done
exit $failed
