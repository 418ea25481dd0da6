#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every interleaving of the hand-off's protocol, by Spin: it holds, and each mutant of it is refuted. With SCOPETRACE_LONG=1 for
# more records and places.
set -u
model=$(cd "$(dirname "$0")" && pwd)/handoff.pml
work=$(realpath "${O:-build}")/proofs/spin
failed=0

if ! command -v spin >/dev/null; then
	echo "spin is not installed (make deps installs it on Debian)"
	exit 77
fi

# search NAME OPTIMISATION FLAG...: the whole state space; what Spin found is in $said.
search() {
	local name=$1 optimise=$2
	shift 2
	mkdir -p "$work/$name" && cd "$work/$name" || exit 1
	if ! spin -a "$@" "$model" >spin.log 2>&1 || ! ${CC:-cc} -w "$optimise" -DSAFETY -o pan pan.c; then
		cat spin.log
		echo "not ok: $name does not compile"
		exit 1
	fi
	said=$(./pan -m100000 -n 2>&1)
}

holds() { # NAME FLAG...
	search "$1" -O2 "${@:2}"
	if grep -q 'errors: 0$' <<<"$said" && ! grep -qE 'max search depth too small|out of memory|not completed' <<<"$said"; then
		echo "ok: $1: $(sed -nE 's/^ *([0-9]+) states, stored.*/\1 states/p' <<<"$said"), all of them"
	else
		printf '%s\n' "$said" | head -n 20
		echo "not ok: $1"
		failed=1
	fi
}

refuted() { # PATTERN NAME FLAG...
	search "$2" -O0 "${@:3}"
	if grep -qE "$1" <<<"$said"; then
		echo "ok: $2 is refuted: $(sed -nE 's/^pan:1: (.*)/\1/p' <<<"$said")"
	else
		printf '%s\n' "$said" | head -n 20
		echo "not ok: $2 is not refuted by: $1"
		failed=1
	fi
}

size=(${SCOPETRACE_LONG:+-DRECORDS=9 -DCAPACITY=4 -DINTERRUPTIONS=2})
holds the_protocol "${size[@]}"
holds the_end -DCLOSES "${size[@]}"
refuted 'assertion violated.*expected' no_generation -DNO_GENERATION
refuted 'invalid end state' blind_sleep -DBLIND_SLEEP
refuted 'invalid end state' late_clear -DLATE_CLEAR
refuted 'assertion violated.*expected' late_time -DLATE_TIME
refuted 'assertion violated.*expected' position_first -DPOSITION_FIRST
refuted 'assertion violated.*expected' closed_last -DCLOSES -DCLOSED_LAST
refuted 'assertion violated.*tagged' room_for_one -DROOM_FOR_ONE
refuted 'invalid end state' kept_extra -DKEPT_EXTRA
exit $failed
