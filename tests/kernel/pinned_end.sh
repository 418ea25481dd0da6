#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# How pinned captures begin and end: by the same drain command again and again, by detach with a file beside a drainer, after
# one that was killed, with one that hangs; beside another reader; with a watcher that cannot be had.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/calls
need "$SCOPETRACE" "$target"
dir=$FS/end
snapshot "$T/before"

begin() { # NAME CALLS [OPTION]...: a program that waits, attached
	local name=$1 calls=$2
	shift 2
	SCOPE_SLOTS=65536 start "$name" out "$target" --threads 2 --calls "$calls" --rate 200 --sleep --manual --wait-go
	wait_line "$name" '^pid ([0-9]+)$'
	traced=${BASH_REMATCH[1]}
	run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f outer -f middle -f inner --ring-size 4M "$@"
}

drain() { # NAME FILE: until it drains
	start "$1" err "$SCOPETRACE" drain --pin "$dir" -o "$2"
	wait_line "$1" draining
}

kill_drainer() {
	kill -KILL "${pid[$1]}"
	wait "${pid[$1]}" 2>/dev/null
	pid[$1]=
}

detach() {
	run "$SCOPETRACE" detach --pin "$dir" "$@"
	expect_status 0 "detach $*"
	expect_empty "$FS" "detach $*"
}

whole() { # FILE...: they add up to all of what the program called
	run "$SCOPETRACE" report --json "$@"
	expect_status 0 "report $*"
	[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "$*: not balanced: $(cat "$T/run.out")"
	[ "$(json 'sum(f["accounting"]["entries"] for f in d["functions"])' "$T/run.out" 2>/dev/null ||
		json 'd["accounting"]["entries"]' "$T/run.out")" = "$entries" ] || fail "$*: not $entries calls"
}

to_the_end() {
	wait_line "$1" '^truth (.*)$'
	printf '%s\n' "${BASH_REMATCH[1]}" >"$T/truth.json"
	entries=$(json 'sum(d["entries"].values())' "$T/truth.json")
	finish "$1"
}

say "== the same command, four times"
begin same 600
expect_status 0 "attach"
drain same0 "$T/day.scope"
send same go
for i in 1 2 3; do
	wait_size "$T/day.scope" 50000
	kill_drainer same$((i - 1))
	drain same$i "$T/day.scope"
	expect_text "$T/same$i.log" "day.scope.$i" "what became of the older file"
done
to_the_end same
say "== detach names a file, and a drainer takes the rest"
detach -o "$T/rest.scope"
finish same3
[ ! -e "$T/rest.scope" ] || fail "detach wrote a second account"
expect_text "$T/run.err" 'not written' "detach beside a drainer"
whole "$T"/day.scope*
[ "$(ls "$T"/day.scope* | wc -l)" = 4 ] || fail "not four files: $(ls "$T"/day.scope*)"

say "== the drainer was killed before"
begin killed 200
drain killed0 "$T/killed.scope"
send killed go
wait_size "$T/killed.scope" 50000
kill_drainer killed0
to_the_end killed
detach -o "$T/killed.scope"
whole "$T"/killed.scope*

say "== another reader has the manual scopes as the drainer begins"
begin busy 50
start reader err "$SCOPETRACE" record -p "$traced" -o "$T/reader.scope"
wait_line reader 'recording|Ctrl-C'
drain late "$T/late.scope"
wait_until "the drainer says so" eval 'read -r -t 0.1 -u "${out_fd[late]}" line; printf "%s\n" "$line" >>"$T/late.log"; grep -q "another reader" "$T/late.log"'
sleep 0.3 # in which it asks more than once
kill -INT "${pid[reader]}"
finish reader
wait_line late 'are captured from here on'
[ "$(grep -c 'another reader' "$T/late.log")" = 1 ] || fail "said more than once"
send busy go
to_the_end busy
detach
finish late
whole "$T/late.scope"
run "$SCOPETRACE" export -t csv "$T/late.scope"
[ "$(awk -F, '$6 == "manual" && $7 ~ /m_(outer|middle|inner)/' "$T/run.out" | wc -l)" = "$entries" ] || fail "manual scopes are missing"

if [ -n "${SCOPETRACE_LONG:-}" ]; then
	say "== the drainer hangs"
	begin hanging 100
	drain hangs "$T/hangs.scope"
	send hanging go
	to_the_end hanging
	kill -STOP "${pid[hangs]}"
	run "$SCOPETRACE" detach --pin "$dir" -o "$T/none.scope"
	expect_status 1 "detach with a file, and a drainer that hangs"
	expect_text "$T/run.err" 'none.scope is not written' "detach with a drainer that hangs"
	[ ! -e "$T/none.scope" ] || fail "a file after all"
	expect_empty "$FS" "detach with a drainer that hangs"
	kill -CONT "${pid[hangs]}"
	finish hangs
	expect_status 0 "the drainer that hung"
	whole "$T/hangs.scope"
fi

say "== a watcher that cannot be started, or dies at once, leaves nothing"
cat >"$T/fork.c" <<'C'
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
pid_t fork(void)
{
	pid_t pid;

	if (!getenv("FORK_DIES"))
		return errno = EAGAIN, -1;
	pid = (pid_t)syscall(SYS_clone, 17, 0, 0, 0, 0);
	if (!pid)
		_exit(0);
	return pid;
}
C
if cc -shared -fPIC -o "$T/fork.so" "$T/fork.c" 2>/dev/null; then
	for how in "" FORK_DIES=1; do
		begin "fork$how" 20
		detach
		run env LD_PRELOAD="$T/fork.so" $how "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f outer --watch
		expect_status 1 "attach without a watcher"
		expect_text "$T/run.err" 'cannot start the watcher' "attach without a watcher"
		expect_empty "$FS" "attach without a watcher"
		bpf_load "$dir"
		run env LD_PRELOAD="$T/fork.so" $how "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f outer --watch
		expect_status 1 "attach to what bpftool loaded, without a watcher"
		[ ! -e "$dir/links" ] && [ -e "$dir/maps/settings" ] || fail "what bpftool loaded is not as it was"
		run "$SCOPETRACE" attach --pin "$dir" -p "$traced" -f outer
		expect_status 0 "attach after that"
		detach
		send "fork$how" go
		to_the_end "fork$how"
	done
else
	say "no compiler: left out"
fi
expect_nothing_left "$T/before" "the ends of captures"
