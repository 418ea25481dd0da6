#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What a traced call costs under each packaged tool, side by side, and what each loses of it.

Every tool is started as a user would, attached to the same running program (bench/traced_call_target.c, which takes
the cpu time of its own calls), and stopped again; the tools take turns, and the median of the rounds is printed, one
JSON line a tool and build: ns a call, how many times the floor (empty uprobe_multi programs at entry and return), and of
the calls how many events are in the tool's own output. uftrace cannot attach: its program is built with -pg and runs
under it. A tool that is not installed is skipped, and says so. Needs root; tracefs is mounted for this script alone.

    traced_call.py --build DIR [--rounds N] [--tools NAME,...]
"""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

FUNCTION = "traced_function"
BUILDS = {"plain": ("traced_call_target", 5000), "nop5": ("traced_call_target.nop5", 50000)}
PROBED_NS = 200  # a call that takes longer has a probe in it
PATIENCE = 30
SETTLE = 0.5
WARM_UP = 1000 # calls before those that are measured
TRACEFS = "/sys/kernel/tracing"


class Subject:
    def __init__(self, command, where=None):
        self.path = command[-1]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=where)
        self.pid = self.process.pid

    def run(self, calls):
        """Cpu time of a call, in ns."""
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) / calls

    def wait_for_probe(self):
        """Calls the function, 20 times in a row, until it is slow; then gives the tool time for its second probe."""
        slow, deadline = 0, time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            slow = slow + 1 if self.run(20) > PROBED_NS else 0
            if slow == 3:
                time.sleep(SETTLE)
                return
            time.sleep(0.01)
        raise RuntimeError("the tool does not arm its probes")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Tool:
    """A tool that attaches. command() starts it, events() counts what its output holds once it has ended."""

    needs = ()

    def __init__(self, where, build):
        self.where, self.build = where, build

    def path(self, name):
        return os.path.join(self.where, name)

    def missing(self):
        return [program for program in self.needs if not shutil.which(program)]

    def prepare(self, subject):
        pass

    def clean(self, subject):
        pass

    def begin(self, subject):
        with open(self.path("out"), "w") as out, open(self.path("err"), "w") as err:
            self.process = subprocess.Popen(self.command(subject), stdout=out, stderr=err, stdin=subprocess.PIPE, cwd=self.where)

    def stop(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        self.stop()
        self.process.stdin.close()
        self.process.wait(PATIENCE)

    def text(self, name):
        with open(self.path(name), errors="replace") as file:
            return file.read()


class Floor(Tool):
    def command(self, subject):
        return [os.path.join(self.build, "bench/traced_call"), "floor", str(subject.pid), subject.path]

    def stop(self):
        pass

    def events(self):
        return None


class Scopetrace(Tool):
    def command(self, subject):
        return [os.path.join(self.build, "scopetrace"), "record", "-p", str(subject.pid), "-f", FUNCTION,
                "-o", self.path("calls.scope")]

    def events(self):
        return int(re.search(r"([\d,]+) calls;", self.text("err"))[1].replace(",", ""))


class BpftracePrintf(Tool):
    needs = ("bpftrace",)
    action = 'printf("%d %llu %llu\\n", tid, @start[tid], nsecs);'

    def command(self, subject):
        return ["bpftrace", "-p", str(subject.pid), "-e",
                f"uprobe:{subject.path}:{FUNCTION} {{ @start[tid] = nsecs; }} uretprobe:{subject.path}:{FUNCTION}"
                f" /@start[tid]/ {{ {self.action} delete(@start[tid]); }} END {{ clear(@start); }}"]

    def events(self):
        return len(re.findall(r"^\d+ \d+ \d+$", self.text("out"), re.M))


class BpftraceHistogram(BpftracePrintf):
    action = "@calls = hist(nsecs - @start[tid]); @n = count();"

    def events(self):
        return int(re.search(r"@n: (\d+)", self.text("out"))[1])


class Funclatency(Tool):
    needs = ("funclatency",)

    def command(self, subject):
        return ["funclatency", "-p", str(subject.pid), f":{FUNCTION}"]

    def events(self):
        return sum(map(int, re.findall(r"^ *\d+ -> \d+ +: (\d+)", self.text("out"), re.M)))


class PerfRecord(Tool):
    needs = ("perf",)
    group = "scopetrace_bench"

    def perf(self, *arguments):
        return subprocess.run(["perf", *arguments], cwd=self.where, capture_output=True, text=True)

    def prepare(self, subject):
        for event in (f"{self.group}:enter={FUNCTION}", f"{self.group}:leave={FUNCTION}%return"):
            added = self.perf("probe", "-x", subject.path, "--add", event)
            if added.returncode:
                raise RuntimeError(added.stderr.strip())

    def clean(self, subject):
        self.perf("probe", "--del", f"{self.group}:*")

    def command(self, subject):
        return ["perf", "record", "-q", "-e", f"{self.group}:*", "-p", str(subject.pid), "-o", self.path("perf.data")]

    def events(self):
        return self.perf("script", "-i", self.path("perf.data"), "-F", "event").stdout.count(f"{self.group}:leave")


TOOLS = {"floor": Floor, "scopetrace": Scopetrace, "bpftrace-printf": BpftracePrintf, "bpftrace-histogram": BpftraceHistogram,
         "perf-record": PerfRecord, "funclatency": Funclatency}


def measure(tool, subject, calls):
    """ns a call, events in the tool's output, and how many of the calls these lack."""
    tool.begin(subject)
    try:
        subject.wait_for_probe()
        subject.run(WARM_UP)
        ns = subject.run(calls)
    finally:
        tool.end()
    events = tool.events()
    if events is None:
        return ns, None, None
    return ns, events, max(0, WARM_UP + calls - events)  # the few calls before these are in its favour


def uftrace_round(where, build, calls):
    data = os.path.join(where, "uftrace.data")
    subject = Subject(["uftrace", "record", "--no-pager", "-d", data, os.path.join(build, "bench/traced_call_target.pg")], where)
    subject.run(WARM_UP)
    ns = subject.run(calls)
    subject.end()
    report = subprocess.run(["uftrace", "report", "--no-pager", "-d", data, "-f", "call"], capture_output=True, text=True).stdout
    found = re.search(rf"^ *(\d+) +{FUNCTION}$", report, re.M)
    shutil.rmtree(data, ignore_errors=True)
    events = int(found[1]) if found else 0
    return ns, events, max(0, WARM_UP + calls - events)


def print_line(**fields):
    print(json.dumps({"bench": "traced_call_peers", **fields}), flush=True)


def run_build(name, names, build, rounds, where):
    program, calls = BUILDS[name]
    subject = Subject([os.path.join(build, "bench", program)])
    tools = {tool: TOOLS[tool](where, build) for tool in names}
    samples = {tool: [] for tool in names}
    for tool in list(tools):
        if tools[tool].missing():
            print_line(build=name, tool=tool, skipped="not installed")
            del tools[tool]
    try:
        for _ in range(rounds):
            for tool in list(tools):
                try:
                    tools[tool].prepare(subject)
                    samples[tool].append(measure(tools[tool], subject, calls))
                except (RuntimeError, TypeError) as failure:
                    print_line(build=name, tool=tool, skipped=f"{failure}: {tools[tool].text('err').strip()[:300]}")
                    del tools[tool]
                finally:
                    TOOLS[tool].clean(tools.get(tool) or TOOLS[tool](where, build), subject)
    finally:
        subject.end()
    floor = statistics.median(ns for ns, _, _ in samples["floor"])
    ours = statistics.median(ns for ns, _, _ in samples["scopetrace"])
    for tool in tools:
        ns = statistics.median(sample[0] for sample in samples[tool])
        line = dict(build=name, tool=tool, rounds=rounds, calls=calls, ns=round(ns), over_floor=round(ns / floor, 3),
                    over_scopetrace=round(ns / ours, 3))
        if samples[tool][0][1] is not None:
            lost = [sample[2] for sample in samples[tool]]
            line.update(lost_median=round(statistics.median(lost)), lost_percent=round(100 * sum(lost) / (rounds * (calls + WARM_UP)), 2))
        print_line(**line)


def run_uftrace(build, rounds, where):
    if not shutil.which("uftrace"):
        print_line(build="pg", tool="uftrace", skipped="not installed")
        return
    samples = [uftrace_round(where, build, BUILDS["nop5"][1]) for _ in range(rounds)]
    lost, calls = [sample[2] for sample in samples], BUILDS["nop5"][1]
    print_line(build="pg", tool="uftrace", rounds=rounds, calls=calls, ns=round(statistics.median(s[0] for s in samples)),
               lost_median=round(statistics.median(lost)), lost_percent=round(100 * sum(lost) / (rounds * (calls + WARM_UP)), 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tools", default=",".join(TOOLS))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("traced_call.py: hooking functions needs root")
    if "SCOPETRACE_BENCH_MOUNTED" not in os.environ:
        os.environ["SCOPETRACE_BENCH_MOUNTED"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
    if not os.path.exists(f"{TRACEFS}/uprobe_events"):
        subprocess.run(["mount", "-t", "tracefs", "nodev", TRACEFS], check=True)
    build = os.path.realpath(options.build)
    names = [name for name in TOOLS if name in options.tools.split(",") or name in ("floor", "scopetrace")]
    with tempfile.TemporaryDirectory(prefix="scopetrace-peers.") as where:
        for name in BUILDS:
            run_build(name, names, build, options.rounds, where)
        run_uftrace(build, options.rounds, where)


if __name__ == "__main__":
    main()
