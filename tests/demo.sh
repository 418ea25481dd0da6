#!/bin/sh
# `make demo`: attaches to a running program by pid and function names, records two seconds, reports, exports.
# Without root the attach goes through `sudo -n`; where that is refused, the manual scopes are shown and the command for
# the rest is printed.
set -eu

O=${O:-build}
functions='-f step_physics -f solve_* -f *_particles -f render_frame -f sort_draw_keys -f submit_draw_call'
seconds=2

say() { printf '\n== %s\n' "$*"; }

# The demonstration ends by itself should we be killed.
"$O/targets/demo" 60 > "$O/demo.out" &
demo=$!
trap 'kill $demo 2>/dev/null || true; wait $demo 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
tries=100
while ! grep -q pid "$O/demo.out" 2>/dev/null; do
	tries=$((tries - 1))
	[ $tries -gt 0 ] || { echo "demo: the demonstration program did not start" >&2; exit 1; }
	sleep 0.05
done

say "a program is running: $(head -1 "$O/demo.out")"
as_root=
set -f
if [ "$(id -u)" != 0 ]; then
	if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		as_root='sudo -n'
	else
		say "not root, and sudo wants a password: its manual scopes only. For its functions too:"
		echo "   $O/targets/demo 60 & sudo $O/scopetrace record -p \$! $(printf '%s' "$functions" |
			sed "s/-f \([^ ]*\)/-f '\1'/g") --duration ${seconds}s -o demo.scope"
		functions=
	fi
fi
say "attaching for $seconds seconds: ${as_root:+$as_root }scopetrace record -p $demo ${functions:+$functions }--duration ${seconds}s -o demo.scope"
$as_root "$O/scopetrace" record -p "$demo" $functions --duration "${seconds}s" -o demo.scope
[ -z "$as_root" ] || $as_root chown "$(id -u):$(id -g)" demo.scope

say "scopetrace report demo.scope"
"$O/scopetrace" report demo.scope
"$O/scopetrace" export demo.scope -t perfetto -o demo.pftrace
say "wrote demo.scope and demo.pftrace: open demo.pftrace at https://ui.perfetto.dev (Open trace file)"
