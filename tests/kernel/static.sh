#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# `make static`: one file that captures in a place with nothing but /proc and /sys: no libraries, no shell, no /tmp.
. "$(dirname "$0")/lib.sh"

STATIC=$O/scopetrace-static
[ -x "$STATIC" ] || skip "$STATIC is not built: make static"
need "$O/targets/demo"
snapshot "$T/before"
if ldd "$STATIC" >"$T/ldd.err" 2>&1; then
	fail "it needs libraries"
fi

root=$T/root
mkdir -p "$root/proc" "$root/sys"
cp "$STATIC" "$root/scopetrace"
# The mounts live in a namespace that ends with the command.
in_chroot() {
	run unshare --mount sh -c 'mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && root=$1 && shift &&
		exec chroot "$root" "$@"' sh "$root" "$@"
}

start demo out "$O/targets/demo"
wait_line demo '^demo: pid ([0-9]+)'
target=${BASH_REMATCH[1]}
in_chroot /scopetrace record -p "$target" -f read_input -f solve_contacts -o /demo.scope --duration 500ms
expect_status 0 "record in an empty chroot"
expect_text "$T/run.err" "armed 2 of 2 functions in pid $target" "record in an empty chroot"
say "$(grep -E ' calls?;' "$T/run.err")"
in_chroot /scopetrace functions -p "$target" 'render_*'
expect_status 0 "functions in an empty chroot"
expect_text "$T/run.out" 'render_frame' "functions in an empty chroot"
in_chroot /scopetrace export /demo.scope -t csv
expect_status 0 "export in an empty chroot"
expect_text "$T/run.out" ',hooked,solve_contacts,demo,' "export in an empty chroot"
expect_text "$T/run.out" ',manual,relax,' "export in an empty chroot"
kill -INT "$target"
finish demo
expect_status 0 "the demonstration"
expect_nothing_left "$T/before" "static"
