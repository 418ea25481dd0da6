#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a Perfetto trace of the demonstration, by its wire format alone, and checks it against the CSV export.

    check_perfetto.py TRACE CSV PACKETS     PACKETS: how many protoc found

A track for each thread, under its process; begins and ends balanced, in order of time; as many scopes as the CSV has;
both kinds nested in each other. Field numbers are those of perfetto's trace_packet.proto.
"""
import csv
import sys
from collections import Counter, defaultdict

SLICE_BEGIN, SLICE_END = 1, 2


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Field number -> list of values: an int, or bytes of what has a length."""
    found, at = defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == 0:
            value, at = varint(data, at)
        elif wire_type == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length, "a field is longer than the trace"
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
            value, at = int.from_bytes(data[at : at + length], "little"), at + length
        else:
            raise ValueError(f"wire type {wire_type} at byte {at}")
        found[number].append(value)
    return found


def first(found, number, default=None):
    return found[number][0] if found[number] else default


class Trace:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.packets = [fields(packet) for packet in fields(file.read())[1]]
        self.threads, self.processes = {}, {}  # uuid of a track -> ...
        self.names, self.categories = {}, {}
        self.events = defaultdict(list)  # uuid -> (time, type, name, category)
        for packet in self.packets:
            self.take_interned(packet)
            self.take_track(packet)
            self.take_event(packet)

    def take_interned(self, packet):
        for interned in map(fields, packet[12]):
            for number, table in ((1, self.categories), (2, self.names)):
                for entry in map(fields, interned[number]):
                    table[first(entry, 1)] = first(entry, 2).decode()

    def take_track(self, packet):
        for track in map(fields, packet[60]):
            if track[3]:
                self.processes[first(track, 1)] = first(fields(first(track, 3)), 1)
            if track[4]:
                thread = fields(first(track, 4))
                self.threads[first(track, 1)] = {
                    "pid": first(thread, 1),
                    "tid": first(thread, 2),
                    "name": first(thread, 5, b"").decode(),
                    "parent": first(track, 5),
                }

    def take_event(self, packet):
        for event in map(fields, packet[11]):
            name = event[23][0].decode() if event[23] else self.names.get(first(event, 10))
            category = event[22][0].decode() if event[22] else self.categories.get(first(event, 3))
            self.events[first(event, 11)].append((first(packet, 8), first(event, 9), name, category))


def nest(events, where, problems):
    """Plays a track's begins and ends; returns the (outer, inner) pairs, each (category, name)."""
    pairs, stack, latest = Counter(), [], 0
    for time, kind, name, category in events:
        if kind not in (SLICE_BEGIN, SLICE_END):
            continue
        if time < latest:
            problems.append(f"{where}: goes back in time at {time}")
        latest = time
        if kind == SLICE_BEGIN:
            pairs[stack[-1] if stack else None, (category, name)] += 1
            stack.append((category, name))
        elif stack:
            stack.pop()
        else:
            problems.append(f"{where}: an end without a begin at {time}")
    if stack:
        problems.append(f"{where}: never ended: {stack}")
    return pairs


def main():
    trace = Trace(sys.argv[1])
    with open(sys.argv[2], newline="") as file:
        rows = list(csv.DictReader(file))
    problems = []
    if len(trace.packets) != int(sys.argv[3]):
        problems.append(f"{len(trace.packets)} packets here, {sys.argv[3]} by protoc")

    in_csv = defaultdict(Counter)
    for row in rows:
        in_csv[int(row["tid"])][row["kind"], row["name"]] += 1
    tids = [thread["tid"] for thread in trace.threads.values()]
    for tid in in_csv:
        if tids.count(tid) != 1:
            problems.append(f"thread {tid} has {tids.count(tid)} tracks")

    nested = Counter()
    for uuid, thread in trace.threads.items():
        where = f"track {thread['name']!r} (tid {thread['tid']})"
        if trace.processes.get(thread["parent"]) != thread["pid"]:
            problems.append(f"{where} is not under the track of its process")
        pairs = nest(trace.events[uuid], where, problems)
        nested += pairs
        drawn = Counter()
        for (_, inner), count in pairs.items():
            drawn[inner] += count
        for key in set(drawn) | set(in_csv[thread["tid"]]):
            if drawn[key] != in_csv[thread["tid"]][key]:
                problems.append(f"{where}: {drawn[key]} of {key}, the CSV has {in_csv[thread['tid']][key]}")
        kinds = {kind for kind, _ in drawn}
        if kinds != {"hooked", "manual"}:
            problems.append(f"{where} has {sorted(map(str, kinds))}, not both kinds")
        print(f"{where}: {sum(drawn.values())} scopes")

    names = sorted(thread["name"] for thread in trace.threads.values())
    if names != ["main", "worker 1", "worker 2", "worker 3"]:
        problems.append(f"the tracks are named {names}")
    for outer, inner in [
        (("manual", "update"), ("hooked", "read_input")),
        (("hooked", "solve_contacts"), ("manual", "relax")),
        (("hooked", "step_physics"), ("hooked", "solve_contacts")),
        (("manual", "submit"), ("hooked", "submit_draw_call")),
        (("manual", "job"), ("hooked", "integrate_particles")),
    ]:
        if not nested[outer, inner]:
            problems.append(f"no {inner} directly in {outer}")
    for problem in problems[:20]:
        print(f"wrong: {problem}")
    print(f"{len(trace.packets)} packets, {len(tids)} threads, {sum(nested.values())} scopes, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
