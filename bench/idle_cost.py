#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a loader take of a processor while the traced program does nothing?

    bench/idle_cost.py [ROUNDS [SECONDS]]    5 and 4 by default; O names the build directory (default: build); needs root

Processor time of all threads of the loader, from /proc/PID/task/*/schedstat, while the program waits on its stdin; states
interleaved, medians; one JSON line a state. `drain` and `watch` are of a pinned capture.
"""
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("O", "build")
SCOPETRACE = f"{BUILD}/scopetrace"
CALLS = ("calls", "--threads", "1", "--calls", "1", "--wait-go", "--manual")  # has a segment
FIBERS = ("fibers", "--wait-go")  # has none
HOOKS = ("-f", "outer")
PIN = f"/sys/fs/bpf/scopetrace-idle-{os.getpid()}"


def processor_ns(pid):
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[0])
    return total


def per_cent(pid, seconds):
    """Of one core, after the pauses of the loader have grown to their full length."""
    time.sleep(1.5)
    begin, begin_ns = time.monotonic_ns(), processor_ns(pid)
    time.sleep(seconds)
    return 100 * (processor_ns(pid) - begin_ns) / (time.monotonic_ns() - begin)


def program(name, *options):
    started = subprocess.Popen(
        [f"{BUILD}/targets/{name}", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return started, started.stdout.readline().split()[1]


def loader(seconds, until, *command):
    with subprocess.Popen([SCOPETRACE, *command], stderr=subprocess.PIPE, text=True) as started:
        while until not in (line := started.stderr.readline()):
            if not line:
                raise SystemExit(f"{' '.join(command)}: ended without '{until}'")
        share = per_cent(started.pid, seconds)
        started.terminate()
        started.communicate()
    return share


def recorded(seconds, scratch, pid, *hooks):
    return loader(seconds, "Ctrl-C", "record", "-p", pid, "-o", f"{scratch}/idle.scope", *hooks)


def pinned(seconds, scratch, pid, watch):
    subprocess.run(
        [SCOPETRACE, "attach", "--pin", PIN, "-p", pid, *HOOKS, *(["--watch"] if watch else [])],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        if not watch:
            return loader(seconds, "draining", "drain", "--pin", PIN, "-o", f"{scratch}/drain.scope")
        status = subprocess.run([SCOPETRACE, "status", "--pin", PIN, "--json"], check=True, stdout=subprocess.PIPE)
        watcher = json.loads(status.stdout)["watcher"]["pid"]
        return per_cent(watcher, seconds)
    finally:
        subprocess.run([SCOPETRACE, "detach", "--pin", PIN], check=True, stderr=subprocess.DEVNULL)


STATES = {
    "hooks": (FIBERS, lambda *a: recorded(*a, *HOOKS)),
    "manual": (CALLS, recorded),
    "hooks+manual": (CALLS, lambda *a: recorded(*a, *HOOKS)),
    "drain": (FIBERS, lambda *a: pinned(*a, False)),
    "drain+manual": (CALLS, lambda *a: pinned(*a, False)),
    "watch": (CALLS, lambda *a: pinned(*a, True)),
}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4
    shares = {state: [] for state in STATES}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(rounds):
            for state, (words, measure) in STATES.items():
                traced, pid = program(*words)
                shares[state].append(measure(seconds, scratch, pid))
                traced.communicate("go\n")
    for state, values in shares.items():
        figures = {"per_cent": round(statistics.median(values), 2), "spread": [round(min(values), 2), round(max(values), 2)]}
        print(json.dumps({"bench": "idle_cost", "state": state, "rounds": rounds, **figures}))


main()
