#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Writers preempted by force: what holds of the product, also under ThreadSanitizer, fails with the plain stamp and with
# the plain increment. With SCOPETRACE_LONG=1 many times.
set -u
proofs=$(realpath "${O:-build}")/proofs
times=${SCOPETRACE_LONG:+100}
failed=0

holds() { # PROGRAM SHAPE
	for _ in $(seq "${times:-3}"); do
		"$proofs/$1" "$2" || { echo "not ok: $1 $2"; failed=1; }
	done
}

# fails PROGRAM SHAPE PATTERN: at least one run of ten does, and says this.
fails() {
	local said
	for _ in $(seq 10); do
		said=$("$proofs/$1" "$2") && continue
		printf '%s\n' "$said"
		grep -qE "$3" <<<"$said" && echo "ok: $1 $2 fails, as it must" && return
	done
	echo "not ok: $1 $2 does not fail by: $3"
	failed=1
}

export TSAN_OPTIONS=halt_on_error=1
for shape in lap slots; do
	holds stress $shape
	holds stress_tsan $shape
done
fails stress_plain_stamp lap 'torn and believed [1-9]'
fails stress_plain_increment slots '120000 written, cursor ([0-9]{1,5}|1[01][0-9]{4}) '
exit $failed
