#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# record -- COMMAND: armed before main, call for call to the end, and the command's exit status is passed on.
. "$(dirname "$0")/lib.sh"

DEMO=$O/targets/demo
need "$SCOPETRACE" "$DEMO" "$O/targets/calls"
snapshot "$T/before"

rows() { grep -Ec "$1" "$T/run.out"; }

# expect_rows NUMBER PATTERN
expect_rows() {
	local found
	found=$(rows "$2")
	[ "$found" = "$1" ] || fail "$found rows like $2, not $1"
}

say "== from the first scope of main to the last"
run "$SCOPETRACE" record -o "$T/demo.scope" -f read_input -f integrate_particles -f cull_particles -- "$DEMO" 1
expect_status 0 "record -- demo"
expect_text "$T/run.err" 'armed 3 of 3 functions' "record -- demo"
said=$(grep 'jobs done' "$T/run.out") || fail "the demonstration did not end in order"
[[ $said =~ ([0-9]+)\ frames,\ ([0-9]+)\ jobs ]] || fail "not understood: $said"
frames=${BASH_REMATCH[1]} jobs=${BASH_REMATCH[2]}
run "$SCOPETRACE" export "$T/demo.scope" -t csv
expect_status 0 "export"
say "$said; $(rows ',manual,') manual and $(rows ',hooked,') hooked scopes"
expect_rows 1 ',0,manual,start_up,'
expect_rows "$frames" ',0,manual,frame,'
expect_rows "$jobs" ',0,manual,job,'
expect_rows "$frames" ',2,hooked,read_input,'
expect_rows "$jobs" ',1,hooked,(integrate|cull)_particles,'
# Nothing of the main thread comes before the first scope of main.
first=$(tail -n +2 "$T/run.out" | sort -t, -n -k1,1 | head -n 1)
[[ $first == *,manual,start_up,* ]] || fail "the first scope is $first"

say "== without hooks"
run "$SCOPETRACE" record -o "$T/manual.scope" -- "$DEMO" 0.2
expect_status 0 "record -- demo, manual scopes only"
run "$SCOPETRACE" export "$T/manual.scope" -t csv
expect_rows 1 ',0,manual,start_up,'
expect_rows 0 ',hooked,'

say "== to standard output, which then is not the command's"
run "$SCOPETRACE" record -o - -- "$DEMO" 0.2
expect_status 0 "record -o - -- demo"
expect_text "$T/run.err" '^demo: pid' "what the command prints"
mv "$T/run.out" "$T/piped.scope"
run "$SCOPETRACE" export "$T/piped.scope" -t csv
expect_status 0 "export of what came out"
expect_rows 1 ',0,manual,start_up,'

say "== a command that ends at once"
for attempt in 1 2 3 4 5; do
	run "$SCOPETRACE" record -o "$T/short.scope" -f outer -- "$O/targets/calls" --threads 1 --calls 1 --rate 0 --manual
	expect_status 0 "record -- calls, attempt $attempt"
	run "$SCOPETRACE" export "$T/short.scope" -t csv
	expect_rows 1 ',1,hooked,outer,'
	expect_rows 1 ',0,manual,m_loop,'
	expect_rows 6 ',manual,m_inner,'
done

say "== exit statuses"
run "$SCOPETRACE" record -o "$T/status.scope" -- "$DEMO" nonsense
expect_status 2 "the command's own status"
run "$SCOPETRACE" record -o "$T/status.scope" -- "$T/no-such-command"
expect_status 127 "a command that is not there"
expect_text "$T/run.err" 'no-such-command' "a command that is not there"
run "$SCOPETRACE" record -o "$T/never.scope" -f no_such_function -- "$DEMO" 1
expect_status 125 "a capture that failed"
! grep -q 'demo: pid' "$T/run.out" || fail "the command ran although its capture failed"
run "$SCOPETRACE" record -o "$T/no/such/directory" -- "$DEMO" 1
expect_status 125 "a capture without a file"
run "$SCOPETRACE" record -o "$T/duration.scope" --duration 300ms -- "$DEMO" 30
expect_status 0 "a command that --duration ends"
expect_text "$T/run.out" 'jobs done' "a command that --duration ends"

say "== nothing of ours is in the command, nor the command's in ours"
run "$SCOPETRACE" record -o "$T/fds.scope" -f outer -- "$O/targets/calls" --threads 1 --calls 1 --rate 0
expect_status 0 "record -- calls"
descriptors() { grep -Eo '[0-9]+ -> [^0-9]*' "$T/run.out" | sort -u; }
run ls -l /proc/self/fd
descriptors >"$T/fds.alone"
run "$SCOPETRACE" record -o "$T/fds.scope" --force -f libc:readlink -- ls -l /proc/self/fd
expect_status 0 "record -- ls"
descriptors | diff "$T/fds.alone" - || fail "descriptors of the recorder are open in the command"
# The way to the command, by execve and read, is not the command's.
run "$SCOPETRACE" record -o "$T/exec.scope" --force -f libc:execve -f libc:setenv -- true
expect_status 0 "record -- true"
expect_text "$T/run.err" ' 0 calls; 0 duplicate entries, 0 entries with no return discarded' "calls of the recorder's own child"

say "== functions that the kernel cannot probe"
if [ "$(uname -m)" = x86_64 ]; then
	cat >"$T/odd.c" <<'END'
#include <stdio.h>
long count;
void odd(void), even(void);
__asm__(".text\n.globl odd\n.type odd,@function\nodd: lock addq $1, count(%rip)\n ret\n.size odd, . - odd\n"
	".globl even\n.type even,@function\neven: addq $1, count(%rip)\n ret\n.size even, . - even\n");
int main(void)
{
	for (int i = 0; i < 100; i++) {
		odd();
		even();
	}
	return count != 200;
}
END
	"${CC:-cc}" "$T/odd.c" -o "$T/odd" || fail "no C compiler"
	# Before exec the kernel would take the probe, and never let it hit.
	run "$SCOPETRACE" record -o "$T/odd.scope" -f odd -f even -- "$T/odd"
	expect_status 0 "record -- odd"
	expect_text "$T/run.err" 'armed 1 of 2 functions' "a function that cannot be probed"
	expect_text "$T/run.err" 'no probe may sit at the entry of odd, which is a lock' "a function that cannot be probed"
	expect_text "$T/run.err" ' 100 calls;' "a function that cannot be probed"
fi

say "== a script without #!, with its arguments"
printf 'test "$1" = "a b" && test "$2" = c\n' >"$T/script"
chmod +x "$T/script"
run "$SCOPETRACE" record -o "$T/script.scope" -- "$T/script" "a b" c
expect_status 0 "a script without #!"

say "== a capture that fails is no reason for the command to"
mkdir "$T/small"
mount -t tmpfs -o size=200k none "$T/small" || fail "no tmpfs"
run "$SCOPETRACE" record -o "$T/small/full.scope" -- "$O/targets/scopes" 2 20000
umount "$T/small"
expect_status 125 "a full disk"
expect_text "$T/run.err" 'No space left' "a full disk"
expect_text "$T/run.out" '^truth ' "a full disk: the command goes on to its end"
run "$SCOPETRACE" record -o "$T/here.scope" -- "$DEMO" 0.1
mkdir "$T/here.scope.old"
run "$SCOPETRACE" record -o "$T/here.scope" -- touch "$T/ran"
expect_status 125 "an older capture that cannot be put away"
[ ! -e "$T/ran" ] || fail "the command ran without a file to capture it in"
rmdir "$T/here.scope.old"
run "$SCOPETRACE" record -o "$T/here.scope" -- "$T/no-such-command"
expect_status 127 "no such command"
[ -s "$T/here.scope" ] && [ ! -e "$T/here.scope.old" ] || fail "a command that is not there has cost an older capture"

say "== exec: one segment after another, with their own clocks"
run "$SCOPETRACE" record --json -o "$T/chain.scope" -- sh -c \
	"'$O/targets/scopes' 1 10; SCOPE_CLOCK=monotonic exec '$O/targets/scopes' 1 20"
expect_status 0 "a shell that becomes a program"
expect_text "$T/run.out" '"balanced": ?true' "a shell that becomes a program"
run "$SCOPETRACE" report "$T/chain.scope"
expect_text "$T/run.out" '^outer +manual +20 ' "a shell that becomes a program"

say "== another reader has the manual scopes"
start shared out "$DEMO" 30
wait_line shared '^demo: pid ([0-9]+)'
shared=${BASH_REMATCH[1]}
start first err "$SCOPETRACE" record -p "$shared" -o "$T/first.scope"
wait_line first 'capturing the manual scopes'
run "$SCOPETRACE" record -p "$shared" -o "$T/second.scope" -d 300ms
expect_status 1 "a second reader of the manual scopes"
run "$SCOPETRACE" record -p "$shared" -o "$T/second.scope" -d 300ms -f read_input
expect_status 0 "a second recorder with hooks"
expect_text "$T/run.err" 'going on with the hooked functions alone' "a second recorder with hooks"
run "$SCOPETRACE" record -p "$shared" -o "$T/first.scope" -d 300ms -f read_input
expect_status 1 "a second recorder with the same file"
expect_text "$T/run.err" 'another capture is being written' "a second recorder with the same file"
kill -INT "${pid[first]}"
finish first
expect_status 0 "the first reader"
kill -TERM "${pid[shared]}"
finish shared

say "== signals"
# One that was ignored when the recorder was started stays so (nohup).
start nohup out env --ignore-signal=HUP "$SCOPETRACE" record -o "$T/nohup.scope" -- "$DEMO" 1
wait_line nohup '^demo: pid'
kill -HUP "${pid[nohup]}"
finish nohup
expect_status 0 "SIGHUP under nohup"
# A command that ignores SIGTERM does not make us unstoppable.
start stubborn err "$SCOPETRACE" record -o "$T/stubborn.scope" -d 200ms -- sh -c 'exec 2>/dev/null; trap "" TERM; echo $$ >"$0"; sleep 30 & echo $! >"$1"; wait; wait' "$T/stubborn.pid" "$T/sleep.pid"
wait_line stubborn 'the time is up'
kill -INT "${pid[stubborn]}"
finish stubborn
expect_status 130 "Ctrl-C while a command is waited for"
# shellcheck disable=SC2046 # two numbers
kill -KILL $(cat "$T/stubborn.pid" "$T/sleep.pid")
start killed out "$SCOPETRACE" record -o "$T/killed.scope" -- "$DEMO" 30
wait_line killed '^demo: pid ([0-9]+)'
kill -KILL "${BASH_REMATCH[1]}"
finish killed
expect_status 137 "a command that was killed"
start ended out "$SCOPETRACE" record -o "$T/ended.scope" -f read_input -- "$DEMO" 30
wait_line ended '^demo: pid ([0-9]+)'
kill -TERM "${pid[ended]}"
wait_line ended 'jobs done'
finish ended
expect_status 0 "a command to which SIGTERM was passed on"
expect_nothing_left "$T/before" "record -- COMMAND"
