#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every macro from a program into the capture, the report and the Perfetto export, with exact numbers. Needs no root.
set -u

cd "$(dirname "$0")/../.." || exit 1
O=$(realpath "${O:-build}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=200

run() { "$@" >"$work/out" 2>"$work/err" || { printf 'not ok %s\n' "$*"; cat "$work/out" "$work/err"; exit 1; }; }

run "$O/scopetrace" record -o "$work/features.scope" -- "$O/targets/features" $count
grep -qx "truth frames=$count" "$work/out" || exit 1
run "$O/scopetrace" report --json "$work/features.scope"
cp "$work/out" "$work/report.json"
run "$O/scopetrace" export -t perfetto -o "$work/features.pftrace" "$work/features.scope"
protoc --decode=perfetto.Trace --proto_path=loader/sink perfetto.proto <"$work/features.pftrace" >"$work/trace.txt" || exit 1
python3 tests/api/check_features.py "$work/report.json" "$work/trace.txt" $count || exit 1

run "$O/scopetrace" report "$work/features.scope"
failed=0
for line in "main loop +[0-9]+ +[0-9]+ +$count +0 " "request +[0-9]+ +$count +0 " "integer +counter +[0-9]+ +$count +0 +99.5 +199 +199$" \
	"WORST FRAME " "inside hot +argument +[0-9]+ +$count +0 +199 +398 +398 +hot$" "sent +instant +[0-9]+ +$count "; do
	if grep -Eq -- "^$line" "$work/out"; then
		echo "ok the report has a line $line"
	else
		echo "not ok the report has no line $line"
		failed=1
	fi
done
exit $failed
