#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Writes the library as one source file: `libscope/single.sh FOLDER` makes FOLDER/scope_single.c beside copies of scope.h
# and scope.hpp. Compile it as C11 (or GNU C11) into any program; nothing else is needed but -pthread.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
to=$1
mkdir -p "$to"

# A source file of ours with its license line taken away, and each header of ours in its place, once.
body() {
	printf '\n/* ---- %s ---- */\n' "$1"
	grep -v SPDX-License-Identifier "$here/$1" | while IFS= read -r line; do
		case $line in
		'#include "include/scope.h"' | '#include "scope.h"') ;;
		'#include "'*)
			file=${line#*\"}
			file=${file%\"*}
			grep -qx "$file" "$to/included" || {
				echo "$file" >>"$to/included"
				body "$file"
			}
			;;
		'#include <'*) printf 'SCOPE_THEIRS_\n%s\nSCOPE_OURS_\n' "$line" ;;
		*) printf '%s\n' "$line" ;;
		esac
	done
}

: >"$to/included"
{
	cat <<'TOP'
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libscope in one file, made by libscope/single.sh of scopetrace; change the sources there instead.
 *
TOP
	sed -n 's/^/ * /; s/ *$//; p' "$here/LICENSE"
	cat <<'TOP'
 */
#if !defined(_GNU_SOURCE) && !defined(_WIN32)
#define _GNU_SOURCE
#endif
#include "scope.h"

/* Nothing but what scope.h declares is for others; the declarations of system headers stay as they are. */
#if defined(__GNUC__) && !defined(_WIN32)
#define SCOPE_THEIRS_ _Pragma("GCC visibility push(default)")
#define SCOPE_OURS_   _Pragma("GCC visibility pop")
#pragma GCC visibility push(hidden)
#else
#define SCOPE_THEIRS_
#define SCOPE_OURS_
#endif
/* Headers of several files in one: not each has all of its inline functions used. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
TOP
	for source in "$here"/*.c; do
		case ${source##*/} in
		reader.c | validate.c | find.c) ;;
		*) body "${source##*/}" ;;
		esac
	done
	cat <<'BOTTOM'

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#if defined(__GNUC__) && !defined(_WIN32)
#pragma GCC visibility pop
#endif
BOTTOM
} >"$to/scope_single.c.new"
cp "$here/include/scope.h" "$here/include/scope.hpp" "$to/"
rm "$to/included"
mv "$to/scope_single.c.new" "$to/scope_single.c"
