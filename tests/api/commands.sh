#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The command lines of report and export, and of record without hooks: what scripts may rely on. Needs no root.
set -u

O=$(realpath "${O:-build}")
scopetrace=$O/scopetrace
T=$(mktemp -d "${TMPDIR:-/tmp}/scopetrace-commands.XXXXXX")
trap 'rm -rf "$T"' EXIT
failures=0

# check WHAT STATUS COMMAND...: runs it in $T; its streams are in $T/out and $T/err.
check() {
	local what=$1 wanted=$2 status
	shift 2
	(cd "$T" && "$@") >"$T/out" 2>"$T/err" </dev/null
	status=$?
	if [ $status = "$wanted" ]; then
		printf 'ok %s\n' "$what"
		return
	fi
	printf 'not ok %s: exit status %s, not %s\n' "$what" $status "$wanted"
	sed 's/^/    /' "$T/err"
	failures=$((failures + 1))
}

# expect WHAT FILE PATTERN: a line of the last command's stream (or of any file) matches.
expect() {
	grep -Eq -- "$3" "$T/$2" && { printf 'ok %s\n' "$1"; return; }
	printf 'not ok %s: %s has no line like %s\n' "$1" "$2" "$3"
	head -n 20 "$T/$2" | sed 's/^/    /'
	failures=$((failures + 1))
}

for command in record report export functions attach drain set status detach; do
	check "$command --help" 0 "$scopetrace" $command --help
	expect "$command --help shows its usage" out "^usage: scopetrace $command"
	check "$command with an option that is none" 2 "$scopetrace" $command --no-such-option
done
check "--version" 0 "$scopetrace" --version
expect "--version" out '^scopetrace [0-9]+\.[0-9]+'
check "no command" 2 "$scopetrace"

check "record of a command, to the default file" 0 "$scopetrace" record -- "$O/targets/scopes" 2 100
expect "the program's own output comes through" out '^truth '
check "a second one" 0 "$scopetrace" record --json -- "$O/targets/scopes" 2 100
expect "the older file is kept" scopetrace.scope.old '^'
expect "--json prints the account" out '"balanced": ?true'

check "report without a file" 0 "$scopetrace" report
expect "report lists the scopes" out '^inner +manual +1200 '
check "report --json" 0 "$scopetrace" report --json
cp "$T/out" "$T/report.json"
check "which is JSON" 0 python3 -c '
import json
report = json.load(open("report.json"))
calls = {f["name"]: f["calls"] for f in report["functions"]}
assert calls == {"outer": 200, "middle": 400, "inner": 1200}, calls
assert len(report["threads"]) >= 2 and report["accounting"]["balanced"] is True
'
check "report -s calls" 0 sh -c "'$scopetrace' report -s calls | sed -n 2p"
expect "which puts the most called first" out '^inner '
check "report -s with a key that is none" 2 "$scopetrace" report -s nonsense
check "report of a file that is not there" 1 "$scopetrace" report none.scope
expect "which is named" err 'none\.scope'

check "export -t csv" 0 "$scopetrace" export -t csv -o out.csv
expect "csv has its header" out.csv '^start_ns,end_ns,pid,tid,depth,kind,name,module,flags$'
check "csv has every scope, at its depth" 0 python3 -c '
import collections, csv
depths = collections.Counter((r["name"], r["depth"]) for r in csv.DictReader(open("out.csv")))
assert depths == {("outer", "0"): 200, ("middle", "1"): 400, ("inner", "2"): 1200}, depths
'
check "export -t perfetto" 0 "$scopetrace" export scopetrace.scope -t perfetto -o out.pftrace
check "which protoc can read" 0 sh -c 'protoc --decode_raw < out.pftrace'
expect "and which has the names" out 'middle'
check "export without -t" 2 "$scopetrace" export
check "export -t of a format that is none" 2 "$scopetrace" export -t nonsense
expect "which lists those there are" err '^  perfetto '
check "export to a full device" 1 "$scopetrace" export -t csv -o /dev/full
check "export into a folder that is not there" 1 "$scopetrace" export -t csv -o none/out.csv
check "export into nothing left" 0 sh -c '! ls | grep -E "tmp|out\.csv\."'

head -c 3000 "$T/scopetrace.scope" >"$T/cut.scope"
check "report of a capture cut short" 1 "$scopetrace" report cut.scope
expect "which says so" err 'cut short'

exit $((failures != 0))
