#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Stacks that are switched, move between threads or move in memory; children, filters, red zones, loops at the entry. See
# hazards.bash.
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/hazards.bash"

say "== stacks that are switched"
for order in lifo fifo "lifo swapped" "fifo swapped"; do
	# shellcheck disable=SC2086 # its arguments
	hazard "outer work" fibers 1000 $order
done
[ ! -x "$TARGETS/fibers.nop5" ] || hazard "outer work" fibers.nop5 1000 fifo
[ "$(uname -m)" != x86_64 ] || hazard "outer work" stackswitch
hazard "outer work" frameswitch
for place in above below; do
	hazard "outer on_signal inner" altstack $place
done
for stacks in apart pool; do
	hazard "outer work all" manyfibers 300 $stacks
done
hazard "holder suspended after" fiberleft
say "== stacks that are switched, when the capture is stopped"
ways=stopped
hazard "holder suspended after" fiberleft 10 hold
for place in above below; do
	ways=stopped
	hazard "outer on_signal inner" altstack $place 10 hold
done
say "== stacks that move between threads"
record_options=(--stacks=migrate)
hazard "outer work step" steal
migrated=$(grep -c 'migrated' "$T/hazard.csv")
[ "$migrated" -gt 0 ] || wrong "steal" "no scope is marked as begun on another thread"

say "== Go"
if [ -x "$TARGETS/gostacks" ]; then
	prefix=main. judged=(--moving descend --longest "$T/told")
	hazard "descend bottom" gostacks
else
	say "left out: Go, as there was no go at build time"
fi

say "== children, filters, red zones"
for build in "" .nop5 .clang; do
	[ ! -x "$TARGETS/forkserver$build" ] || hazard handle "forkserver$build"
done
for build in "" .nop5; do
	[ -x "$TARGETS/seccomp$build" ] || continue
	hazard "outer inner" "seccomp$build"
	# The filter is in force all the while: the first system call that it does not know ends the program, and with it
	# the truth line.
	judged=(--no-truth) wanted=159 ways=launched
	hazard "outer inner" "seccomp$build" 200 forbidden
done
if [ "$(uname -m)" = x86_64 ]; then
	hazard leaf redzone 10000
	hazard "leaf leaf_mid" redzone 10000
fi

say "== loops that come back to the entry"
looping=0
for build in "" .nop5 .gcc-O1 .gcc-Os .clang-O1 .clang-O2 .clang-Os; do
	[ -x "$TARGETS/entryloop$build" ] || continue
	objdump -d --no-show-raw-insn "$TARGETS/entryloop$build" | grep -qE 'j\w+ +[0-9a-f]+ <count_down(\+0x4)?>' && looping=$((looping + 1))
	ways=launched
	hazard "count_down find_end" "entryloop$build"
done
say "in $looping builds the loop begins at the entry"
[ "$looping" -gt 0 ] || wrong entryloop "no compiler made such a loop"

end_hazards
