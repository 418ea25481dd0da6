#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What a test may leave behind: BPF links, programs and maps, bpffs mounts and pins, libscope segments, processes.

    residue.py --build DIR snapshot FILE    writes down what there is
    residue.py --build DIR compare FILE     fails, and names it, if there is anything more now; waits for the kernel,
                                            which frees some of it a little later, up to a deadline

A BPF object or segment that a program outside DIR holds open is another program's, and not counted.
"""
import argparse
import ctypes
import json
import os
import platform
import re
import struct
import sys
import time

DEADLINE_S = 10
BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}[platform.machine()]
BPF_NEXT_ID = {"program": 11, "map": 12, "link": 31}
BPF_FD_BY_ID = {"program": 13, "map": 14, "link": 30}
BPF_INFO_BY_FD = 15
NAME_OFFSET = {"program": 64, "map": 24}  # of name[16] in struct bpf_prog_info, bpf_map_info

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    result = libc.syscall(BPF_SYSCALL, command, buffer, 128)
    return result, buffer.raw


def bpf_ids(kind):
    ids, current = [], 0
    while True:
        result, answer = bpf(BPF_NEXT_ID[kind], struct.pack("=II", current, 0))
        if result < 0:
            error = ctypes.get_errno()
            if error != 2:  # ENOENT: that was the last
                raise OSError(error, f"listing the BPF {kind}s: {os.strerror(error)}")
            return ids
        current = struct.unpack_from("=I", answer, 4)[0]
        ids.append(current)


def bpf_name(kind, number):
    if kind not in NAME_OFFSET:
        return ""
    fd, _ = bpf(BPF_FD_BY_ID[kind], struct.pack("=I", number))
    if fd < 0:
        return "(gone)"
    info = ctypes.create_string_buffer(256)
    bpf(BPF_INFO_BY_FD, struct.pack("=IIQ", fd, 256, ctypes.addressof(info)))
    os.close(fd)
    start = NAME_OFFSET[kind]
    return info.raw[start : start + 16].split(b"\0")[0].decode(errors="replace")


def read(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def link_of(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def descriptors(pid):
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


def is_ours(pid, build):
    """A program of the build directory, or a copy of one in the directory of a test (lib.sh)."""
    exe = link_of(f"/proc/{pid}/exe")
    return exe.startswith(build + "/") or re.search(r"/scopetrace-[a-z_]+\.\w{6}/", exe) is not None


def foreign_holdings(build):
    """(kind, id) of every BPF object that a program which is not ours holds by a descriptor."""
    held = set()
    for pid in processes():
        if is_ours(pid, build):
            continue
        for fd in descriptors(pid):
            if not link_of(f"/proc/{pid}/fd/{fd}").startswith("anon_inode:"):
                continue
            for key, number in re.findall(r"^(prog_id|map_id|link_id):\s*(\d+)", read(f"/proc/{pid}/fdinfo/{fd}"), re.M):
                held.add(({"prog_id": "program", "map_id": "map", "link_id": "link"}[key], int(number)))
    return held


def pins_and_mounts():
    found = set()
    for line in read("/proc/self/mounts").splitlines():
        _, where, kind = line.split()[:3]
        if kind != "bpf":
            continue
        found.add(f"bpffs mounted on {where}")
        for directory, _, files in os.walk(where):
            found.update(f"pin {directory}/{file}" for file in files)
    return found


def segments_and_processes(build):
    found = set()
    for pid in processes():
        if not is_ours(pid, build):
            continue
        if read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] == ["Z"]:
            continue  # somebody's to reap, and holds nothing
        found.add(f"process {pid} {link_of(f'/proc/{pid}/exe')}")
        for fd in descriptors(pid):
            target = link_of(f"/proc/{pid}/fd/{fd}")
            if "memfd:" in target and "scope" in target:
                found.add(f"segment {target} of process {pid}")
    if os.path.isdir("/dev/shm"):
        found.update(f"segment /dev/shm/{name}" for name in os.listdir("/dev/shm") if "scope" in name)
    return found


def snapshot(build):
    found = pins_and_mounts() | segments_and_processes(build)
    foreign = foreign_holdings(build)
    for kind in BPF_NEXT_ID:
        for number in bpf_ids(kind):
            if (kind, number) not in foreign:
                found.add(f"{kind} {number} {bpf_name(kind, number)}".rstrip())
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("what", choices=["snapshot", "compare"])
    parser.add_argument("file")
    options = parser.parse_args()
    build = os.path.realpath(options.build)
    if options.what == "snapshot":
        with open(options.file, "w") as file:
            json.dump(sorted(snapshot(build)), file)
        return 0
    with open(options.file) as file:
        before = set(json.load(file))
    deadline = time.monotonic() + DEADLINE_S
    while left := snapshot(build) - before:
        if time.monotonic() > deadline:
            for item in sorted(left):
                print(f"left behind: {item}")
            return 1
        time.sleep(0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main())
