#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs each fuzz target for FUZZ_SECONDS (4, in `make check-long` 60) from its corpus on. New inputs and what went wrong go to $O/fuzz/NAME.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath "${O:-build}")
default=${SCOPETRACE_LONG:+60}
seconds=${FUZZ_SECONDS:-${default:-4}}
failed=0

for program in segment capture selector; do
	found=$O/fuzz/$program.found
	mkdir -p "$found/new"
	# What the loader says of hostile input is no news. Leaks are looked for at the end, not after each input.
	"$O/fuzz/$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=16384 -close_fd_mask=2 \
		-artifact_prefix="$found/" "$found/new" "tests/fuzz/corpus/$program" >"$found/log" 2>&1
	code=$?
	if [ $code = 0 ]; then
		echo "ok $program: $(grep -E '^Done ' "$found/log")"
	else
		echo "not ok $program: exit status $code; the input is in $found"
		tail -n 40 "$found/log"
		failed=1
	fi
done
exit $failed
