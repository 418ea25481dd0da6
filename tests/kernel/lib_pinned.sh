# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# For the scripts pinned*.sh, sourced after lib.sh: a BPF file system of their own, and bpftool.
#
# $B is bpftool, $FS the file system, unmounted at the end whatever is pinned in it.

B=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v bpftool)
[ -n "$B" ] || skip "no bpftool"
# No dots: libbpf makes underscores of them.
FS=$(mktemp -d "${TMPDIR:-/tmp}/scopetrace-bpf-XXXXXX")
mount -t bpf none "$FS" || { rmdir "$FS"; skip "cannot mount a BPF file system"; }
end_pinned() {
	clean_up_started
	umount -l "$FS"
	rmdir "$FS"
	cd /
	rm -rf "$T"
}
# Programs first: a drainer holds the file system.
clean_up_started() {
	local name
	for name in "${!pid[@]}"; do
		[ -n "${pid[$name]}" ] || continue
		kill -KILL "${pid[$name]}" 2>/dev/null
		wait "${pid[$name]}" 2>/dev/null
	done
}
trap end_pinned EXIT

# bpf_load DIR [ARGUMENT]...: as an administrator would.
bpf_load() {
	local dir=$1
	shift
	mkdir "$dir" && "$B" prog loadall "$O/scopetrace.bpf.o" "$dir/progs" "$@" pinmaps "$dir/maps" >"$T/load.out" 2>&1 ||
		fail "bpftool prog loadall: $(cat "$T/load.out")"
}

# json PATH EXPRESSION FILE: what the Python expression over `d`, the parsed file, gives.
json() {
	python3 -c 'import json, sys; d = json.load(open(sys.argv[2])); print(eval(sys.argv[1]))' "$1" "$2"
}

# status_of DIR EXPRESSION: of `status --json`.
status_of() {
	"$SCOPETRACE" status --pin "$1" --json >"$T/status.json" 2>"$T/status.err" || fail "status: $(cat "$T/status.err")"
	json "$2" "$T/status.json"
}

# wait_until WHAT COMMAND...: again and again until it succeeds.
wait_until() {
	local what=$1 deadline=$((SECONDS + PATIENCE))
	shift
	until "$@"; do
		[ $SECONDS -lt $deadline ] || fail "$what: does not happen"
		sleep 0.02
	done
}

# wait_size FILE BYTES: it has more than that.
wait_size() { wait_until "$1 grows" eval '[ "$(stat -c %s '"'$1'"')" -gt '"$2"' ]'; }

# hold DIR: another command is just changing DIR, as who looks at its lock believes; release ends it.
hold() {
	start holder out flock "$1/links" sh -c 'echo held; read -r _'
	wait_line holder '^held$'
}
release() {
	send holder go
	finish holder
}

expect_empty() {
	local left
	left=$(find "$1" -mindepth 1 ! -name '*.debug')
	[ -z "$left" ] || fail "$2: left in the BPF file system: $left"
}
