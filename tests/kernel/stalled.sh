#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The capture goes into a pipe or a socket that nobody reads, or to a file system that does not answer: it ends all the same
# when it is to, the program is left alone at once, and a second signal ends the recorder.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/flight"
snapshot "$T/before"

start program out "$O/targets/flight" 0
wait_line program '^pid ([0-9]+)$'
target=${BASH_REMATCH[1]}

# Links that the program NAME holds.
links() { cat "/proc/${pid[$1]}/fdinfo/"* 2>/dev/null | grep -c '^link_id:'; }

until_unhooked() { # NAME WHAT
	local tries=1000
	while [ "$(links "$1")" != 0 ]; do
		sleep 0.01
		((tries--)) || fail "$2: $(links "$1") links"
	done
}

say "== a fifo that nobody opens"
mkfifo "$T/alone"
start record-alone err "$SCOPETRACE" record -p "$target" -f work -o "$T/alone"
wait_line record-alone 'waiting for somebody to read .*/alone'
[ "$(links record-alone)" = 0 ] || fail "the program bears probes that nobody drains"
kill -INT "${pid[record-alone]}"
finish record-alone
expect_status 130 "a fifo that nobody opens"

# stall NAME OPTION...: a capture into a pipe that is held open, and soon full.
stall() {
	local name=$1
	shift
	mkfifo "$T/pipe-$name"
	exec {held}<>"$T/pipe-$name"
	# Two pages: one for what the file begins with.
	python3 -c 'import fcntl, sys; fcntl.fcntl(int(sys.argv[1]), fcntl.F_SETPIPE_SZ, 8192)' "$held"
	start "record-$name" err "$SCOPETRACE" record -p "$target" -f work --buffer 256K -o "$T/pipe-$name" "$@"
	wait_line "record-$name" 'armed 1 of 1'
	[ "$(links "record-$name")" -gt 0 ] || fail "armed without links"
	python3 -c '
import array, fcntl, sys, termios, time
waiting, until = array.array("i", [0]), time.monotonic() + 60
while waiting[0] <= 4096:
    assert time.monotonic() < until, "the pipe does not fill"
    time.sleep(0.01)
    fcntl.ioctl(int(sys.argv[1]), termios.FIONREAD, waiting)
' "$held" || fail "the pipe does not fill"
}

say "== two signals"
stall signals
kill -USR1 "${pid[record-signals]}" # is no reason to die without --flight
wait_line record-signals 'SIGUSR1.*wants --flight'
kill -INT "${pid[record-signals]}"
wait_line record-signals 'the capture has ended; what is left waits'
until_unhooked record-signals "the first signal"
kill -0 "${pid[record-signals]}" || fail "the first signal took what was left"
kill -INT "${pid[record-signals]}"
finish record-signals
expect_status 130 "the second signal"
exec {held}<&-

say "== --duration, and a reader in the end"
stall duration --duration 700ms
wait_line record-duration 'the capture has ended; what is left waits'
until_unhooked record-duration "the time is up"
# Without another that holds it, the pipe ends with the recorder.
exec {reader}<"$T/pipe-duration" {held}<&-
cat <&"$reader" >"$T/duration.scope"
exec {reader}<&-
finish record-duration
expect_status 0 "a reader in the end"
expect_text "$T/record-duration.log" '[1-9][0-9]* lost in the hand-off; .*balanced' "its account"
run "$SCOPETRACE" report "$T/duration.scope"
expect_status 0 "what was read"

say "== a socket"
# It holds the other end itself.
start record-socket err python3 -c 'import os, socket, sys
ours, other = socket.socketpair()
os.set_inheritable(other.fileno(), True)
os.dup2(ours.fileno(), 1)
os.execv(sys.argv[1], sys.argv[1:])' "$SCOPETRACE" record -p "$target" -f work --buffer 256K --duration 500ms -o -
wait_line record-socket 'the capture has ended; what is left waits'
until_unhooked record-socket "a socket"
kill -INT "${pid[record-socket]}"
finish record-socket
expect_status 130 "a socket"

say "== a file system that does not answer"
mkdir "$T/stuck"
cat >"$T/stuck.sh" <<'STUCK'
python3 "$1/failing_fs.py" "$2" 100000 stuck <&0 >"$2.mounted" &
until grep -qs mounted "$2.mounted"; do kill -0 $! || exit 77; sleep 0.02; done
"${@:3}" </dev/null &
echo "recorder $!" >&2
wait $!
status=$?
cp "$2/a.scope" "$2.scope"
umount "$2"
exit $status
STUCK
start stuck err unshare --mount --propagation private bash "$T/stuck.sh" "$HERE" "$T/stuck" \
	"$SCOPETRACE" record -p "$target" -f work --duration 700ms -o "$T/stuck/a.scope"
wait_line stuck '^recorder ([0-9]+)'
pid[stuck-recorder]=${BASH_REMATCH[1]}
wait_line stuck 'armed 1 of 1'
[ "$(links stuck-recorder)" -gt 0 ] || fail "armed without links"
wait_line stuck 'the capture has ended; what is left waits'
until_unhooked stuck-recorder "a file system that does not answer"
send stuck go
pid[stuck-recorder]=
finish stuck
expect_status 0 "a file system that answers in the end"
expect_text "$T/stuck.log" '[1-9][0-9]* calls; .*balanced' "its account"
run "$SCOPETRACE" report "$T/stuck.scope"
expect_status 0 "what was written in the end"

say "== no memory"
run bash -c 'ulimit -v 300000; exec "$@"' limit "$SCOPETRACE" record -p "$target" -f work --buffer 1G -o "$T/none.scope"
expect_status 1 "no memory"
expect_text "$T/run.err" 'choose a smaller --buffer' "no memory"
[ ! -e "$T/none.scope" ] || fail "no memory: a file is left"

send program quit
finish program
expect_nothing_left "$T/before"
