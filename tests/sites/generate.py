#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes one function for each form of forms.txt, and a table of them, as assembler.

    generate.py forms.txt > forms.s

Each function is the instruction and a jump to `capture` (run.c). What is relative to the instruction is turned to
something of ours: memory to `scratch_middle`, a direct branch to a mark of its own that `capture` can tell from going on.
"""
import re
import struct
import sys

NUMBERS = {}
for number, names in enumerate(("rax eax ax al", "rcx ecx cx cl", "rdx edx dx dl", "rbx ebx bx bl", "rsp esp sp spl",
                                "rbp ebp bp bpl", "rsi esi si sil", "rdi edi di dil")):
    NUMBERS.update({name: number for name in names.split()})
for number in range(8, 16):
    NUMBERS.update({f"r{number}{suffix}": number for suffix in ("", "d", "w", "b")})

# What no two runs have alike: only that they ran counts.
VARYING = re.compile(r"rdtsc|rdrand|rdseed|cpuid|xgetbv|rdpid|sgdt|sidt|sldt|str |smsw|lsl|fs:|gs:|pushf|popf|sysc|syse|int |%[cdefgs]s\b")


def field(code, address, target):
    """Where the displacement to `target` lies in the instruction, and its size."""
    relative = target - (address + len(code))
    for size, form in ((4, "<i"), (1, "<b")):
        try:
            wanted = struct.pack(form, relative)
        except struct.error:
            continue
        at = code.rfind(wanted)
        if at > 0:
            return at, size
    raise ValueError(f"{code.hex()}: no displacement to {target:#x}")


def body(code, address, text):
    target, goal = None, None
    if "(%rip)" in text and "#" in text:
        target, goal = int(text.split("#")[1].split()[0], 16), "scratch_middle"
    else:
        branch = re.match(r"(?:j\w+|call|loop\w*)\s+(?:0x)?([0-9a-f]+)\b", text)
        if branch:
            target, goal = int(branch[1], 16), "1f"
    if target is None:
        return ".byte " + ",".join(f"{byte:#x}" for byte in code)
    at, size = field(code, address, target)
    parts = [f"{byte:#x}" for byte in code[:at]]
    lines = [".byte " + ",".join(parts)] if parts else []
    lines.append((".long" if size == 4 else ".byte") + f" {goal} - (. + {len(code) - at})")
    if at + size < len(code):
        lines.append(".byte " + ",".join(f"{byte:#x}" for byte in code[at + size:]))
    return "\n\t".join(lines)


def masks(text):
    """Registers that must be small (an index, a count), and those that must be an address of code."""
    small = code = 0
    index = re.search(r"\([^,()]*,%(\w+)(?:,\d)?\)", text)
    if index and index[1] in NUMBERS:
        small |= 1 << NUMBERS[index[1]]
    if "rep" in text.split()[0] or text.startswith(("loop", "jrcxz", "xlat")):
        small |= 1 << (0 if text.startswith("xlat") else 1)
    through = re.match(r"(?:notrack )?(?:jmp|call)\s+\*%(\w+)", text)
    if through:
        code |= 1 << NUMBERS[through[1]]
    return small, code, int(bool(re.match(r"(?:notrack )?(?:jmp|call)\s+\*.*\(", text)))


def main():
    rows = []
    print("\t.text")
    for line in open(sys.argv[1]):
        if line.startswith("#"):
            continue
        _, code, address, text, form = line.rstrip("\n").split("\t")
        name = f"form_{len(rows):03d}"
        print(f"\t.globl {name}\n\t.type {name}, @function\n\t.balign 16\n{name}:\n\t{body(bytes.fromhex(code), int(address, 16), text)}")
        print(f"\tjmp capture\n1:\tjmp capture_branched\n\t.size {name}, . - {name}")
        rows.append((name, form, *masks(text), int(bool(VARYING.search(text)))))
    print("\t.section .rodata\n\t.globl forms\n\t.balign 8\nforms:")
    for number, (name, form, small, code, memory, varying) in enumerate(rows):
        print(f"\t.quad {name}, 9f + {64 * number}\n\t.long {small}, {code}, {memory}, {varying}")
    print("9:")
    for _, form, *_ in rows:
        quoted = form[:63].replace("\\", "\\\\").replace('"', '\\"')
        print(f'\t.ascii "{quoted}"\n\t.zero {64 - len(form[:63])}')
    print(f"\t.globl form_count\n\t.balign 4\nform_count:\n\t.long {len(rows)}\n\t.section .note.GNU-stack,\"\",@progbits")


if __name__ == "__main__":
    main()
