#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What `make demo` runs, as root and as a user: the report and a trace come out, and nothing stays behind.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/demo"
snapshot "$T/before"
demo=$(realpath "$HERE/../demo.sh")

say "== as root"
cd "$T" || exit 1
run env O="$O" sh "$demo"
expect_status 0 "demo.sh as root"
expect_text "$T/run.err" 'armed 7 of 7 functions in pid [0-9]+ and its manual scopes' "demo.sh as root"
expect_text "$T/run.out" '^render_frame +hooked +[0-9]+ ' "demo.sh as root"
expect_text "$T/run.out" '^frame +manual +[0-9]+ ' "demo.sh as root"
expect_text "$T/run.out" 'ui\.perfetto\.dev' "demo.sh as root"
[ -s demo.scope ] && [ -s demo.pftrace ] || fail "demo.sh left no demo.scope and demo.pftrace"

say "== as a user"
chmod 755 "$T"
mkdir -m 777 "$T/user" "$T/user/targets"
install -m 755 "$SCOPETRACE" "$T/user/"
install -m 755 "$O/targets/demo" "$T/user/targets/"
install -m 755 "$demo" "$T/user/demo.sh"
cd "$T/user" || exit 1
# Without a sudo that asks nothing: PATH has none.
mkdir "$T/bin"
for tool in sh id grep sed cat head sleep; do
	ln -s "$(command -v $tool)" "$T/bin/$tool"
done
run setpriv --reuid=65534 --regid=65534 --clear-groups env PATH="$T/bin" O=. sh ./demo.sh
expect_status 0 "demo.sh as a user"
expect_text "$T/run.out" "sudo \./scopetrace record -p .* -f 'render_frame'" "demo.sh as a user: the command for the rest"
expect_text "$T/run.out" '^frame +manual +[0-9]+ ' "demo.sh as a user"
[ -s demo.pftrace ] || fail "demo.sh left no trace as a user"
cd / || exit 1
expect_nothing_left "$T/before" "demo"
