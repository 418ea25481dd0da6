#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The independent checker of the call-for-call test.

It reads only what a user sees of a capture (the CSV export, the closing line of `record`, the accounting of
`report --json`) and the last line of tests/targets/calls.c, which says what the program truly did. It shares no code
with the loader and works depths and parents out for itself. Each check is reported by its number.
"""
import argparse
import csv
import json
import re
import sys
from collections import Counter, defaultdict, namedtuple

Row = namedtuple("Row", "start end pid tid depth kind name module flags")

HOOKED_CHAIN = ["outer", "middle", "inner"]
MANUAL_CHAIN = ["m_loop", "outer", "m_outer", "middle", "m_middle", "inner", "m_inner"]
MOST_CHILDREN = {"middle": 2, "inner": 3, "m_outer": 1, "m_middle": 1, "m_inner": 1}  # of one parent
WRONG_PER_LOST_HIT = 8  # a lost outer() leaves two middle() and six inner() one level too high
CSV_HEADER = "start_ns,end_ns,pid,tid,depth,kind,name,module,flags"

# What the closing line says, and the terms of the accounting that it must agree with.
CLOSING_TERMS = {
    "duplicates": r"([\d,]+) duplicate entr",
    "discarded": r"([\d,]+) entr(?:y|ies) with no return discarded",
    "orphans": r"([\d,]+) returns? with no entry dropped",
    "ring_lost": r"([\d,]+) lost in the ring",
    "too_deep": r"([\d,]+) too deep",
    "unfinished": r"([\d,]+) unfinished",
}


class Report:
    def __init__(self):
        self.failed = []

    def check(self, number, what, problems, evidence):
        """One line for a check that holds; what is wrong (the first few of it) for one that does not."""
        if not problems:
            print(f"check {number} ok: {what}: {evidence}")
            return
        self.failed.append(number)
        print(f"check {number} FAILED: {what}: {evidence}")
        for problem in problems[:5]:
            print(f"    {problem}")
        if len(problems) > 5:
            print(f"    ... and {len(problems) - 5} more")


class Capture:
    """What the tool says."""

    def __init__(self, options):
        self.rows, self.file_problems = read_csv(options.csv)
        with open(options.json) as file:
            self.json = json.load(file)
        self.accounting = self.json["accounting"]
        with open(options.status, errors="replace") as file:
            lines = [line for line in file if re.search(r"\d calls?;", line)]
        self.closing = lines[-1].strip() if lines else ""
        self.hooked = [row for row in self.rows if row.kind == "hooked"]
        self.whole = [row for row in self.hooked if not row.flags & {"unfinished", "unwound"}]
        self.count = Counter((row.kind, row.name) for row in self.rows)
        self.whole_count = Counter(row.name for row in self.whole)
        self.lanes = defaultdict(list)
        for row in self.rows:
            self.lanes[row.tid].append(row)

    def term(self, name):
        return self.accounting.get(name, 0)


class Truth:
    """What the program says that it did."""

    def __init__(self, path):
        with open(path) as file:
            last = file.read().splitlines()[-1]
        if not last.startswith("truth "):
            sys.exit(f"{path}: its last line is not the truth: {last}")
        said = json.loads(last[len("truth ") :])
        self.pid, self.tids = said["pid"], set(said["tids"])
        self.entries, self.returns, self.longest = said["entries"], said["returns"], said["longest_ns"]
        self.manual, self.raised = said.get("manual", {}), said["raised"]
        self.rate_asked, self.rate_reached = said["rate_asked"], said["rate_reached"]
        self.calls = sum(self.entries.values())
        self.abandoned = self.calls - sum(self.returns.values())
        self.chain = MANUAL_CHAIN if self.manual else HOOKED_CHAIN


def read_csv(path):
    problems, rows = [], []
    with open(path, newline="") as file:
        header = file.readline().strip()
        if header != CSV_HEADER:
            problems.append(f"the header is {header!r}")
        for fields in csv.reader(file):
            start, end, pid, tid, depth = map(int, fields[:5])
            kind, name, module, flags = fields[5:9]
            rows.append(Row(start, end, pid, tid, depth, kind, name, module, frozenset(filter(None, flags.split("|")))))
    for before, after in zip(rows, rows[1:]):
        if (before.pid, before.tid, before.start) > (after.pid, after.tid, after.start):
            problems.append(f"not sorted by pid, tid, start: {after}")
    problems += [f"ends before it starts: {row}" for row in rows if row.end < row.start]
    return rows, problems


def check_threads(report, truth, capture):
    problems = [f"a scope of another process: {row}" for row in capture.rows if row.pid != truth.pid]
    for kind in ["hooked"] + (["manual"] if truth.manual else []):
        seen = {row.tid for row in capture.rows if row.kind == kind}
        problems += [f"thread {tid} has no {kind} scope" for tid in sorted(truth.tids - seen)]
        problems += [f"thread {tid} has {kind} scopes and called nothing" for tid in sorted(seen - truth.tids)]
    report.check(1, "every thread has scopes, and no other", problems, f"{len(truth.tids)} threads")


def check_no_more_than_calls(report, truth, capture):
    problems = []
    for (kind, name), count in sorted(capture.count.items()):
        happened = truth.entries.get(name, 0) if kind == "hooked" else truth.manual.get(name, 0)
        if count > happened:
            problems.append(f"{kind} {name}: {count} scopes of {happened} calls")
    for name, count in sorted(capture.whole_count.items()):
        if count > truth.returns.get(name, 0):
            problems.append(f"{name}: {count} finished scopes, but it returned {truth.returns.get(name, 0)} times")
    report.check(2, "no function has more scopes than calls", problems, f"{len(capture.rows)} scopes")


def check_outermost(report, truth, capture):
    """By time alone: whatever of the same thread began before it must have ended before it."""
    problems = []
    level = truth.chain.index("outer")
    for rows in capture.lanes.values():
        latest_end = 0
        for row in rows:
            if row.name == "outer" and (row.depth != level or row.start < latest_end):
                problems.append(f"inside something: {row}")
            if row.name != "m_loop":
                latest_end = max(latest_end, row.end)
    report.check(3, "no outer() is inside anything", problems, f"{capture.count['hooked', 'outer']} of them")


def closing_line_problems(capture):
    if not capture.closing:
        return ["record did not end with a closing line"]
    problems = []
    for name, pattern in CLOSING_TERMS.items():
        found = re.search(pattern, capture.closing)
        if not found:
            problems.append(f"the closing line does not tell {name}: {capture.closing}")
        elif int(found[1].replace(",", "")) != capture.term(name):
            problems.append(f"{name}: {found[1]} in the closing line, {capture.term(name)} in the report")
    calls = int(re.search(r"([\d,]+) calls?;", capture.closing)[1].replace(",", ""))
    if calls != len(capture.whole):
        problems.append(f"the closing line tells {calls} calls, the file holds {len(capture.whole)}")
    return problems


def check_agreement(report, capture):
    problems = capture.file_problems + closing_line_problems(capture)
    if capture.term("in_file") != len(capture.whole):
        problems.append(f"the report tells {capture.term('in_file')} in the file, which has {len(capture.whole)}")
    reported = {(f["kind"], f["name"]): f["calls"] for f in capture.json["functions"] if f["calls"]}
    for key in sorted(set(reported) | set(capture.count)):
        if reported.get(key, 0) != capture.count[key]:
            problems.append(f"{' '.join(key)}: {reported.get(key, 0)} in the report, {capture.count[key]} in the CSV")
    for thread in capture.json["threads"]:
        rows = capture.lanes.get(thread["tid"], [])
        if thread["scopes"] != len(rows):
            problems.append(f"thread {thread['tid']}: {thread['scopes']} in the report, {len(rows)} in the CSV")
    report.check(4, "the closing line, the report and the file agree", problems, capture.closing or "no closing line")


def reported_losses(capture):
    return sum(capture.term(name) for name in ("ring_lost", "handoff_lost"))


def check_missing(report, truth, capture):
    missing = truth.calls - len(capture.whole)
    unclosed = capture.term("discarded") + capture.term("unwound")
    at_least = unclosed + capture.term("orphans") + reported_losses(capture)
    at_most = at_least + capture.term("duplicates")
    problems = []
    if not at_least <= missing <= at_most:
        problems.append(f"{missing} calls are missing, but the tool accounts for {at_least} to {at_most}")
    if capture.term("unfinished"):
        problems.append(f"{capture.term('unfinished')} unfinished, but every call had ended")
    report.check(5, "every missing call is accounted for", problems,
                 f"{missing} missing = {unclosed} unclosed + {capture.term('orphans')} orphans"
                 f" + {reported_losses(capture)} lost in rings (+ {capture.term('duplicates')} duplicates)")


def is_inside(row, parent):
    return parent is not None and parent.start <= row.start and row.end <= parent.end


def misplaced(rows, chain):
    """Rows of one thread that are not at the depth, or not in the parent, which the program gave them; and the number
    of those one level higher since the call around them was jumped out of and so is not in the file."""
    wrong, raised = [], 0
    latest, children = [None] * len(chain), [0] * len(chain)
    for row in rows:
        level = chain.index(row.name) if row.name in chain else None
        if level is None:
            wrong.append(f"not a scope of the program: {row}")
            continue
        latest[level], children[level] = row, 0
        parent = latest[level - 1] if level else None
        if level:
            children[level - 1] += 1
        if level >= 2 and row.depth == level - 1 and not is_inside(row, parent) and is_inside(row, latest[level - 2]):
            raised += 1
        elif row.depth != level:
            wrong.append(f"depth {row.depth}, not {level}: {row}")
        elif level and not is_inside(row, parent):
            wrong.append(f"outside its {chain[level - 1]}: {row}")
        elif children[level - 1] > MOST_CHILDREN.get(row.name, len(rows)):
            wrong.append(f"one too many in its {chain[level - 1]}: {row}")
    return wrong, raised


def all_misplaced(truth, capture):
    wrong, raised = [], 0
    for rows in capture.lanes.values():
        lane_wrong, lane_raised = misplaced(rows, truth.chain)
        wrong += lane_wrong
        raised += lane_raised
    return wrong, raised


def check_places(report, truth, capture, lost):
    # A call that was jumped out of is in the file, flagged unwound; where it was discarded, what it called lies higher.
    truly = 0 if capture.term("unwound") else truth.raised
    wrong, raised = all_misplaced(truth, capture)
    count, allowed = len(wrong) + abs(raised - truly), WRONG_PER_LOST_HIT * max(lost, 0)
    wrong.append(f"{raised} a level too high since the call around them was jumped out of; truly {truly}")
    scopes = sum(len(rows) for rows in capture.lanes.values())
    if allowed >= scopes:
        # So much was lost that this check could not fail; what the program counted is still held against the file.
        print(f"6: not judged: {count} of {scopes} scopes misplaced, {max(lost, 0)} calls lost")
        return
    report.check(6, "every scope at its depth and inside its parent", wrong if count > allowed else [],
                 f"{count} misplaced, {allowed} allowed for {max(lost, 0)} lost calls")


def check_loss(report, truth, capture, lost, allow_ring_loss):
    share = lost / truth.calls
    unexcused = lost - (reported_losses(capture) if allow_ring_loss else 0)
    problems = [] if unexcused < 0.01 * truth.calls else [f"{lost} of {truth.calls} calls are lost"]
    excuse = f", {reported_losses(capture)} of them in a ring made to overflow" if allow_ring_loss else ""
    report.check(7, "under one percent lost", problems, f"{100 * share:.3f} % of {truth.calls} calls{excuse}")


def check_durations(report, truth, capture):
    problems, longest = [], Counter()
    for row in capture.rows:
        name = row.name.removeprefix("m_")
        longest[name] = max(longest[name], row.end - row.start)
        if name in truth.longest and row.end - row.start > truth.longest[name]:
            problems.append(f"{row.end - row.start} ns, longer than any call ({truth.longest[name]} ns): {row}")
    evidence = ", ".join(f"{name} {longest[name]} of {truth.longest[name]} ns" for name in HOOKED_CHAIN)
    report.check(8, "no scope outlasts the longest call", problems, evidence)


def identity_problems(terms, where):
    def value(*names):
        return sum(terms.get(name, 0) for name in names)

    identities = [
        ("entries", value("entries"),
         value("not_a_call", "too_deep", "filtered", "map_full", "chain_full", "opened")),
        ("opened", value("opened"), value("completed", "discarded", "unwound", "unfinished")),
        ("returns", value("returns"), value("completed", "not_a_return", "orphans")),
        ("completed", value("completed"), value("below_minimum", "ring_lost", "handoff_lost", "expired", "in_file")),
    ]
    return [f"{where}: {name} is {left}, its parts add up to {right}" for name, left, right in identities if left != right]


def check_identity(report, truth, capture, lost):
    problems = identity_problems(capture.accounting, "in all")
    if capture.accounting.get("balanced") is not True:
        problems.append("the report does not call itself balanced")
    for function in capture.json["functions"]:
        if function["kind"] == "hooked" and "entries" in function:
            problems += identity_problems(function, function["name"])
    unseen = truth.calls - (capture.term("entries") - capture.term("duplicates"))
    if abs(unseen) > max(lost, 0):
        problems.append(f"{capture.term('entries')} entries counted of the program's {truth.calls}")
    report.check("identity", "the accounts add up, and to what the program did", problems,
                 f"{capture.term('entries')} entries of {truth.calls},"
                 f" {capture.term('returns')} returns of {truth.calls - truth.abandoned}")


def check_manual(report, truth, capture):
    """With manual scopes in the hooked functions nothing may be off by one: not a scope, not a level."""
    problems = []
    for name, happened in truth.manual.items():
        if capture.count["manual", name] != happened:
            problems.append(f"{capture.count['manual', name]} of {happened} manual {name}")
    for name, happened in truth.returns.items():
        if capture.count["hooked", name] != happened:
            problems.append(f"{capture.count['hooked', name]} of {happened} hooked {name}")
    problems += [f"flagged: {row}" for row in capture.rows if row.flags]
    problems += all_misplaced(truth, capture)[0]
    report.check("manual", "manual and hooked scopes are exact in count, nesting and depth", problems,
                 f"{sum(truth.manual.values())} manual, {truth.calls} hooked")


def spreads(capture):
    """Of each function: minimum, percentiles 1, 50, 90, 99 and 99.9, and maximum of its durations."""
    durations, spread = defaultdict(list), {}
    for row in capture.whole:
        durations[row.name].append(row.end - row.start)
    for name in HOOKED_CHAIN:
        times = sorted(durations[name])
        if times:
            spread[name] = [times[min(len(times) - 1, len(times) * share // 1000)]
                            for share in (0, 10, 500, 900, 990, 999, 1000)]
    return spread


TABLE_COLUMNS = ("shape threads asked/s reached/s calls scopes missing discarded orphans duplicates ring_lost lost%"
                 " wrong_depth").split() + [f"{name}_p50/p99/max_us" for name in HOOKED_CHAIN]


def add_table_row(path, shape, truth, capture, lost):
    """One row of the sweep's table: fields separated by tabs, a header in front of the first."""
    wrong, raised = all_misplaced(truth, capture)
    spread = spreads(capture)
    row = [shape, len(truth.tids), truth.rate_asked or "flat", f"{truth.rate_reached:.0f}", truth.calls, len(capture.whole),
           truth.calls - len(capture.whole), capture.term("discarded"), capture.term("orphans"), capture.term("duplicates"),
           capture.term("ring_lost"), f"{100 * lost / truth.calls:.3f}", len(wrong) + abs(raised - truth.raised)]
    row += ["/".join(f"{spread[name][i] / 1000:.1f}" for i in (2, 4, 6)) if name in spread else "-" for name in HOOKED_CHAIN]
    with open(path, "a") as file:
        if not file.tell():
            print(*TABLE_COLUMNS, sep="\t", file=file)
        print(*row, sep="\t", file=file)


def print_spread(capture):
    for name, p in spreads(capture).items():
        print(f"spread of {name}, ns: min {p[0]}, p1 {p[1]}, p50 {p[2]}, p90 {p[3]}, p99 {p[4]}, p99.9 {p[5]},"
              f" max {p[6]}; p99/p50 {p[4] / max(p[2], 1):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", required=True, help="export of the capture")
    parser.add_argument("--json", required=True, help="output of report --json")
    parser.add_argument("--status", required=True, help="stderr of record")
    parser.add_argument("--program", required=True, help="stdout of calls")
    parser.add_argument("--allow-ring-loss", action="store_true", help="reported ring losses may exceed one percent")
    parser.add_argument("--table", help="add a row to this file")
    parser.add_argument("--shape", default="", help="what the row is of")
    options = parser.parse_args()
    truth, capture, report = Truth(options.program), Capture(options), Report()
    lost = truth.calls - truth.abandoned - len(capture.whole)  # calls that returned and are not there

    asked = f"{truth.rate_asked}" if truth.rate_asked else "flat out"
    print(f"rate: {truth.rate_reached:.0f} calls of outer() per second and thread, asked for {asked};"
          f" {len(truth.tids)} threads, {truth.calls} calls, {truth.abandoned} of them jumped out of")
    check_threads(report, truth, capture)
    check_no_more_than_calls(report, truth, capture)
    check_outermost(report, truth, capture)
    check_agreement(report, capture)
    check_missing(report, truth, capture)
    check_places(report, truth, capture, lost)
    check_loss(report, truth, capture, lost, options.allow_ring_loss)
    check_durations(report, truth, capture)
    check_identity(report, truth, capture, lost)
    if truth.manual:
        check_manual(report, truth, capture)
    print_spread(capture)
    if options.table:
        add_table_row(options.table, options.shape, truth, capture, lost)
    if report.failed:
        print("failed checks:", *report.failed)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
