#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Exceptions, panics and threads that end inside traced functions, however little the program shows of them; and what is
# refused. See hazards.bash.
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/hazards.bash"

cxxexc="catcher middle rethrower thrower"
say "== C++ exceptions"
at_depth=(--depth catcher=0 --depth middle=1 --depth rethrower=2 --depth "thrower=1,3")
for build in "" .clang .static .stripped; do
	judged=("${at_depth[@]}")
	hazard "$cxxexc" "cxxexc$build"
done
for build in "" .static; do
	wanted=42 ways=launched
	hazard "$cxxexc" "cxxexc$build" 40 uncaught
done
# One traced function anywhere between the throw and the catch is enough to kill.
for function in $cxxexc; do
	ways=launched
	hazard "$function" cxxexc 400
done
ways=launched
hazard "$cxxexc" cxxexc 200 deep

say "== a plain C program that loads a C++ plugin after the tracer has come"
hazard "call_twice call_back" pluginhost
[ ! -x "$TARGETS/pluginhost.nop5" ] || hazard "call_twice call_back" pluginhost.nop5

say "== exceptions out of functions that call nothing"
hazard "catcher reader" sigthrow throw
ways=launched
hazard "reader" sigthrow throw
# A second hit of the instruction that was repaired looks like a call after an exception: only its harmlessness is judged.
judged=(--no-truth) ways=launched
hazard "catcher reader" sigthrow repair
if [ "$(uname -m)" = x86_64 ]; then
	hazard "catcher hopper jumper thrower" jmpthrower
	judged=(--tail jumper) ways=launched
	hazard jumper jmpthrower
fi

say "== Rust panics"
if [ -x "$TARGETS/rustpanic" ]; then
	hazard "outer middle thrower" rustpanic
else
	say "left out: Rust, as there was no rustc at build time"
fi

say "== threads that end inside"
hazard "body guarded normal thrower leaver waiter spinner" cxxthreads
ways=launched
hazard "spinner" cxxthreads
for build in "" .nop5; do
	[ ! -x "$TARGETS/threadexit$build" ] || hazard "tw deep waiter" "threadexit$build"
done

say "== entries alone"
record_options=(--returns=none) judged=(--instants) ways=launched
hazard "$cxxexc" cxxexc 400

say "== what must be refused, and what comes of it where somebody insists"
run "$SCOPETRACE" record --returns=uretprobe -f thrower -o "$T/refused.scope" -- "$TARGETS/cxxexc" 40
say "$(head -n 1 "$T/run.err")"
expect_status 125 "uretprobes on a program that throws"
expect_text "$T/run.err" 'cxxexc.*exception' "the evidence"
expect_text "$T/run.err" '--force' "the way to insist"
[ ! -s "$T/run.out" ] || wrong "refused" "the program ran all the same"
[ ! -e "$T/refused.scope" ] || wrong "refused" "a capture was made"
# This is the hazard itself: if the program lived, these tests would prove nothing.
run "$SCOPETRACE" record --returns=uretprobe --force -f thrower -o "$T/forced.scope" -- "$TARGETS/cxxexc" 40
expect_status 134 "uretprobes on a program that throws, by force"
expect_text "$T/run.err" 'force' "the warning"

end_hazards
