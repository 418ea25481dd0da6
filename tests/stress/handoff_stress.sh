#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The hand-off buffer between two threads, under ThreadSanitizer too; and what must fail does: an exchange that is not
# atomic, and atomics that order nothing. With SCOPETRACE_LONG=1 ten million records.
set -u
proofs=$(realpath "${O:-build}")/proofs
records=${SCOPETRACE_LONG:+10000000}
failed=0

holds() { # PROGRAM
	"$proofs/$1" "${records:-1000000}" || { echo "not ok: $1"; failed=1; }
}

# fails PROGRAM PATTERN: it says this, or a lost wake-up leaves its reader asleep.
fails() {
	local said status
	for _ in $(seq 10); do
		said=$(timeout 20 "$proofs/$1" 1000000 2>&1)
		status=$?
		[ $status != 0 ] || continue
		printf '%s\n' "$said" | head -n 12
		{ [ $status = 124 ] || grep -qE "$2" <<<"$said"; } && echo "ok: $1 fails, as it must" && return
	done
	echo "not ok: $1 does not fail by: $2"
	failed=1
}

export TSAN_OPTIONS=halt_on_error=1
holds handoff
holds handoff_tsan
fails handoff_plain_exchange 'VIOLATED|is damaged'
fails handoff_unordered 'data race'
exit $failed
