#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The errors that a newcomer meets: each with its exit code, and with its cure in the text.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/demo" "$O/targets/calls"
snapshot "$T/before"

# expect STATUS WHAT PATTERN...: the last run ended so, with each pattern on stderr.
expect() {
	local status_wanted=$1 what=$2 pattern
	shift 2
	say "$what: exit $status: $(grep -v '^usage' "$T/run.err" | head -n 1)"
	expect_status "$status_wanted" "$what"
	for pattern in "$@"; do
		expect_text "$T/run.err" "$pattern" "$what"
	done
	expect_no_capture "$what"
}

expect_no_capture() {
	[ ! -e "$T/out.scope" ] || fail "$1: a capture file was made"
}

record() { run "$SCOPETRACE" record -o "$T/out.scope" "$@"; }

start calls out "$O/targets/calls" --threads 1 --calls 1 --rate 0 --wait-go
wait_line calls '^pid [0-9]+$'
calls=${line#pid }

say "== usage"
record
expect 2 "neither a pid nor a command" '-p' '--help'
record -p nonsense
expect 2 "a pid that is no number" 'process id'
record -p "$calls" -f outer --ring-size 5000
expect 2 "a ring size that is no power of two" 'power of two'
run prlimit --as=500000000 "$SCOPETRACE" record -o "$T/out.scope" --buffer 1G -p "$calls" -f outer
expect 1 "no memory for its buffers" 'hand-off buffer' 'smaller --buffer'
run "$SCOPETRACE" recrod -p "$calls"
expect 2 "an unknown command" '--help'

say "== what to capture"
true &
gone=$!
wait $gone
record -p $gone -f outer
expect 1 "no such process" "no (such )?process|not running|does not exist" "$gone"
start sleeper out sleep 1000
record -p "${pid[sleeper]}"
expect 1 "no libscope and no -f" 'libscope' ' -f' 'scopetrace functions'
record -p "$calls" -f outre
expect 1 "a pattern that matches nothing" 'outre' 'outer'
record -p "$calls" -f '/[/'
expect 1 "a pattern that is no regular expression" '\['
record -f outer -- sh -c "$O/targets/calls"
expect 125 "a function of a program that the command starts" 'outer' 'that process alone is traced'
record -p "$calls" -f ''
expect 1 "a pattern that is empty" "pattern '':.*missing"
record -f outer -- ''
expect 127 "a command without a name" "name is empty"
run "$SCOPETRACE" report ''
expect 1 "a capture without a name" "name is empty"
run "$SCOPETRACE" record -p "$calls" -f outer -o "$T/no/such/directory/out.scope"
expect 1 "a file that cannot be made" 'directory' ' -o'
run "$SCOPETRACE" report "$T/none.scope"
expect 1 "a capture that is not there" 'none.scope'
run "$SCOPETRACE" report "$SCOPETRACE"
expect 1 "a file that is not a capture" 'cannot be read as a capture'

say "== privileges"
# As an unprivileged user: manual scopes need no root, hooks do.
chmod 755 "$T"
mkdir -m 777 "$T/user"
install -m 755 "$SCOPETRACE" "$O/targets/demo" "$T/user/"
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
start demo out "${nobody[@]}" "$T/user/demo"
wait_line demo '^demo: pid ([0-9]+)'
demo=${BASH_REMATCH[1]}
run "${nobody[@]}" "$T/user/scopetrace" record -p "$demo" -f read_input -o "$T/user/out.scope"
expect 1 "hooking without root" 'root|sudo|CAP_BPF' 'sudo|as root|CAP_PERFMON'
[ ! -e "$T/user/out.scope" ] || fail "hooking without root made a file"
run "${nobody[@]}" "$T/user/scopetrace" record -p "$demo" --duration 300ms -o "$T/user/out.scope"
expect 0 "manual scopes without root" 'manual scopes'
run "${nobody[@]}" "$T/user/scopetrace" export "$T/user/out.scope" -t csv
expect_text "$T/run.out" ',manual,frame,' "manual scopes without root"
run "${nobody[@]}" "$T/user/scopetrace" record -p "$calls" -o "$T/user/other.scope"
expect 1 "another user's process without root" 'permi|privilege|root|allowed'
run setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$SCOPETRACE" record -p "$calls" -o "$T/out.scope"
expect 1 "root without a right" 'root without CAP_SYS_PTRACE'

say "== the machine"
# A namespace of its own, in which the kernel's type information is hidden.
run unshare --mount sh -c 'mount -t tmpfs none /sys/kernel/btf && exec "$@"' sh \
	"$SCOPETRACE" record -p "$calls" -f outer -o "$T/out.scope"
expect 1 "no BTF" 'BTF' 'CONFIG_DEBUG_INFO_BTF|kernel'
# A libbpf that says it is 1.1, as Debian 12 has it.
if ldd "$SCOPETRACE" | grep -q libbpf; then
	printf 'unsigned libbpf_major_version(void) { return 1; }\nunsigned libbpf_minor_version(void) { return 1; }\n' |
		"${CC:-cc}" -shared -fPIC -x c - -o "$T/old_libbpf.so" || fail "no C compiler"
	run env LD_PRELOAD="$T/old_libbpf.so" "$SCOPETRACE" record -p "$calls" -f outer -o "$T/out.scope"
	expect 1 "libbpf too old" 'libbpf' '1\.3' 'backports|make deps|upgrade|install'
fi

say "== a program that hooking could kill"
cat >"$T/thrower.cpp" <<'END'
#include <cstdio>
#include <unistd.h>
extern "C" __attribute__((noinline)) void hooked(int number) { asm volatile("" : : "r"(number)); }
int main()
{
	try { throw 1; } catch (int number) { hooked(number); }
	std::printf("pid %d\n", getpid());
	std::fflush(stdout);
	while (std::getchar() != EOF) hooked(2);
}
END
"${CXX:-c++}" -O1 "$T/thrower.cpp" -o "$T/thrower" || fail "no C++ compiler"
start thrower out "$T/thrower"
wait_line thrower '^pid [0-9]+$'
thrower=${line#pid }
record -p "$thrower" -f hooked --returns=uretprobe
expect 1 "a C++ program" 'kill' 'exception|libstdc\+\+|libgcc' '--force'
record -p "$thrower" -f hooked --returns=uretprobe --force --duration 200ms
expect_status 0 "--force"
expect_text "$T/run.err" 'armed 1 of 1' "--force"

say "== functions that are not hooked, and calls too deep"
# Whoever gets the file sees that nothing is known of their calls: neither of one that the kernel takes no probe on, nor
# of one whose returns cannot be told.
if [ "$(uname -m)" = x86_64 ]; then
	cat >"$T/locked.c" <<-'END'
		int counter;
		__attribute__((naked)) void locked(void) { __asm__("lock incl counter(%rip)\n\tret"); }
		__attribute__((naked)) void leaves(void) { __asm__("nop\n\t.byte 6\n\tret"); }
		__attribute__((noinline)) void plain(void) { __asm__ volatile("nop"); }
		__attribute__((noinline)) void idle(void) { __asm__ volatile("nop; nop"); }
		int main(int argc, char **argv)
		{
			(void)argv;
			for (int i = 0; i < 7; i++) { locked(); plain(); }
			if (argc > 9) { idle(); leaves(); }
			return 0;
		}
	END
	"${CC:-cc}" -O1 -fcf-protection=none "$T/locked.c" -o "$T/locked" || fail "no C compiler"
	run "$SCOPETRACE" record -f locked -f leaves -f plain -f idle --returns=instruction -o "$T/locked.scope" -- "$T/locked"
	expect_status 0 "a refused probe"
	expect_text "$T/run.err" 'armed 2 of 4' "a refused probe"
	run "$SCOPETRACE" report "$T/locked.scope"
	expect_text "$T/run.out" '^Not hooked: locked: the kernel takes no probe there$' "a refused probe"
	expect_text "$T/run.out" '^Not hooked: leaves: where it returns cannot be told$' "returns that cannot be told"
	expect_text "$T/run.out" '^idle +hooked +0 ' "a function that was not called"
	! grep -E '^(locked|leaves) ' "$T/run.out" || fail "a function that is not hooked has a row"
	run "$SCOPETRACE" report "$T/locked.scope" --json
	expect_text "$T/run.out" '"name":"locked","module":"locked","reason":"the kernel' "a refused probe"
	mv "$T/run.out" "$T/locked.json"
	python3 "$HERE/read_capture.py" "$T/locked.scope" --report "$T/locked.json" >"$T/locked.out" ||
		fail "a refused probe: $(cat "$T/locked.out")"
	run "$SCOPETRACE" functions "$T/locked" locked plain
	expect_text "$T/run.out" '^locked .* refused +refused' "functions"
	expect_text "$T/run.err" 'left out: 1 of 2' "functions"
fi
run "$SCOPETRACE" record -f rec --returns=uretprobe -o "$T/deep.scope" -- "$O/targets/recurse" 70
expect_status 0 "calls too deep"
expect_text "$T/run.err" 'warning: 6 calls were nested too deep.*--returns=instruction' "calls too deep"
run "$SCOPETRACE" report "$T/deep.scope"
expect_text "$T/run.out" '^Too deep, so not in the table: rec 6 ' "calls too deep"

for name in calls sleeper demo thrower; do
	kill -TERM "${pid[$name]}"
	finish $name
done
expect_nothing_left "$T/before" "errors"
