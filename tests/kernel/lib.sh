# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # what is set here is for the scripts that source this
# For the scripts of tests/kernel/ (bash): start programs with their ends on fifos, wait for lines with a deadline, end
# everything by pid. A script sources this first; O names the build directory.
#
# start NAME STREAM COMMAND...   starts a program; STREAM (out or err) can be waited on, the other goes to $T/NAME.out|err.
#                                ${pid[NAME]} is its process id; its stdin is written to with `send`.
# wait_line NAME PATTERN [S]     reads lines of that stream until one matches (an ERE); it is in $line, all are in the log.
# send NAME TEXT                 writes a line to its stdin.
# finish NAME [S]                waits for its end; its exit status (as the shell has it) is in $status.
# run COMMAND...                 runs to the end: $status, and its output in $T/run.out and $T/run.err.
set -u

O=$(realpath "${O:-build}")
SCOPETRACE=$O/scopetrace
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TEST=$(basename "$0" .sh)
T=$(mktemp -d "${TMPDIR:-/tmp}/scopetrace-$TEST.XXXXXX")
PATIENCE=${PATIENCE:-60} # seconds that anything may take before the test gives up
cd "$T" || exit 1 # nothing that a program writes where it stands (gmon.out of nop5 programs) may land in the tree
declare -A pid in_fd out_fd
line='' status=''

# Ends what was started and is still there; the runner looks for what escapes this.
clean_up() {
	local name
	for name in "${!pid[@]}"; do
		[ -n "${pid[$name]}" ] || continue
		kill -KILL "${pid[$name]}" 2>/dev/null
		wait "${pid[$name]}" 2>/dev/null
	done
	cd /
	rm -rf "$T"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

say() { printf '%3d s  %s\n' $SECONDS "$*"; }

# Ends the test, with what its programs had said; the reason is the last line, which the runner shows for certain.
fail() {
	local file
	for file in "$T"/*.log "$T"/*.err; do
		[ -s "$file" ] || continue
		printf -- '--- %s\n' "$(basename "$file")"
		tail -n 20 "$file"
	done
	printf 'FAILED: %s\n' "$*"
	exit 1
}

# Ends the test as skipped; the last line is the reason.
skip() {
	printf 'skipped: %s\n' "$*"
	exit 77
}

start() {
	local name=$1 stream=$2 other=out to_it from_it
	shift 2
	[ "$stream" = err ] || other=err
	mkfifo "$T/$name.stdin" "$T/$name.stream"
	: >"$T/$name.log"
	# A shell without job control has its background jobs ignore SIGINT; env undoes that, and then is the program.
	if [ "$stream" = err ]; then
		env --default-signal=INT,QUIT "$@" <"$T/$name.stdin" 2>"$T/$name.stream" >"$T/$name.$other" &
	else
		env --default-signal=INT,QUIT "$@" <"$T/$name.stdin" >"$T/$name.stream" 2>"$T/$name.$other" &
	fi
	pid[$name]=$!
	exec {to_it}>"$T/$name.stdin" {from_it}<"$T/$name.stream"
	in_fd[$name]=$to_it out_fd[$name]=$from_it
	rm "$T/$name.stdin" "$T/$name.stream"
}

wait_line() {
	local name=$1 pattern=$2 deadline=$((SECONDS + ${3:-$PATIENCE}))
	while [ $SECONDS -lt $deadline ]; do
		if IFS= read -r -t $((deadline - SECONDS)) -u "${out_fd[$name]}" line; then
			printf '%s\n' "$line" >>"$T/$name.log"
			[[ $line =~ $pattern ]] && return 0
		elif [ $? -le 128 ]; then
			fail "$name ended without a line like: $pattern"
		fi
	done
	fail "$name gave no line like: $pattern"
}

send() { printf '%s\n' "$2" >&"${in_fd[$1]}"; }

# Reads what is left of its stream until the program closes it, and waits for its end.
finish() {
	local name=$1 deadline=$((SECONDS + ${2:-$PATIENCE})) to_it=${in_fd[$1]} from_it=${out_fd[$1]}
	while [ $SECONDS -lt $deadline ]; do
		if IFS= read -r -t $((deadline - SECONDS)) -u "${out_fd[$name]}" line; then
			printf '%s\n' "$line" >>"$T/$name.log"
		elif [ $? -le 128 ]; then
			break
		fi
	done
	[ $SECONDS -lt $deadline ] || fail "$name does not end"
	wait "${pid[$name]}"
	status=$?
	pid[$name]=
	exec {to_it}>&- {from_it}<&-
}

run() {
	timeout --kill-after=5 "$PATIENCE" "$@" >"$T/run.out" 2>"$T/run.err" </dev/null
	status=$?
}

expect_status() {
	[ "$status" = "$1" ] || fail "$2: exit status $status, not $1"
}

# expect_text FILE PATTERN WHAT: the file has a line like this (an ERE, any case).
expect_text() {
	grep -Eqi -- "$2" "$1" || fail "$3: no line like: $2"
}

# A snapshot of what the machine holds of BPF, mounts, segments and processes, and what of it is new since.
snapshot() { python3 "$HERE/residue.py" --build "$O" snapshot "$1"; }
expect_nothing_left() {
	python3 "$HERE/residue.py" --build "$O" compare "$1" || fail "$2: something is left behind"
}

# What the kernel said of uprobes since kernel_log_mark, of the processes PID... or of none by number.
kernel_log() {
	python3 - "$@" <<-'END'
		import os, re, sys
		log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
		since, pids, last = int(sys.argv[1]), set(sys.argv[2:]), 0
		while True:
		    try:
		        record = os.read(log, 8192).decode(errors="replace")
		    except BrokenPipeError:  # overwritten meanwhile
		        continue
		    except BlockingIOError:
		        break
		    last = int(record.split(",")[1])
		    named = set(re.findall(r"(?<=[:/=])\d+", record.partition(";")[2]))
		    if last > since and "uprobe" in record and (not named or named & pids):
		        print(record.partition(";")[2].splitlines()[0])
		if not pids:
		    print(last)
	END
}
kernel_log_mark() { kernel_log_start=$(kernel_log 0 | tail -n 1); }
expect_kernel_silent() { # WHAT PID...
	local what=$1 said
	shift
	said=$(kernel_log "$kernel_log_start" "$@")
	[ -z "$said" ] || fail "$what: the kernel says: $said"
}

need() {
	local program
	for program in "$@"; do
		[ -x "$program" ] || fail "$program is not built"
	done
}
