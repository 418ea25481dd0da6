#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Return instructions where uretprobes would do: they tell the same calls, and all of those that are deeper than the 64 that
# the kernel follows. See hazards.bash.
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/hazards.bash"

say "== return instructions where nobody needs them: the same calls as by uretprobes, and of more than 64 levels all"
for build in "" .nop5; do
	for what in "top mid leaf:longjmp" "rec:recurse 70" "a b even odd:tailcall" "fn:threads 8" "work on_signal step:signals" \
		"work on_signal step:signals jump" "vforker step:vforkin" "outer visit leaf:abandon" "handle:forkserver"; do
		program=${what#*:}
		[ -x "$TARGETS/${program%% *}$build" ] || continue
		record_options=(--returns=instruction) ways=launched
		# shellcheck disable=SC2086 # its arguments
		hazard "${what%:*}" "${program%% *}$build" ${program#"${program%% *}"}
	done
done
if [ "$(uname -m)" = x86_64 ]; then
	record_options=(--returns=instruction)
	hazard "spin guarded_spin" loopentry
fi

say "== deeper still: more open calls than a thread keeps for good; what they took is given back"
for how in "300 1" "1000 1" "2000 20" "1000 1 exit" "2000 20 threads"; do
	# shellcheck disable=SC2086 # its arguments
	hazard "descend step" deep $how
done
record_options=(--returns=instruction) judged=(--beyond rec=3360) ways=launched
hazard rec recurse 20000
# What was left gives way where there is no more room.
record_options=(--returns=instruction) ways=launched
hazard "outer visit leaf" abandon 20000

say "== calls that a jump has left, and what is called then with the same stack pointer"
# A call and a turn of a loop look the same, but for the jump that leads to the turn.
hazard "looping bouncing" turnleft
record_options=(--returns=instruction)
hazard "outer inner stranger" runinto

end_hazards
