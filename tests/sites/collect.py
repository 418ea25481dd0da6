#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Collects the forms of first instructions that occur in the binaries of this machine.

    collect.py [FILE]... > forms.txt     default: what /usr/bin and the library folders hold

A form is a mnemonic with the kinds of its operands; each comes once, with the bytes of one instruction of it and
how many functions begin so. An endbr64 is passed over. Uses objdump and the files' symbols. forms.txt is kept
in the tree, so that the test is the same everywhere.
"""
import glob
import os
import re
import subprocess
import sys

REGISTERS = [
    (r"%[xyz]mm\d+", lambda m: "%" + m[1:4]),
    (r"%r[sb]p\b|%[es]p\b|%spl?\b", lambda m: m),
    (r"%(r[abcd]x|r[sd]i|r\d+)\b", "%r64"),
    (r"%(e[abcd]x|e[sd]i|ebp|r\d+d)\b", "%r32"),
    (r"%([abcd]x|[sd]i|bp|r\d+w)\b", "%r16"),
    (r"%([abcd][lh]|[sd]il|bpl|r\d+b)\b", "%r8"),
    (r"%k\d", "%k"),
    (r"%st\(\d\)", "%st(i)"),
]


def form_of(text):
    """The instruction without which register, which constant and which address."""
    text = re.sub(r"#.*|<[^>]*>", "", text).strip()
    text = re.sub(r"\s+", " ", text)
    mnemonic, _, operands = text.partition(" ")
    if re.fullmatch(r"(j\w+|call\w*|loop\w*) [0-9a-f]+ ?", text + " "):
        return mnemonic + " TARGET"
    operands = re.sub(r"\$0x[0-9a-f]+", "$N", operands)
    operands = re.sub(r"-?0x[0-9a-f]+\(", lambda m: ("d8(" if abs(int(m[0][:-1], 16)) < 128 else "d32("), operands)
    operands = re.sub(r"0x[0-9a-f]+", "ADDRESS", operands)
    for pattern, name in REGISTERS:
        operands = re.sub(pattern, (lambda m, n=name: n(m[0])) if callable(name) else name, operands)
    return (mnemonic + " " + operands).strip()


def functions(path):
    """(address, size) of its functions, the dynamic ones too."""
    found = {}
    for option in ("-sW", "--dyn-syms"):
        out = subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True).stdout
        for line in out.splitlines():
            part = line.split()
            if len(part) >= 8 and part[3] == "FUNC" and part[6].isdigit() and part[2] != "0":
                found[int(part[1], 16)] = int(part[2], 0)
    return found


def is_elf64(path):
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except OSError:
        return False
    return head[:5] == b"\x7fELF\x02" and head[18:20] == b"\x3e\x00"


def read(path, forms):
    entries = functions(path)
    if not entries:
        return
    process = subprocess.Popen(["objdump", "-d", "-w", path], stdout=subprocess.PIPE, text=True, errors="replace",
                               stderr=subprocess.DEVNULL)
    wanted = set(entries)
    for line in process.stdout:
        part = line.rstrip("\n").split("\t")
        if len(part) < 3 or not part[0].endswith(":"):
            continue
        address = int(part[0][:-1], 16)
        if address not in wanted:
            continue
        text, code = part[2].strip(), bytes.fromhex(part[1].replace(" ", ""))
        if text == "endbr64":
            wanted.add(address + 4)
            continue
        if "(bad)" in text:
            continue
        form = form_of(text)
        count, sample = forms.get(form, (0, None))
        forms[form] = (count + 1, sample or (code.hex(), address, re.sub(r"\s+", " ", text)))


def main():
    paths = sys.argv[1:]
    if not paths:
        for folder in ("/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/postgresql/*/bin"):
            paths += glob.glob(folder + "/*")
    forms = {}
    seen = set()
    for path in sorted(paths):
        path = os.path.realpath(path)
        if path not in seen and os.path.isfile(path) and is_elf64(path):
            seen.add(path)
            read(path, forms)
            print(len(seen), path, len(forms), file=sys.stderr)
    for form, (count, (code, address, text)) in sorted(forms.items(), key=lambda item: (-item[1][0], item[0])):
        print(f"{count}\t{code}\t{address:#x}\t{text}\t{form}")


if __name__ == "__main__":
    main()
