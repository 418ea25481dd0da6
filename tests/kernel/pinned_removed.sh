#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A pinned capture that is removed by hand, as a whole or in part: its watcher and its drainer end, the drainer in order,
# and the segment is free for the next reader.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/numbers
need "$SCOPETRACE" "$target"
dir=$FS/removed
snapshot "$T/before"
SCOPE_SLOTS=65536 start program out "$target" 2
wait_line program '^pid ([0-9]+)$'
traced=${BASH_REMATCH[1]}

attach() {
	run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f 'write_*' --watch --ring-size 1M
	expect_status 0 "attach"
	watcher=$(sed -nE 's/.*process ([0-9]+) watches.*/\1/p' "$T/run.err")
	[ -d "/proc/$watcher" ] || fail "no watcher: $(cat "$T/run.err")"
	wait_line program '^capture on$'
}

watcher_ends() { wait_until "the watcher ends" eval '! [ -d "/proc/$watcher" ]'; }

say "== the directory"
attach
rm -r "$dir"
watcher_ends
wait_line program '^capture off$' 10
expect_empty "$FS" "rm"

say "== the maps, while one drains"
attach
start drainer err "$SCOPETRACE" drain --pin "$dir" -o "$T/day.scope"
wait_line drainer draining
wait_until "the drainer has manual scopes" eval '[ "$(stat -c %s "$T/day.scope")" -gt 300000 ]'
rm -r "$dir/maps"
finish drainer 10
expect_status 0 "the drainer"
expect_text "$T/drainer.log" 'removed by hand' "the drainer"
expect_text "$T/drainer.log" 'its account is written' "the drainer"
watcher_ends
wait_line program '^capture off$' 10
run "$SCOPETRACE" report --json "$T/day.scope"
expect_status 0 "report"
[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "not balanced"
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach of the rest"
expect_empty "$FS" "detach"

say "== all maps but the settings, and others attached in their place"
attach
find "$dir/maps" -type f ! -name settings -delete
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach of a part"
watcher_ends
wait_line program '^capture (off)$' 10
expect_empty "$FS" "detach of a part"
attach
# shellcheck disable=SC2034 # used by eval
old=$watcher
rm -r "$dir"
attach
wait_until "the watcher of the old one ends" eval '! [ -d "/proc/$old" ]'
[ -d "/proc/$watcher" ] || fail "the new watcher has ended as well"

say "== who asks for the status is not taken for a drainer"
for _ in $(seq 20); do
	"$SCOPETRACE" status --pin "$dir" --json >>"$T/statuses" 2>/dev/null &
done
# shellcheck disable=SC2046 # numbers
wait $(jobs -p | grep -vx "${pid[program]}")
[ "$(grep -c '"drained":false' "$T/statuses")" = 20 ] || fail "some status saw another, or the watcher, as a drainer"

say "== what is not ours is left alone"
plain=$T/plain
mkdir -p "$plain"/{progs,maps,links}
for file in progs/a maps/events links/100-1; do echo mine >"$plain/$file"; done
run "$SCOPETRACE" detach --pin "$plain"
expect_status 1 "detach of a plain directory"
expect_text "$T/run.err" 'does not lie in a BPF file system' "detach of a plain directory"
[ "$(cat "$plain"/*/* | grep -c mine)" = 3 ] || fail "files of a plain directory are gone"
mkdir -p "$FS/foreign/maps"
"$B" map create "$FS/foreign/maps/events" type array key 4 value 4 entries 1 name foreign || fail "bpftool map create"
run "$SCOPETRACE" detach --pin "$FS/foreign"
expect_status 1 "detach of others' pins"
expect_text "$T/run.err" 'nothing of scopetrace is pinned' "detach of others' pins"
[ -e "$FS/foreign/maps/events" ] || fail "another's map is gone"
rm -r "$FS/foreign"
mkdir "$FS/empty"
(cd "$FS/empty" && "$SCOPETRACE" detach --pin .) 2>"$T/empty.err" || fail "detach of an empty directory: $(cat "$T/empty.err")"
[ ! -e "$FS/empty" ] || fail "an empty directory is still there"

say "== a watcher that was killed is seen to be"
[ "$(status_of "$dir" 'd["watcher"]')" = "{'pid': $watcher, 'ended': False}" ] || fail "status does not tell of the watcher"
run "$SCOPETRACE" status --pin "$dir"
expect_text "$T/run.out" "^watcher: process $watcher\$" "status"
kill -KILL "$watcher"
has_ended() { [ "$(status_of "$dir" 'd["watcher"]')" = "{'pid': $watcher, 'ended': True}" ]; }
wait_until "status sees that the watcher has ended" has_ended
run "$SCOPETRACE" status --pin "$dir"
expect_text "$T/run.out" "process $watcher HAS ENDED" "status"
# Its id is another's by now, who has begun later.
start young out cat
value=$("$B" -j map lookup pinned "$dir/maps/capture" key 0 0 0 0 |
	python3 -c 'import json, sys; v = json.load(sys.stdin)["value"]; print(*v[:16], *int(sys.argv[1]).to_bytes(4, "little"), *v[20:])' \
	"${pid[young]}")
# shellcheck disable=SC2086
"$B" map update pinned "$dir/maps/capture" key 0 0 0 0 value $value || fail "bpftool map update capture"
[ "$(status_of "$dir" 'd["watcher"]')" = "{'pid': ${pid[young]}, 'ended': True}" ] || fail "another process is taken for the watcher"
kill -KILL "${pid[young]}"
finish young
run "$SCOPETRACE" detach --pin "$dir"
expect_status 0 "detach"
watcher_ends
send program stop
finish program
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "captures removed by hand"
