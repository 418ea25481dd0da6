#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Holds a capture against what the traced program says that it did.

    check_account.py --json FILE --csv FILE --truth FILE [--no-truth] [--instants] [--tail NAME]... [--moving NAME]...
                     [--depth NAME=D[,D...]]... [--longest FILE] [--beyond NAME=N]... FUNCTION...

The truth is the program's last line `truth NAME=ENTRIES/RETURNS ...`, or the same as JSON. For each FUNCTION the accounts must add up, every
entry must be a call of the program, every return a completed scope, and every call that did not return a scope with the
flag `unwound` or `unfinished`: with NAME=ENTRIES/RETURNS/OPEN the latter for OPEN of them, which were running or suspended at
the end, and the former for the others. Of functions named by --beyond N calls are too deep to be followed. Functions named by --tail end in a jump to code that is not traced: that they completed at
the jump is right, whatever became of that code. Of functions named by --moving (on Go's stacks, which are copied elsewhere)
calls may be missing or without an end, and entries may be hit again. No scope may outlast the number after `longest` in
FILE. With --no-truth the program could not tell, or it cannot be told: the accounts are judged against the file alone. With
--instants there is one instant for each entry. Judged by what a user can read, without the loader's code.
"""
import argparse
import collections
import csv
import json
import re
import sys

IDENTITIES = (
    ("entries", ("not_a_call", "too_deep", "filtered", "map_full", "chain_full", "opened", "instants")),
    ("opened", ("completed", "discarded", "unwound", "unfinished")),
    ("returns", ("completed", "not_a_return", "orphans")),
)
LOSSES = ("ring_lost", "handoff_lost", "map_full", "chain_full", "orphans", "below_minimum", "filtered")


def read_truth(path):
    with open(path, errors="replace") as file:
        lines = [line for line in file if line.startswith("truth ")]
    if not lines:
        sys.exit("the program told no truth")
    if lines[-1].startswith("truth {"):
        told = json.loads(lines[-1].removeprefix("truth "))
        return {name: (f["entries"], f["returns"], None) for name, f in told.items() if isinstance(f, dict)}
    return {name: (int(entries), int(returns), int(still_open) if still_open else None)
            for name, entries, returns, still_open in re.findall(r" (\w+)=(\d+)/(\d+)(?:/(\d+))?", lines[-1])}


def identity_problems(terms, where):
    for left, parts in IDENTITIES:
        total = sum(terms.get(part, 0) for part in parts)
        if terms[left] != total:
            yield f"{where}: {left} is {terms[left]}, its parts are {total}"


def count_problems(seen, name, truth, options):
    """What the probes counted, of one function."""
    entries, returns, still_open = truth
    beyond = dict(pair.split("=") for pair in options.beyond)
    beyond = int(beyond.get(name, 0))
    calls = seen["entries"] - seen["not_a_call"]
    left = seen["unwound"] + seen["unfinished"]
    if name in options.moving:
        if seen["entries"] < entries or seen["completed"] > returns:
            yield f"{name}: {seen['entries']} entries, {seen['completed']} completed; truly {entries} and {returns}"
        return
    if name in options.tail:
        returns = min(max(returns, seen["completed"]), entries)
    if calls != entries:
        yield f"{name}: {calls} entries, truly {entries}"
    if seen["returns"] - seen["not_a_return"] != returns:
        yield f"{name}: {seen['returns']} returns, {seen['not_a_return']} of them no returns; truly {returns}"
    if seen["completed"] != returns - beyond:
        yield f"{name}: {seen['completed']} completed, truly {returns}, {beyond} of them too deep"
    if still_open is not None and (seen["unfinished"], seen["unwound"]) != (still_open, entries - returns - still_open):
        yield (f"{name}: {seen['unfinished']} unfinished and {seen['unwound']} unwound, truly {still_open} were open at the end"
               f" and {entries - returns - still_open} left")
    if left != entries - returns:
        yield f"{name}: {seen['unwound']} unwound and {seen['unfinished']} unfinished, truly {entries - returns}"
    for term in LOSSES + ("too_deep",):
        if seen.get(term, 0) != (beyond if term in ("too_deep", "orphans") else 0):
            yield f"{name}: {term} is {seen[term]}"


def instant_problems(seen, rows, name, entries):
    if not seen["entries"] == seen["instants"] == entries:
        yield f"{name}: {seen['entries']} entries, {seen['instants']} instants, truly {entries}"
    right = sum("instant" in row["flags"].split("|") and row["start_ns"] == row["end_ns"] for row in rows)
    if not right == len(rows) == entries:
        yield f"{name}: {len(rows)} scopes, {right} of them instants; truly {entries} calls"


def scope_problems(rows, seen, name, entries, depths, longest):
    """What is in the file, of one function."""
    whole_rows = [row for row in rows if row["flags"] in ("", "migrated")]
    ended_otherwise = sum(bool({"unwound", "unfinished"} & set(row["flags"].split("|"))) for row in rows)
    if len(whole_rows) != seen["completed"]:
        yield f"{name}: {len(whole_rows)} scopes without a flag, {seen['completed']} completed"
    if ended_otherwise != seen["unwound"] + seen["unfinished"]:
        yield f"{name}: {ended_otherwise} scopes with a flag, {seen['unwound']} unwound, {seen['unfinished']} unfinished"
    if not seen["discarded"] and len(rows) != entries:
        yield f"{name}: {len(rows)} scopes of {entries} calls"
    backwards = [row for row in rows if int(row["end_ns"]) < int(row["start_ns"])]
    if backwards:
        yield f"{name}: {len(backwards)} end before they start: {backwards[0]}"
    over = [row for row in whole_rows if longest and int(row["end_ns"]) - int(row["start_ns"]) > longest]
    if over:
        yield f"{name}: {len(over)} of {len(whole_rows)} outlast the longest call, {longest} ns: {over[0]}"
    wrong = [row for row in rows if depths and int(row["depth"]) not in depths]
    if wrong:
        yield f"{name}: {len(wrong)} of {len(rows)} not at depth {depths}: {wrong[0]}"


def functions_of(report, wanted):
    seen = {}
    for function in report["functions"]:
        short = re.split(r"[.:]", function["name"])[-1]  # Go's main.bottom
        if function["kind"] == "hooked" and short in wanted:
            seen[short] = function
    return seen


def problems(options, report, scopes, truth):
    seen = functions_of(report, options.functions)
    depths = {name: [int(depth) for depth in text.split(",")] for name, text in (d.split("=") for d in options.depth)}
    longest = 0
    if options.longest:
        with open(options.longest, errors="replace") as file:
            longest = int(re.search(r"^longest (\d+)$", file.read(), re.M)[1])
    if not report["accounting"]["balanced"]:
        yield "the report does not call itself balanced"
    yield from identity_problems(report["accounting"], "in all")
    for name in options.functions:
        if name not in seen:
            yield f"{name} is not in the report"
            continue
        yield from identity_problems(seen[name], name)
        if options.no_truth:
            truth[name] = (seen[name]["opened"], seen[name]["completed"], None)
        entries = truth[name][0]
        if options.instants:
            yield from instant_problems(seen[name], scopes[name], name, entries)
            continue
        yield from count_problems(seen[name], name, truth[name], options)
        if name in options.moving:
            entries = len(scopes[name])
        entries -= seen[name]["too_deep"]
        yield from scope_problems(scopes[name], seen[name], name, entries, depths.get(name), longest)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", required=True, help="output of report --json")
    parser.add_argument("--csv", required=True, help="output of export -t csv")
    parser.add_argument("--truth", required=True, help="stdout of the program")
    parser.add_argument("--no-truth", action="store_true", help="there is no such line")
    parser.add_argument("--instants", action="store_true", help="recorded with --returns=none")
    parser.add_argument("--tail", action="append", default=[], help="ends in a jump to code that is not traced")
    parser.add_argument("--longest", help="file with a line `longest NANOSECONDS`")
    parser.add_argument("--moving", action="append", default=[], help="runs on stacks that move")
    parser.add_argument("--depth", action="append", default=[], help="NAME=D[,D...]: its scopes may lie at these depths only")
    parser.add_argument("--beyond", action="append", default=[], help="NAME=N: so many of its calls are too deep")
    parser.add_argument("functions", nargs="+")
    options = parser.parse_args()
    with open(options.json) as file:
        report = json.load(file)
    scopes = collections.defaultdict(list)
    with open(options.csv, newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] == "hooked":
                scopes[re.split(r"[.:]", row["name"])[-1]].append(row)
    truth = {} if options.no_truth else read_truth(options.truth)
    found = list(problems(options, report, scopes, truth))
    total = report["accounting"]
    print(f"    {total['entries']} entries, {total['completed']} completed, {total['unwound']} unwound,"
          f" {total['unfinished']} unfinished, {total['discarded']} discarded, {total['not_a_call']} no calls")
    for problem in found[:12]:
        print("   ", problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
