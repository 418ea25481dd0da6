#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A process that maps code which makes uretprobes dangerous, while it is hooked with them: the functions are switched
# over, that is said, and no call is lost, seen twice or made up.
. "$(dirname "$0")/lib.sh"

need "$O/targets/maplater"
snapshot "$T/before"
thrower=$(ldd "$O/targets/cxxthrow" | awk '/libstdc/ { print $3 }')
[ -n "$thrower" ] || fail "no libstdc++ found"

start target out "$O/targets/maplater" --wait-go "$thrower" 500
wait_line target '^pid '
run "$SCOPETRACE" functions -p "${pid[target]}" work deep
expect_text "$T/run.out" '^work .* uretprobe$' "before"
start record err "$SCOPETRACE" record -p "${pid[target]}" -f work -f deep -o "$T/switch.scope"
wait_line record 'armed 2 of 2'
send target go
wait_line target '^mapped'
wait_line record 'has mapped code that makes uretprobes dangerous'
# work() calls nothing: nothing inside it can throw.
wait_line record 'returns by instruction: 1 of 2'
send target go
finish target
expect_status 0 "the target"
finish record
expect_status 0 "record"
run "$SCOPETRACE" report "$T/switch.scope" --json
python3 - "$T/run.out" <<'END' || fail "the account"
import json, sys
report = json.load(open(sys.argv[1]))
functions = {f["name"]: f for f in report["functions"]}
print({name: {k: f[k] for k in ("calls", "entries", "returns", "completed", "discarded", "orphans", "unfinished")} for name, f in functions.items()})
assert report["accounting"]["balanced"]
assert functions["work"]["entries"] == 1000 and functions["work"]["completed"] == 1000, "work"
# It was running at the switch: its end is seen by the new probes.
assert functions["deep"]["entries"] == 1 and functions["deep"]["completed"] == 1, "deep"
END
say "switched with a call running: 1000 of 1000 and 1 of 1"
expect_nothing_left "$T/before" "switch"
