#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Copies of libscope in one process meet in one segment, however they are linked. Prints `ok NAME` or `not ok NAME`.
set -u

cd "$(dirname "$0")/../.." || exit 1
O=$(realpath "${O:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-std=gnu11 -O2 -Wall -Wextra -Werror -Ilibscope -Ilibscope/include"
failed=0

cat >"$work/plugin.c" <<'PLUGIN'
#include "scope.h"
void plugin_work(void);
void plugin_work(void)
{
	SCOPE("plugin");
}
PLUGIN
# shellcheck disable=SC2086
gcc $flags -fPIC -shared "$work/plugin.c" "$O/libscope.a" -o "$work/static.so" &&
	gcc $flags -fPIC -shared -Wl,--exclude-libs,ALL "$work/plugin.c" "$O/libscope.a" -o "$work/hidden.so" &&
	gcc $flags -fPIC -shared "$work/plugin.c" -L"$O" -lscope -Wl,-rpath,"$O" -o "$work/shared.so" &&
	gcc $flags tests/api/copies.c "$O/lib/reader.a" "$O/libscope.a" -pthread -o "$work/of-archive" &&
	gcc $flags -rdynamic tests/api/copies.c "$O/lib/reader.a" "$O/libscope.a" -pthread -o "$work/exporting" &&
	gcc $flags -fno-pie -no-pie tests/api/copies.c "$O/lib/reader.a" -L"$O" -lscope -Wl,-rpath,"$O" -pthread \
		-o "$work/of-shared" || exit 1
for program in of-archive exporting of-shared; do
	for plugin in static hidden shared; do
		if "$work/$program" "$work/$plugin.so" >"$work/log" 2>&1; then
			echo "ok a program $program and a plug-in that is $plugin"
		else
			echo "not ok a program $program and a plug-in that is $plugin: $(cat "$work/log")"
			failed=1
		fi
	done
done
exit $failed
