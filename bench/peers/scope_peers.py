#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
A manual scope beside the packaged recorders of other people: scope_peers.py --build DIR [--rounds N].

The same loop (scope_loop.c) under each: nothing; libscope recorded by `scopetrace record`, and not recorded;
LTTng-UST recorded (two events, a user-space session of its own, buffers large enough to lose nothing) and not; USDT
probes recorded by bpftrace (two traps) and not; uftrace (a function's entry and exit). All are set up first and
then run in turn, a burst each, round after round. A JSON line per figure: ns of CPU time of one scope, median over
the rounds, with the empty loop's taken away round by round; and its ratio to ours. A recorder that is not
installed or cannot run here is told as skipped.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 20


class Skip(Exception):
    pass


def print_line(**members):
    print(json.dumps({"bench": "scope_peers", **members}), flush=True)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip("not installed")


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise Skip(f"{what} did not come")
        time.sleep(0.01)


class Program:
    """One process of the loop, and what records it."""

    def __init__(self, name, command, env=None, cwd=None):
        if not os.path.exists(command[-1] if len(command) > 2 else command[0]):
            raise Skip("not installed")
        self.name = name
        self.samples = []
        self.others = []
        self.after = []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}, cwd=cwd)
        self.pid = int(self.process.stdout.readline() or 0)
        if not self.pid:
            raise Skip("it did not start")

    def burst(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        for call in self.after:
            call()
        for other in self.others:
            other.send_signal(signal.SIGINT)
            other.wait()


def empty(build, _work):
    return Program("empty", [f"{build}/bench/peers/scope_empty"])


def ours_off(build, _work):
    return Program("libscope, not recorded", [f"{build}/bench/peers/scope_libscope"])


def ours(build, work):
    # As for the peers: room for a whole burst, so that nothing is lost.
    program = Program("libscope", [f"{build}/bench/peers/scope_libscope"], {"SCOPE_SLOTS": "131072"})
    record = subprocess.Popen([f"{build}/scopetrace", "record", "-p", str(program.pid), "-o", f"{work}/ours.scope",
                               "--ready-fd", "1", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    program.others.append(record)
    if record.stdout.readline() != "ready\n":
        raise Skip("scopetrace record failed")
    program.after.append(lambda: finish_ours(program, record))
    return program


def finish_ours(program, record):
    account = json.loads(record.stdout.read())
    program.lost = account["segment_lost"]
    program.events = account["segment_delivered"]


def lttng_off(build, _work):
    return Program("LTTng-UST, not recorded", [f"{build}/bench/peers/scope_lttng"])


def lttng(build, work):
    need("lttng", "lttng-sessiond")
    if not os.path.exists(f"{build}/bench/peers/scope_lttng"):
        raise Skip("not installed")
    home = f"{work}/lttng"
    os.makedirs(home)
    env = {"LTTNG_HOME": home, "HOME": home, "LTTNG_RUNDIR": home + "/run"}
    daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel", "--quiet"], env={**os.environ, **env},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def command(*words):
        return subprocess.run(["lttng", "--no-sessiond", *words], env={**os.environ, **env}, capture_output=True, text=True)

    try:
        wait_until(lambda: command("list").returncode == 0, "lttng-sessiond")
        for words in (["create", "bench", f"--output={work}/lttng-out"],
                      ["enable-channel", "--userspace", "--subbuf-size=4M", "--num-subbuf=8", "wide"],
                      ["enable-event", "--userspace", "--channel=wide", "scopetrace_bench:*"]):
            if command(*words).returncode != 0:
                raise Skip("lttng " + words[0] + " failed")
        program = Program("LTTng-UST", [f"{build}/bench/peers/scope_lttng"], {**env, "LTTNG_UST_REGISTER_TIMEOUT": "5000"})
        # Only this one: root's daemon is everybody's, and the program that is not recorded registers with it too.
        for words in (["track", "--userspace", f"--pid={program.pid}"], ["start"]):
            if command(*words).returncode != 0:
                raise Skip("lttng " + words[0] + " failed")
    except Skip:
        daemon.terminate()
        daemon.wait()
        raise

    def finish():
        said = command("stop")
        program.lost = 1 if "discarded" in said.stdout + said.stderr else 0
        command("destroy", "bench")
        daemon.terminate()
        daemon.wait()
        program.bytes = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(f"{work}/lttng-out") for f in fs)

    program.after.append(finish)
    return program


def usdt_off(build, _work):
    return Program("USDT, not recorded", [f"{build}/bench/peers/scope_usdt"])


def usdt(build, work):
    need("bpftrace")
    need_root()
    path = f"{build}/bench/peers/scope_usdt"
    if not os.path.exists(path):
        raise Skip("not installed")
    program = Program("USDT with bpftrace", [path, "trapped"])
    script = (f'usdt:{path}:scopetrace_bench:scope_begin {{ printf("%d %lu b %s\\n", tid, nsecs, str(arg0)); }} '
              f'usdt:{path}:scopetrace_bench:scope_end {{ printf("%d %lu e\\n", tid, nsecs); }}'
              'BEGIN { printf("armed\\n"); }')
    output = open(f"{work}/usdt.txt", "w")
    tracer = subprocess.Popen(["bpftrace", "-p", str(program.pid), "-e", script], stdout=output, stderr=subprocess.DEVNULL)
    program.others.append(tracer)
    wait_until(lambda: "armed" in open(f"{work}/usdt.txt").read(), "bpftrace")
    return program


def uftrace(build, work):
    need("uftrace")
    path = f"{build}/bench/peers/scope_uftrace"
    return Program("uftrace", ["uftrace", "record", "--no-libcall", "-b", "16m", "-d", f"{work}/uftrace", path])


def figure(program, baseline, reference):
    own = [value - empty for value, empty in zip(program.samples, baseline.samples)]
    ratio = statistics.median(a / b for a, b in zip(own, reference)) if reference else None
    members = {"figure": program.name, "ns": round(statistics.median(own), 2), "min": round(min(own), 2),
               "max": round(max(own), 2)}
    if ratio is not None:
        members["to_libscope"] = round(ratio, 2)
    for name in ("events", "lost", "bytes"):
        if hasattr(program, name):
            members[name] = getattr(program, name)
    if program.name == "LTTng-UST" and ratio is not None:
        members.update(bar=5, met=ratio >= 5)
    print_line(**members)
    return own


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    programs = []
    with tempfile.TemporaryDirectory() as work:
        for begin in (empty, ours_off, ours, lttng_off, lttng, usdt_off, usdt, uftrace):
            try:
                programs.append(begin(build, work))
            except Skip as reason:
                print_line(figure=begin.__name__, skipped=str(reason))
        for number in range(options.rounds + 1):
            for program in programs:
                value = program.burst()
                if number:  # the first makes pages present
                    program.samples.append(value)
        for program in programs:
            program.end()
        names = {program.name: program for program in programs}
        recorded = names.get("libscope")
        reference = [a - b for a, b in zip(recorded.samples, names["empty"].samples)] if recorded else None
        for program in programs:
            if program.name != "empty":
                beside = program is not recorded and "not recorded" not in program.name
                figure(program, names["empty"], reference if beside else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
