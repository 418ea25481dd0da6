#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# An administrator attaches for a group; one of it, with no capability at all, drains and looks, and can change nothing;
# others can do neither.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

command -v setpriv >/dev/null || skip "no setpriv"
target=$O/targets/calls
need "$SCOPETRACE" "$target"
group=daemon # some group that is there, with a member made for this
gid=$(getent group $group | cut -d: -f3)
user=65534
dir=$FS/shared

snapshot "$T/before"
chmod 755 "$FS" "$T"
mkdir -m 777 "$T/files"
cp "$SCOPETRACE" "$T/files/scopetrace" # the tree may not be theirs to enter
as() { # GROUP COMMAND...
	local of=$1
	shift
	run setpriv --reuid=$user --regid=$user --groups="$of" --inh-caps=-all --ambient-caps=-all --bounding-set=-all \
		"$T/files/scopetrace" "$@"
}

start program out "$target" --threads 2 --calls 500 --rate 500 --sleep --wait-go
wait_line program '^pid ([0-9]+)$'
traced=${BASH_REMATCH[1]}
run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f outer -f middle -f inner --group $group
expect_status 0 "attach"
send program go
wait_line program '^truth (.*)$'
printf '%s\n' "${BASH_REMATCH[1]}" >"$T/truth.json"

as $user drain --pin "$dir" -o "$T/files/no.scope" --duration 0.1
expect_status 1 "drain by another"
as $user status --pin "$dir"
expect_status 1 "status by another"
as "$gid" status --pin "$dir"
expect_status 0 "status by the group"
expect_text "$T/run.out" 'outer' "status by the group"
as "$gid" set --pin "$dir" --pause
expect_status 1 "set by the group"
as "$gid" detach --pin "$dir"
expect_status 1 "detach by the group"
as "$gid" drain --pin "$dir" -o "$T/files/day.scope" --duration 0.3
expect_status 0 "drain by the group"
[ "$(stat -c %u "$T/files/day.scope")" = $user ] || fail "the file is not the drainer's"

say "== the group's drainer is there when the administrator ends it, and writes the account"
start last err setpriv --reuid=$user --regid=$user --groups="$gid" --inh-caps=-all --ambient-caps=-all --bounding-set=-all \
	"$T/files/scopetrace" drain --pin "$dir" -o "$T/files/rest.scope"
wait_line last draining
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach"
finish last
expect_status 0 "the group's last drainer"
expect_text "$T/last.log" 'its account is written' "the group's last drainer"
finish program
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "a shared capture"

say "== manual scopes of a process of the drainer's own"
cp "$target" "$T/files/calls"
start own out setpriv --reuid=$user --regid=$user --clear-groups --inh-caps=-all --bounding-set=-all \
	"$T/files/calls" --threads 2 --calls 200 --rate 400 --sleep --manual --wait-go
wait_line own '^pid ([0-9]+)$'
run "$SCOPETRACE" attach --pin "$dir" -p "${BASH_REMATCH[1]}" -f outer --group $group
expect_status 0 "attach to a process of another user"
start scopes err setpriv --reuid=$user --regid=$user --groups="$gid" --inh-caps=-all --ambient-caps=-all --bounding-set=-all \
	"$T/files/scopetrace" drain --pin "$dir" -o "$T/files/scopes.scope"
wait_line scopes draining
send own go
wait_line own '^truth (.*)$'
manual=$(printf '%s\n' "${BASH_REMATCH[1]}" | python3 -c 'import json, sys; print(sum(json.load(sys.stdin)["manual"].values()))')
finish own
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach"
finish scopes
expect_status 0 "the drainer of its own process"
run "$SCOPETRACE" export -t csv "$T/files/scopes.scope"
seen=$(awk -F, '$6 == "manual"' "$T/run.out" | wc -l)
[ "$seen" = "$manual" ] || fail "$seen manual scopes, not $manual: $(cat "$T/scopes.log")"

run "$SCOPETRACE" report --json "$T/files/day.scope" "$T/files/rest.scope"
expect_status 0 "report"
seen=$(json 'sum(f["accounting"]["entries"] for f in d["functions"])' "$T/run.out" 2>/dev/null ||
	json 'd["accounting"]["entries"]' "$T/run.out")
truth=$(json 'sum(d["entries"].values())' "$T/truth.json")
[ "$seen" = "$truth" ] || fail "$seen calls, not $truth"
