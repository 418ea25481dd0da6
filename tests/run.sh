#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs all tests of a build; `make check` calls it.
#
#	tests/run.sh [PATTERN]...	only the tests whose name (unit/base, kernel/stop ...) matches a glob
#	tests/run.sh --list		their names, and runs nothing
#
# O names the build directory (default: build). Kernel tests need root: without it they are skipped, counted and named.
# SCOPETRACE_REQUIRE_ROOT=1 (CI) makes a kernel test that did not run a failure. The last line is exactly
# `N passed, N failed, N skipped`; exit status 1 if any failed. Each test's output is kept in $O/tests/NAME.log.
# SCOPETRACE_LONG=1 (`make check-long`): the proofs take their time, and all unit tests run with sanitizers too.
set -u

tests=$(cd "$(dirname "$0")" && pwd)
O=$(realpath "${O:-build}")
export O
export SCOPETRACE_TARGETS=$O/targets # where unit tests find programs to trace
patterns=("$@")
logs=$O/tests
passed=0 failed=0 skipped=0
failed_names=() skipped_names=()
took=0
TEST_TIMEOUT=${TEST_TIMEOUT:-600} # seconds for one test

selected() {
	local pattern
	[ ${#patterns[@]} -gt 0 ] || return 0
	for pattern in "${patterns[@]}"; do
		# shellcheck disable=SC2053 # a glob is meant
		[[ $1 == $pattern ]] && return 0
	done
	return 1
}

# result NAME pass|fail|skip [REASON]
result() {
	local log=$logs/${1//\//-}.log
	case $2 in
	pass)
		passed=$((passed + 1))
		printf 'ok      %s (%s s)\n' "$1" "$took"
		;;
	skip)
		skipped=$((skipped + 1))
		skipped_names+=("$1")
		printf 'skipped %s: %s\n' "$1" "${3:-}"
		;;
	fail)
		failed=$((failed + 1))
		failed_names+=("$1")
		printf 'FAILED  %s%s\n' "$1" "${3:+: $3}"
		[ ! -s "$log" ] || tail -n 40 "$log" | sed 's/^/        /'
		;;
	esac
}

# execute NAME COMMAND...: its output goes to the log, its exit status is the answer, and $took the seconds.
execute() {
	local log=$logs/${1//\//-}.log from=$SECONDS code
	shift
	timeout --kill-after=10 "$TEST_TIMEOUT" "$@" >"$log" 2>&1 </dev/null
	code=$?
	took=$((SECONDS - from))
	return $code
}

# run_unit PROGRAM [KIND]: named KIND/AREA, unit/AREA by default. A Criterion binary counts its cases itself. Those that it
# skips are named, and did not run as kernel tests do not. A crash outside of all cases is one more failure.
run_unit() {
	local program=$1 name log code numbers tested passing failing crashing case reason
	name=${2:-unit}/$(basename "$program")
	log=$logs/${name//\//-}.log
	selected "$name" || return 0
	execute "$name" "$program" --color=never --verbose
	code=$?
	numbers=$(sed -n 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) | Failing: \([0-9]*\) | Crashing: \([0-9]*\).*/\1 \2 \3 \4/p' "$log" | tail -n 1)
	while read -r case reason; do
		not_run "$name/${case%:}" "$reason"
	done < <(sed -n 's/^\[SKIP\] //p' "$log")
	# Only what went wrong is worth reading again.
	sed -i -E '/^\[(RUN |PASS)\]/d' "$log"
	read -r tested passing failing crashing <<<"${numbers:-0 0 0 0}"
	if [ $code = 0 ] && [ -n "$numbers" ] && [ "$passing" = "$tested" ]; then
		passed=$((passed + passing))
		printf 'ok      %s: %s cases (%s s)\n' "$name" "$passing" "$took"
		return
	fi
	passed=$((passed + passing))
	[ $((failing + crashing)) -lt 2 ] || failed=$((failed + failing + crashing - 1)) # result counts one
	result "$name" fail "exit status $code, $passing of $tested cases passed"
}

# A script fails, passes, or (exit status 77) is skipped, its last line being the reason.
judge_script() { # NAME EXIT_STATUS
	case $2 in
	0) result "$1" pass ;;
	77) result "$1" skip "$(tail -n 1 "$logs/${1//\//-}.log")" ;;
	124 | 137) result "$1" fail "not done after $TEST_TIMEOUT s" ;;
	*) result "$1" fail "exit status $2" ;;
	esac
}

run_script() {
	selected "$1" || return 0
	execute "$@"
	judge_script "$1" $?
}

# Those that keep a processor busy and watch no clock run beside the unit tests, one after another.
beside=()
start_beside() { # SCRIPT...
	local script name
	for script in "$@"; do
		name=proofs/$(basename "$script" .sh)
		selected "$name" && beside+=("$name")
	done
	for script in "$@"; do
		name=proofs/$(basename "$script" .sh)
		selected "$name" || continue
		execute "$name" bash "$script"
		echo "$? $took" >"$logs/${name//\//-}.status"
	done &
}

end_beside() {
	local name code
	wait
	for name in "${beside[@]}"; do
		read -r code took <"$logs/${name//\//-}.status"
		judge_script "$name" "$code"
	done
}

# A kernel test may leave nothing: no BPF link, program, map or pin, no segment, no process.
run_kernel() {
	local name=$1 script=$2 before=$logs/before.json log code reason
	selected "$name" || return 0
	log=$logs/${name//\//-}.log
	if [ "$(id -u)" != 0 ]; then
		not_run "$name" "needs root"
		return
	fi
	if ! python3 "$tests/kernel/residue.py" --build "$O" snapshot "$before" >"$log" 2>&1; then
		result "$name" fail "what the machine holds cannot be listed"
		return
	fi
	execute "$name" bash "$script"
	code=$?
	reason="exit status $code"
	if ! python3 "$tests/kernel/residue.py" --build "$O" compare "$before" >>"$log" 2>&1; then
		[ $code != 0 ] || reason="it passed, but left something behind"
		[ $code != 0 ] && [ $code != 77 ] || code=1
	fi
	case $code in
	0) result "$name" pass ;;
	77) not_run "$name" "$(tail -n 1 "$log")" ;;
	124 | 137) result "$name" fail "not done after $TEST_TIMEOUT s" ;;
	*) result "$name" fail "$reason" ;;
	esac
}

not_run() {
	if [ "${SCOPETRACE_REQUIRE_ROOT:-0}" = 1 ]; then
		result "$1" fail "did not run, and SCOPETRACE_REQUIRE_ROOT=1: $2"
	else
		result "$1" skip "$2"
	fi
}

list() {
	local program script
	for program in "$tests"/unit/*/; do
		[ "$(basename "$program")" = support ] || printf 'unit/%s\n' "$(basename "$program")"
	done
	for script in "$tests"/{model,stress,fuzz}/*.sh; do printf 'proofs/%s\n' "$(basename "$script" .sh)"; done
	for script in "$tests"/{api,kernel}/*.sh; do
		[[ $(basename "$script") = lib*.sh ]] || printf '%s/%s\n' "$(basename "$(dirname "$script")")" "$(basename "$script" .sh)"
	done
	printf 'includes\n'
}

if [ "${1:-}" = --list ]; then
	list
	exit 0
fi

mkdir -p "$logs"
rm -f "$logs"/*.status
shopt -s nullglob
start_beside "$tests"/{model,stress,fuzz}/*.sh
for program in "$O"/unit/*; do
	[ -f "$program" ] && [ -x "$program" ] && run_unit "$program"
done
if [ -n "${SCOPETRACE_LONG:-}" ]; then
	sanitized=("$O"/san/unit/*)
else
	sanitized=("$O/san/unit/libscope")
fi
for program in "${sanitized[@]}"; do
	run_unit "$program" sanitized
done
for script in "$tests"/api/*.sh; do
	run_script "api/$(basename "$script" .sh)" bash "$script"
done
run_script includes bash "$tests/includes.sh"
end_beside
for script in "$tests"/kernel/*.sh; do
	[[ $(basename "$script") = lib*.sh ]] || run_kernel "kernel/$(basename "$script" .sh)" "$script"
done

if [ $((passed + failed + skipped)) = 0 ]; then
	printf 'no test matches: %s\n' "${patterns[*]:-}"
	failed=1
fi
[ ${#skipped_names[@]} = 0 ] || printf 'skipped: %s\n' "${skipped_names[*]}"
[ ${#failed_names[@]} = 0 ] || printf 'failed: %s (output in %s)\n' "${failed_names[*]}" "$logs"
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed = 0 ]
