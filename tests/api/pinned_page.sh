#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What scopetrace-pinned(7) says of the maps, byte for byte, is what bpf/scope_event.h has: offsets, sizes, flags, version;
# and its recipe for a function keeps the flags that it does not name.
set -u

cd "$(dirname "$0")/../.." || exit 1
page=${1:-man/scopetrace-pinned.7}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

report() { # STATUS NAME
	[ "$1" = 0 ] && { echo "ok $2"; return; }
	echo "not ok $2"
	sed 's/^/    /' "$work/log"
	failed=1
}

python3 - "$page" bpf/scope_event.h >"$work/layout.c" 2>"$work/log" <<'END_OF_PYTHON'
import re
import sys

STRUCTS = {
    "settings": "pairing_settings",
    "functions": "function_setting",
    "targets": "target_setting",
    "capture": "capture_setting",
    "counters": "function_counters",
}
ENUMS = {
    ("settings", "flags"): ("setting_flag", "SETTING_"),
    ("functions", "flags"): ("function_flag", "FUNCTION_"),
    ("functions", "returns"): ("return_mode", "RETURNS_"),
}
page, header = (open(name).read() for name in sys.argv[1:])
print("#include <linux/types.h>\n#include <stddef.h>\n#include \"bpf/scope_event.h\"")


def hold(condition):
    print(f'_Static_assert({condition}, "the page says something else");')


def enumerators(enum):
    body = re.search(rf"enum {enum} {{(.*?)}};", header, re.S)[1]
    names = set(re.findall(r"\b([A-Z][A-Z_]+) *=", re.sub(r"/\*.*?\*/", "", body, flags=re.S)))
    return names - {"RETURNS_AUTO"}  # what is asked for, and never in a map


for name, struct in STRUCTS.items():
    text, = re.findall(rf"^\.It {name}\n(.*?)^\.It (?=[a-z_]+(?: ,.*)?$)", page, re.S | re.M)
    size, = re.findall(r"entry of (\d+) bytes", text)
    hold(f"sizeof(struct {struct}) == {size}")
    covered, field = 0, None
    if name == "counters":
        for field in " ".join(re.findall(r"^\.Va (.*)$", text, re.M)).replace(",", "").split():
            hold(f"offsetof(struct {struct}, {field}) == {covered}")
            covered += 8
        assert field == "reserved"
        continue
    for line in text.splitlines():
        if item := re.fullmatch(r"\.It bytes (\d+)-(\d+) Va (\w+)", line):
            first, last, field = int(item[1]), int(item[2]), item[3]
            assert first == covered, f"{name}: bytes from {covered} on are not told"
            covered = last + 1
            hold(f"offsetof(struct {struct}, {field}) == {first}")
            hold(f"sizeof(((struct {struct} *)0)->{field}) == {covered - first}")
            if (name, field) in ENUMS:
                enum, prefix = ENUMS[name, field]
                told = set()
                ENUMS[name, field] = (enum, told)
        elif item := re.fullmatch(r"\.It (\d+) (\w+)", line):
            constant = prefix + item[2].upper()
            told.add(constant)
            hold(f"{constant} == {item[1]}")
    assert covered == int(size), f"{name}: bytes from {covered} on are not told"
for enum, told in ENUMS.values():
    assert told == enumerators(enum), f"{enum}: the page has {told}, the header {enumerators(enum)}"
version, = re.findall(r"^of these layouts: (\d+)$", page, re.M)
examples = re.findall(r"^\.Dl .*maps/settings key 0 0 0 0 value (\d+) 0 0 0  1 0 0 0 ", page, re.M)
assert len(examples) == 2
for number in (version, *examples):
    hold(f"SCOPETRACE_BPF_VERSION == {number}")
END_OF_PYTHON
report $? "the page tells every byte of the maps, and every flag"
cc -std=c11 -I. -fsyntax-only -x c "$work/layout.c" 2>"$work/log"
report $? "they are where the header has them"

# The part that makes the new value of the old one: byte 0 may have more flags than that.
recipe=$(sed -n '/^Function 2 off:/,/^\.Ed/s/^ *python3 -c .\(import json.*\).)$/\1/p' "$page")
echo '{"value": ["0x0a", "0x00", "0x7f"]}' | python3 -c "$recipe" >"$work/log" 2>&1
[ "$(cat "$work/log")" = "0x0b 0x00 0x7f" ]
report $? "a function that is switched off keeps its other flags"
exit $failed
