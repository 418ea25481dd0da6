#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Under bpftool-managed pinned maps: what bpftool loads is used, what it prints has names, what it writes is in force at
# once; attach is all or nothing, and detach removes everything, whatever happened before.
. "$(dirname "$0")/lib.sh"
. "$HERE/lib_pinned.sh"

target=$O/targets/calls
need "$SCOPETRACE" "$target"
functions=(-f outer -f middle -f inner)
snapshot "$T/before"

# new_program NAME CALLS RATE: waits for a line before its first call; its pid is in $traced. It paces itself by spinning, and
# leaves the processors to whoever looks at it.
new_program() {
	start "$1" out nice -n 19 "$target" --threads 2 --calls "$2" --rate "$3" --wait-go
	wait_line "$1" '^pid ([0-9]+)$'
	traced=${BASH_REMATCH[1]}
}

# No more than is needed to end it.
end_program() {
	kill -KILL "${pid[$1]}" 2>/dev/null
	wait "${pid[$1]}" 2>/dev/null
	pid[$1]=
}

attach() { # DIR PID [OPTION]...
	local dir=$1 of=$2
	shift 2
	run "$SCOPETRACE" attach --pin "$dir" -p "$of" "${functions[@]}" "$@"
}

detach() {
	run "$SCOPETRACE" detach --pin "$@"
	expect_status 0 "detach $*"
}

dump() { # DIR MAP
	"$B" -j map dump pinned "$1/maps/$2" >"$T/dump.json" || fail "bpftool cannot dump $2"
}

bytes_of() { # KEY-BYTES MAP-PATH: the value's bytes, as `bpftool map update` takes them
	# shellcheck disable=SC2086
	"$B" -j map lookup pinned "$2" key $1 | python3 -c 'import json, sys; print(*json.load(sys.stdin)["value"])'
}

say "== bpftool loads, with a ring of its own making, as the page says; attach finds it"
dir=$FS/managed
mapfile -t lines < <(sed -nE 's/^\.Dl ((mkdir|bpftool map create|bpftool prog loadall) .*)/\1/p' \
	"$HERE/../../man/scopetrace-pinned.7")
[ ${#lines[@]} = 3 ] || fail "the man page has another recipe than this test knows: ${lines[*]}"
for line in "${lines[@]}"; do
	line=${line//DIR/$dir}
	line=${line//\/sys\/fs\/bpf/$FS}
	line=${line/ scopetrace.bpf.o/ $O/scopetrace.bpf.o}
	PATH=$PATH:$(dirname "$B") bash -ec "${line/67108864/1048576}" >"$T/recipe.out" 2>&1 || fail "$line: $(cat "$T/recipe.out")"
done
new_program one 2000 500
attach "$dir" "$traced"
expect_status 0 "attach"
expect_text "$T/run.err" 'using the programs and maps' "attach"
expect_text "$T/run.err" 'armed .* with those that were loaded there' "attach"
[ "$(status_of "$dir" 'd["ring_bytes"]')" = 1048576 ] || fail "the ring is not bpftool's"
attach "$dir" "$traced"
expect_status 1 "a second attach to the same place"
expect_text "$T/run.err" 'attached .* already' "a second attach"
[ "$(status_of "$dir" 'd["state"]')" = running ] || fail "a refused attach has ended the capture"

say "== tracing without a loader; the account comes with detach"
send one go
wait_line one '^truth (.*)$'
printf '%s\n' "${BASH_REMATCH[1]}" >"$T/truth.json"
finish one
truth() { json "d['entries']['$1']" "$T/truth.json"; }
for name in outer middle inner; do
	seen=$(status_of "$dir" "[f['entries'] for f in d['functions'] if f['symbol'] == '$name'][0]")
	[ "$seen" = "$(truth "$name")" ] || fail "status: $seen calls of $name, not $(truth "$name")"
done
[ "$(status_of "$dir" 'd["processes"][0]["ended"]')" = True ] || fail "status does not see that the process has ended"

say "== bpftool prints it by field"
dump "$dir" functions
[ "$(json 'sorted(e["formatted"]["value"]["name"] for e in d)[-3:]' "$T/dump.json")" = "['inner', 'middle', 'outer']" ] ||
	fail "functions: $(head -c 300 "$T/dump.json")"
[ "$(json '[e["formatted"]["value"]["module"].rpartition("/")[2] for e in d][0]' "$T/dump.json")" = calls ] ||
	fail "functions: no module"
dump "$dir" targets
[ "$(json 'd[0]["formatted"]' "$T/dump.json")" = "{'key': $traced, 'value': {'on': 1, 'reserved': 0}}" ] ||
	fail "targets: $(head -c 300 "$T/dump.json")"
dump "$dir" settings
[ "$(json 'd[0]["formatted"]["value"]["generation"]' "$T/dump.json")" = 1 ] || fail "settings: $(head -c 300 "$T/dump.json")"
dump "$dir" counters
total=$(json 'sum(c["value"]["entries"] for e in d for c in e["formatted"]["values"])' "$T/dump.json")
[ "$total" = $(($(truth outer) + $(truth middle) + $(truth inner))) ] || fail "counters: $total entries"

detach "$dir" -o "$T/rest.scope"
run "$SCOPETRACE" report --json "$T/rest.scope"
expect_status 0 "report of what detach took"
[ "$(json 'd["accounting"]["balanced"]' "$T/run.out")" = True ] || fail "not balanced"
rm "$FS/ring"
expect_empty "$FS" "detach"

say "== two captures beside each other, with live control"
new_program left 100000000 200
left=$traced
new_program right 100000000 200
right=$traced
attach "$FS/a/first" "$left" -f caller_main
expect_status 1 "attach where the directory above is not there"
expect_text "$T/run.err" "$FS/a is not there" "attach where the directory above is not there"
expect_empty "$FS" "a refused attach"
mkdir "$FS/a"
attach "$FS/a/first" "$left" -f caller_main
expect_status 0 "attach"
expect_text "$T/run.err" 'armed .* with programs and maps of its own' "attach"
attach "$FS/b" "$right" --ring-size 4M
expect_status 0 "attach beside another"
send left go
send right go
counts() { status_of "$1" "sum(f['$2'] for f in d['functions']$3)"; }
more() { # DIR TERM [CONDITION]: the count grows from here on
	local now
	now=$(counts "$1" "$2" "${3:-}")
	wait_until "$2 of $1 grows" test_more "$now" "$@"
}
test_more() { [ "$(counts "$2" "$3" "${4:-}")" -gt "$1" ]; }
# Entries are filtered, all of them: none more is opened while many are.
none_opened() { # DIR CONDITION
	local opened filtered
	more "$1" filtered "$2"
	opened=$(counts "$1" opened "$2")
	filtered=$(counts "$1" filtered "$2")
	wait_until "calls of $1 are filtered" test_more $((filtered + 40)) "$1" filtered "$2"
	[ "$(counts "$1" opened "$2")" = "$opened" ] || fail "$1: calls are opened although they are off ($2)"
}
more "$FS/a/first" completed
more "$FS/b" completed
[ "$(status_of "$FS/b" '[p["pid"] for p in d["processes"]]')" = "[$right]" ] || fail "captures meet"

say "== what is open now: the two threads' own functions, by status and by bpftool"
both_open() { [ "$(status_of "$FS/a/first" 'sorted(c["symbol"] for c in d["open"]).count("caller_main")')" = 2 ]; }
wait_until "both threads are in caller_main" both_open
[ "$(status_of "$FS/a/first" '[f["open"] for f in d["functions"] if f["name"] == "caller_main"]')" = "[2]" ] ||
	fail "status counts other open calls than it lists"
id=$(status_of "$FS/a/first" '[f["id"] for f in d["functions"] if f["symbol"] == "caller_main"][0]')
dump "$FS/a/first" open_scopes
running=$(json "sum(v['chain_length'] > 0 and v['frames'][0]['function'] == $id and v['tgid'] == $left
	for v in (e['formatted']['value'] for e in d))" "$T/dump.json")
[ "$running" = 2 ] || fail "bpftool shows $running threads in caller_main"

flags_are() { # DIR FLAGS: of settings, by bpftool alone: bytes 16 to 19
	local value
	read -r -a value <<<"$(bytes_of "0 0 0 0" "$1/maps/settings")"
	value[16]=$2
	"$B" map update pinned "$1/maps/settings" key 0 0 0 0 value "${value[@]}" || fail "bpftool map update settings"
}
flags_are "$FS/a/first" 0x0b # PAUSED | TARGETS | HASH_ONLY
none_opened "$FS/a/first" ""
[ "$(status_of "$FS/a/first" 'd["state"]')" = paused ] || fail "status does not say paused"
more "$FS/b" completed
flags_are "$FS/a/first" 0x0a
more "$FS/a/first" completed

say "== a function off, by bpftool and by name"
id=$(status_of "$FS/a/first" '[f["id"] for f in d["functions"] if f["symbol"] == "inner"][0]')
read -r -a value <<<"$(bytes_of "$id 0 0 0" "$FS/a/first/maps/functions")"
value[0]=0x01 # FUNCTION_OFF
"$B" map update pinned "$FS/a/first/maps/functions" key "$id" 0 0 0 value "${value[@]}" || fail "bpftool map update functions"
none_opened "$FS/a/first" " if f['symbol'] == 'inner'"
more "$FS/a/first" completed " if f['symbol'] == 'outer'"
run "$SCOPETRACE" set --pin "$FS/a/first" --on inner --off middle
expect_status 0 "set"
more "$FS/a/first" completed " if f['symbol'] == 'inner'"
none_opened "$FS/a/first" " if f['symbol'] == 'middle'"
run "$SCOPETRACE" set --pin "$FS/a/first" --on 'mid*' --min 1h
expect_status 0 "set"
more "$FS/a/first" below_minimum " if f['symbol'] == 'middle'"
run "$SCOPETRACE" set --pin "$FS/a/first" --min 0 --min inner=1h
more "$FS/a/first" below_minimum " if f['symbol'] == 'inner'"
run "$SCOPETRACE" set --pin "$FS/a/first" --off nothing_like_it
expect_status 1 "set of a function that is not there"

say "== narrowed to fewer processes, and another one added"
"$B" map update pinned "$FS/b/maps/targets" key $((right & 255)) $((right >> 8 & 255)) $((right >> 16 & 255)) 0 \
	value 0 0 0 0 0 0 0 0 || fail "bpftool map update targets"
none_opened "$FS/b" ""
run "$SCOPETRACE" set --pin "$FS/b" --add-pid "$left"
expect_status 0 "set --add-pid"
more "$FS/b" completed
[ "$(status_of "$FS/b" 'sorted(p["links"] for p in d["processes"])')" = "[2, 2]" ] || fail "the added process has no links of its own"
run "$SCOPETRACE" set --pin "$FS/b" --add-pid "$left"
expect_status 1 "adding a process twice"
run "$SCOPETRACE" set --pin "$FS/b" --add-pid $$
expect_status 1 "adding a process that runs nothing of it"
run "$SCOPETRACE" set --pin "$FS/b" --remove-pid "$left"
expect_status 0 "set --remove-pid"
[ "$(status_of "$FS/b" 'sum(p["links"] for p in d["processes"])')" = 2 ] || fail "links of a process that was taken out stay"
more "$FS/a/first" completed " if f['symbol'] == 'outer'"
# The capture outlives its last process, and takes it, or another, again.
run "$SCOPETRACE" set --pin "$FS/b" --remove-pid "$right"
expect_status 0 "removing the last process"
[ "$(status_of "$FS/b" '[len(d["processes"]), sum(l.get("pid", 0) for l in d["links"])]')" = "[0, 0]" ] ||
	fail "something of a process is left: $(cat "$T/status.json")"
for again in "$left" "$right"; do
	run "$SCOPETRACE" set --pin "$FS/b" --add-pid "$again"
	expect_status 0 "adding a process after the last one has gone"
	more "$FS/b" completed
done
[ "$(status_of "$FS/b" 'sorted(p["links"] for p in d["processes"])')" = "[2, 2]" ] || fail "an added process has not its links"
detach "$FS/b"
attach "$FS/b" "$right" --returns instruction
run "$SCOPETRACE" set --pin "$FS/b" --remove-pid "$right" --add-pid "$right"
expect_status 0 "removing and adding the only process"
more "$FS/b" completed
# What is left by a hooked exit is counted as completed later, and open no more.
for _ in 1 2 3 4 5; do
	run "$SCOPETRACE" status --pin "$FS/b"
	awk '/^ +entries/ { table = 1; next } /^open now: / { exit $3 != sum } table { sum += $4 }' "$T/run.out" ||
		fail "status shows other numbers of open calls: $(cat "$T/run.out")"
done
detach "$FS/b"
more "$FS/a/first" completed " if f['symbol'] == 'outer'"
detach "$FS/a/first"
end_program right
rmdir "$FS/a"
expect_empty "$FS" "two captures"

say "== programs of another build are refused, and stay"
python3 - "$O/scopetrace.bpf.o" "$T/other.bpf.o" <<-'END'
	# The time by which duplicates are told, of `if r > 1000` in scope_entry, made another.
	import sys, struct
	data, found = bytearray(open(sys.argv[1], "rb").read()), 0
	for at in range(0, len(data) - 8, 8):
	    code, _, _, immediate = struct.unpack_from("<BBhi", data, at)
	    if code & 7 == 5 and code & 8 == 0 and immediate in (999, 1000):
	        struct.pack_into("<i", data, at + 4, immediate + 7)
	        found += 1
	assert found, "no such instruction"
	open(sys.argv[2], "wb").write(data)
END
mkdir "$FS/other"
"$B" prog loadall "$T/other.bpf.o" "$FS/other/progs" pinmaps "$FS/other/maps" || fail "loading the other build"
attach "$FS/other" "$left"
expect_status 1 "attach to another build"
expect_text "$T/run.err" 'another build' "attach to another build"
[ -e "$FS/other/progs/scope_entry" ] || fail "a refused attach has removed what bpftool loaded"
[ ! -e "$FS/other/links" ] || fail "a refused attach has left its folder"
detach "$FS/other"
expect_empty "$FS" "another build"

say "== an attach that fails leaves nothing; one that is killed is detached"
attach "$FS/none" "$left" -N '*'
[ "$status" != 0 ] || fail "attach with no function"
expect_empty "$FS" "an attach that failed"
attach "$FS/a.b" "$left"
expect_status 1 "attach to a name with a dot"
expect_text "$T/run.err" 'no dots' "attach to a name with a dot"
attach "$T/not-bpffs" "$left"
expect_status 1 "attach outside a BPF file system"
expect_text "$T/run.err" 'BPF file system' "attach outside a BPF file system"
steps=(maps/settings "links/$left-0")
[ -z "${SCOPETRACE_LONG:-}" ] || steps+=(maps/targets progs/scope_entry links/thread_exit)
for step in "${steps[@]}"; do
	start half err "$SCOPETRACE" attach --pin "$FS/half" -p "$left" "${functions[@]}"
	wait_until "$step" test -e "$FS/half/$step"
	end_program half
	detach "$FS/half"
	expect_empty "$FS" "an attach killed at $step"
done

say "== content removed by hand"
parts=(maps links)
[ -z "${SCOPETRACE_LONG:-}" ] || parts+=(progs maps/settings)
for part in "${parts[@]}"; do
	attach "$FS/torn" "$left"
	expect_status 0 "attach"
	rm -r "$FS/torn/${part:?}"
	if [ "$part" = maps ]; then
		attach "$FS/torn" "$left"
		expect_status 1 "attach where a part of another capture is"
		[ -e "$FS/torn/progs/scope_entry" ] || fail "a refused attach has removed what was there"
	fi
	detach "$FS/torn"
	expect_empty "$FS" "detach without $part"
done
run "$SCOPETRACE" detach --pin "$FS/torn"
expect_status 1 "detach of nothing"

say "== where no BPF file system is mounted"
cat >"$T/unmounted.sh" <<-'END'
	umount -l /sys/fs/bpf 2>/dev/null
	"$1" attach --pin /sys/fs/bpf/own -p "$2" -f outer && "$1" status --pin /sys/fs/bpf/own && "$1" detach --pin /sys/fs/bpf/own
END
run unshare --mount --propagation private bash "$T/unmounted.sh" "$SCOPETRACE" "$left"
expect_status 0 "attach where none is mounted"
expect_text "$T/run.err" 'mounted a BPF file system' "attach where none is mounted"

end_program left
expect_nothing_left "$T/before" "pinned captures"
