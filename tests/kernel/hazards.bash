# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # what lib.sh sets
# For the scripts hazards*.sh: programs that other tracers kill or corrupt. Each must end as it does untraced, with the same
# output and status; each of its calls must be in the capture, those too that were left by an exception, a cancellation or
# a jump; and the kernel must find nothing to complain of.
# shellcheck source=lib.sh
. "$HERE/lib.sh"

need "$SCOPETRACE"
snapshot "$T/before"
TARGETS=$O/targets
kernel_log_mark
failed=()

# judge WHAT ARGUMENT...: the capture against the program's own account, in $T/truth.
judge() {
	local what=$1
	shift
	run "$SCOPETRACE" report "$T/hazard.scope" --json
	expect_status 0 "report of $what"
	mv "$T/run.out" "$T/hazard.json"
	run "$SCOPETRACE" export "$T/hazard.scope" -t csv -o "$T/hazard.csv"
	expect_status 0 "export of $what"
	python3 "$HERE/check_account.py" --json "$T/hazard.json" --csv "$T/hazard.csv" --truth "$T/truth" "$@"
}

# wrong WHAT WHY: goes on with the next one, so that one run tells of all.
wrong() {
	say "  WRONG $1: $2"
	failed+=("$1")
}

# compare WHAT STATUS RECORD_LOG: as untraced? And is the account right, and the kernel silent?
compare() {
	local what=$1 ended=$2 log=$3 tracee
	[ "$ended" = "$untraced" ] || wrong "$what" "exit status $ended, untraced $untraced: $(tail -n 3 "$log" | tr '\n' ' ')"
	if ! diff "$T/untraced" "$T/truth" >"$T/difference"; then
		wrong "$what" "the output differs: $(head -n 4 "$T/difference" | cut -c 1-300 | tr '\n' ' ')"
		return
	fi
	tracee=$(sed -nE 's/.*armed .* in pid ([0-9]+).*/\1/p' "$log" | head -n 1)
	[ -n "$tracee" ] || { wrong "$what" "not armed: $(head -n 3 "$log" | tr '\n' ' ')"; return; }
	said=$(kernel_log "$kernel_log_start" "$tracee")
	[ -z "$said" ] || wrong "$what" "the kernel says: $said"
	judge "$what" "${judged[@]}" "${functions[@]}" || wrong "$what" "the account"
}

record_options=() judged=() prefix='' wanted=0 ways='attached launched'

attached() {
	local name=$1
	shift
	start "$name" out "$@"
	wait_line "$name" '^pid [0-9]+$'
	start "record-$name" err "$SCOPETRACE" record -p "${line#pid }" "${hooks[@]}" "${record_options[@]}" -o "$T/hazard.scope"
	wait_line "record-$name" 'armed [0-9]|error:'
	if [[ $line != *armed* ]]; then
		wrong "$name" "$line"
		kill -TERM "${pid[$name]}"
		finish "$name"
		finish "record-$name"
		rm -f "$T/$name".* "$T/record-$name".*
		return
	fi
	send "$name" go
	finish "$name"
	ended=$status
	grep -v '^pid ' "$T/$name.log" >"$T/truth"
	cp "$T/$name.err" "$T/told"
	finish "record-$name"
	[ "$status" = 0 ] || wrong "$name" "record: exit status $status: $(tail -n 2 "$T/record-$name.log")"
	compare "$name" "$ended" "$T/record-$name.log"
	rm -f "$T/$name".* "$T/record-$name".* # `fail` shows logs: of the failing one only
}

# stopped NAME PROGRAM...: the recorder is stopped when the program has told its truth and waits.
stopped() {
	local name=$1
	shift
	start "$name" out "$@"
	wait_line "$name" '^pid [0-9]+$'
	start "record-$name" err "$SCOPETRACE" record -p "${line#pid }" "${hooks[@]}" "${record_options[@]}" -o "$T/hazard.scope"
	wait_line "record-$name" 'armed [0-9]'
	send "$name" go
	wait_line "$name" '^truth '
	kill -INT "${pid[record-$name]}"
	finish "record-$name"
	[ "$status" = 0 ] || wrong "$name" "record: exit status $status: $(tail -n 2 "$T/record-$name.log")"
	send "$name" end
	finish "$name"
	grep -v '^pid ' "$T/$name.log" >"$T/truth"
	compare "$name" "$status" "$T/record-$name.log"
	rm -f "$T/$name".* "$T/record-$name".*
}

launched() {
	local name=$1
	shift
	run "$SCOPETRACE" record "${hooks[@]}" "${record_options[@]}" -o "$T/hazard.scope" -- "$@"
	mv "$T/run.out" "$T/truth"
	cp "$T/run.err" "$T/record"
	cp "$T/run.err" "$T/told"
	compare "$name" "$status" "$T/record"
}

# hazard "FUNCTION..." PROGRAM ARGUMENT...: untraced, and in `ways`; recorded with `record_options`, judged with `judged`,
# hooked under `prefix` and the names, ending untraced with status `wanted`. These hold for one hazard.
number=0
hazard() {
	local program=$TARGETS/$2 what=$2
	hooks=()
	read -ra functions <<<"$1"
	shift 2
	need "$program"
	for function in "${functions[@]}"; do
		hooks+=(-f "$prefix$function")
	done
	number=$((number + 1))
	what="$what${*:+ $*}"
	run "$program" "$@"
	untraced=$status
	mv "$T/run.out" "$T/untraced"
	say "$what"
	expect_status "$wanted" "$what, untraced"
	[[ $ways != *attached* ]] || attached "$number-attached-${what// /-}" "$program" --wait-go "$@"
	[[ $ways != *stopped* ]] || stopped "$number-stopped-${what// /-}" "$program" --wait-go "$@"
	[[ $ways != *launched* ]] || launched "$number-launched-${what// /-}" "$program" "$@"
	record_options=() judged=() prefix='' wanted=0 ways='attached launched'
}

# Last in each script.
end_hazards() {
	[ ${#failed[@]} = 0 ] || { printf 'wrong: %s\n' "${failed[@]}"; exit 1; }
	expect_nothing_left "$T/before" "$TEST"
}
