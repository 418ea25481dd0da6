#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A function whose last act is a scope of ours ends after that scope: no macro or inline function may be compiled to a
# jump into the library, or the hooked function would be over before its own scope. Looks at the code of every build.
# Prints `ok NAME` or `not ok NAME` for each; exit status 1 if any is not.
set -u

cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# check COMPILER LANGUAGE OPTION...: calls of the library there must be, jumps to it there must not.
check() {
	local compiler=$1 language=$2
	shift 2
	command -v "$compiler" >/dev/null || return 0
	# The relocation names the function, the line before it is the instruction. A jump through a register counts too.
	if "$compiler" -x "$language" "$@" -Ilibscope/include -c tests/api/last_call.cpp -o "$work/object.o" >"$work/log" 2>&1 &&
		objdump -dr --no-show-raw-insn "$work/object.o" >"$work/code" &&
		awk -F'\t' '
			$2 ~ /^(jmp +\*%|br )/ { print; jumps++ }
			/ R_|\tR_/ && /scope_[a-z_]+/ && !/scope_gate/ {
				if (before ~ /^(call|bl )/) calls++
				else if (before ~ /^(j|b )/) { print; jumps++ }
			}
			{ before = $2 }
			END { print calls + 0 " calls, " jumps + 0 " jumps"; exit !(calls >= 10 && !jumps) }
		' "$work/code" >"$work/log"; then
		echo "ok $compiler $language $*"
	else
		echo "not ok $compiler $language $*"
		sed 's/^/    /' "$work/log"
		failed=1
	fi
}

for optimise in -O0 -O1 -O2 -O3; do
	for more in "" -fno-inline; do
		for compiler in gcc clang; do
			# shellcheck disable=SC2086
			check $compiler c -std=gnu11 $optimise $more
		done
		for compiler in g++ clang++; do
			# shellcheck disable=SC2086
			check $compiler c++ -std=c++17 $optimise $more
			# shellcheck disable=SC2086
			check $compiler c++ -std=c++17 -fno-exceptions $optimise $more
		done
	done
done
exit $failed
