#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a pinned capture cost the traced program, drained and not? The COSTS of scopetrace-pinned(7).

    bench/pinned_cost.py [ROUNDS]    5 by default; O names the build directory (default: build); needs root

Processor time (user and system) of a program with nop entries for each of its calls, in each state of the capture,
interleaved, medians; one JSON line a state. The default ring (8 MiB) is full after the first 131072 calls; a run has more.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

BUILD = os.environ.get("O", "build")
SCOPETRACE = f"{BUILD}/scopetrace"
TARGET = next(t for t in (f"{BUILD}/targets/calls.nop5", f"{BUILD}/targets/calls") if os.path.exists(t))
OUTER = 60000  # each makes 9 calls
STATES = [("untraced", False)] + [(state, near) for near in (False, True) for state in ("drained", "full", "paused")]


def run(*command):
    subprocess.run([SCOPETRACE, *command], check=True, stderr=subprocess.DEVNULL)


def measure(state, near, directory, scratch):
    program = subprocess.Popen(
        [TARGET, "--threads", "1", "--calls", str(OUTER), "--rate", "0", "--wait-go"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = program.stdout.readline().split()[1]
    drainer = None
    if state != "untraced":
        functions = [word for name in ("outer", "middle", "inner") for word in ("-f", name)]
        run("attach", "--pin", directory, "-p", pid, *functions, *(["--near"] if near else []))
    if state == "paused":
        run("set", "--pin", directory, "--pause")
    if state == "drained":
        drainer = subprocess.Popen(
            [SCOPETRACE, "drain", "--pin", directory, "-o", f"{scratch}/bench.scope"],
            stderr=subprocess.PIPE,
            text=True,
        )
        drainer.stderr.readline()
    program.stdin.write("go\n")
    program.stdin.flush()
    truth = next(line for line in program.stdout if line.startswith("truth "))
    calls = sum(json.loads(truth[6:])["entries"].values())
    _, _, usage = os.wait4(program.pid, 0)
    program.returncode = 0
    if state != "untraced":
        run("detach", "--pin", directory)
    if drainer:
        drainer.communicate()
        for name in os.listdir(scratch):
            os.unlink(f"{scratch}/{name}")
    return (usage.ru_utime + usage.ru_stime) * 1e9 / calls


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    times = {state: [] for state in STATES}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(rounds):
            for state, near in STATES:
                directory = f"/sys/fs/bpf/scopetrace-bench-{os.getpid()}"
                times[state, near].append(measure(state, near, directory, scratch))
    for (state, near), values in times.items():
        print(
            json.dumps(
                {
                    "bench": "pinned_cost",
                    "state": state,
                    "near": near,
                    "rounds": rounds,
                    "ns_per_call": round(statistics.median(values)),
                    "spread": [round(min(values)), round(max(values))],
                }
            )
        )


main()
