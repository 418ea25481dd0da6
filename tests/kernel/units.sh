#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The example systemd units: systemd takes them, and their command lines do what they are for, the drainer's without any
# capability. They are run as systemd would, but with this test's directories in place of the machine's.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

command -v setpriv >/dev/null || skip "no setpriv"
gid=$(getent group adm | cut -d: -f3)
[ -n "$gid" ] || skip "no group adm, which the units let drain"
target=$O/targets/calls
need "$SCOPETRACE" "$target"
examples=$(realpath "$HERE/../../man/examples")
attach=$examples/scopetrace-attach@.service
drain=$examples/scopetrace-drain@.service
user=65534

if command -v systemd-analyze >/dev/null; then
	say "== systemd-analyze verify"
	mkdir "$T/units"
	printf '[Service]\nExecStart=/bin/true\n' >"$T/units/game.service"
	for unit in "$attach" "$drain"; do
		name=$(basename "$unit")
		cp "$unit" "$T/units/${name/@/@game}"
	done
	run systemd-analyze verify "$T"/units/*@game.service
	expect_status 0 "systemd-analyze verify"
	[ ! -s "$T/run.err" ] || fail "systemd-analyze: $(cat "$T/run.err")"
fi

# command_of UNIT KEY: into `words`, the words of that line for the instance `game.one`.
command_of() {
	mapfile -d '' -t words < <(python3 - "$@" "$FS" "$T" <<-'END'
		import re, shlex, sys
		unit, key, bpf, own = sys.argv[1:]
		text = open(unit).read().replace("\\\n", " ")
		line, = re.findall(rf"^{key}=-?(.*)$", text, re.M)
		line = re.sub(r"%(.)", lambda found: {"i": "game.one", "%": "%"}[found[1]], line).replace("$$", "$")
		for theirs, ours in (("/sys/fs/bpf", bpf), ("/etc/scopetrace", own + "/etc"), ("/var/lib", own + "/lib")):
		    line = line.replace(theirs, ours)
		sys.stdout.write("".join(word + "\0" for word in shlex.split(line)))
	END
	)
	[ ${#words[@]} -gt 1 ] || fail "$(basename "$1") has no line $2"
}

# Made for it before it starts: the only place where it writes.
state_directory() { # UNIT
	local name
	name=$(sed -n 's/^StateDirectory=//p' "$1")
	mkdir -p "$T/lib" && mkdir "$T/lib/${name:?has no state directory}" || fail "$(basename "$1"): $name"
	! grep -q '^DynamicUser=yes' "$1" || chown $user "$T/lib/$name"
}

snapshot "$T/before"
chmod 755 "$T"
chmod 700 "$FS" # as systemd mounts it
mkdir "$T/etc" "$T/bin"
state_directory "$attach"
state_directory "$drain"
cp "$SCOPETRACE" "$T/bin/scopetrace" # the tree may not be theirs to enter
printf 'outer\nmiddle\n# the small ones, too\ninner\n' >"$T/etc/game.one.functions"
export PATH=$T/bin:$PATH

start program out "$target" --threads 2 --calls 600 --rate 400 --sleep --wait-go
wait_line program '^pid ([0-9]+)$'
printf '#!/bin/sh\n[ "$*" = "show --property MainPID --value game.one.service" ] && echo %d\n' "${BASH_REMATCH[1]}" \
	>"$T/bin/systemctl"
chmod +x "$T/bin/systemctl"

say "== attach"
command_of "$attach" ExecStartPre
run "${words[@]}"
expect_status 0 "ExecStartPre of attach"
command_of "$attach" ExecStart
run "${words[@]}"
expect_status 0 "ExecStart of attach"

say "== drain, in the group and with no capability; stopped and started again"
drainer() { # NAME
	start "$1" err setpriv --reuid=$user --regid=$user --groups="$gid" --inh-caps=-all --ambient-caps=-all \
		--bounding-set=-all --no-new-privs "${words[@]}"
	wait_line "$1" draining
}
stop_drainer() { # NAME
	kill -"$(sed -n 's/^KillSignal=SIG//p' "$drain")" "${pid[$1]}"
	finish "$1"
	expect_status 0 "ExecStart of drain, stopped by its signal"
}
command_of "$drain" ExecStart
drainer first
send program go
wait_size "$T"/lib/scopetrace/game.one-*.scope 10000
stop_drainer first
drainer second
wait_size "$T"/lib/scopetrace/game.one-*.scope 10000
stop_drainer second
# Between this and the end of the capture nobody drains: a drainer is always stopped first.
wait_line program '^truth (.*)$'
printf '%s\n' "${BASH_REMATCH[1]}" >"$T/truth.json"

say "== stop"
command_of "$attach" ExecStopPost
run "${words[@]}"
expect_status 0 "ExecStopPost of attach"
finish program
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "the units"

whole() { # FILE...: they are all of a capture
	run "$SCOPETRACE" report --json "$@"
	expect_status 0 "report"
	[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "$*: not balanced"
	for function in outer middle inner; do
		seen=$(json "sum(f['calls'] for f in d['functions'] if f['name'] == '$function')" "$T/run.out")
		truth=$(json "d['entries']['$function']" "$T/truth.json")
		[ "$seen" = "$truth" ] || fail "$seen calls of $function, not $truth: $*"
	done
}
# As the units say; the time is that of one capture.
files=("$T"/lib/scopetrace*/game.one-[0-9]*-[0-9]*.scope*)
[ ${#files[@]} = 3 ] || fail "the drainers and detach have left other files than theirs: ${files[*]}"
[ "$(basename -a "${files[@]%.1}" | sort -u | wc -l)" = 1 ] || fail "not the names of one capture: ${files[*]}"
whole "${files[@]}"

say "== drain on demand, and the service ends before anybody has: nothing is thrown away"
rm -r "${T:?}"/lib/*/*
start crashes out "$target" --threads 2 --calls 50 --rate 0 --wait-go
wait_line crashes '^pid ([0-9]+)$'
sed -i -E "s/echo [0-9]+/echo ${BASH_REMATCH[1]}/" "$T/bin/systemctl"
command_of "$attach" ExecStart
run "${words[@]}"
expect_status 0 "ExecStart of attach"
send crashes go
wait_line crashes '^truth (.*)$'
printf '%s\n' "${BASH_REMATCH[1]}" >"$T/truth.json"
finish crashes
command_of "$attach" ExecStopPost
run "${words[@]}"
expect_status 0 "ExecStopPost of attach"
whole "$T"/lib/scopetrace*/game.one-[0-9]*-[0-9]*.scope*
expect_empty "$FS" "detach"
expect_nothing_left "$T/before" "the units"
