#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a capture by what man/scopetrace-file.5 says, and by nothing else.

    read_capture.py FILE                 what is in it, as JSON; exit 1 if it is damaged, 3 if it was cut short
    read_capture.py FILE --report JSON   compares its sums with those of `scopetrace report --json`
    read_capture.py FILE --whole         where its last whole chunk ends, and how many bytes are behind that
"""
import argparse
import bisect
import json
import struct
import sys
import zlib
from collections import Counter, defaultdict
from fractions import Fraction

LONGEST = 1048576
NAMES = ("", "header", "strings", "processes", "threads", "functions", "anchors", "hooked", "manual", "losses",
         "accounts", "segments", "footer", "span", "index")
FIRST_SIZES = {3: 24, 4: 32, 5: 24, 6: 24, 7: 40, 8: 40, 9: 32, 10: 152, 11: 64, 12: 120}
UNFINISHED, UNWOUND, INSTANT = 1, 2, 32
ACCOUNT = ("entries returns opened completed discarded unwound unfinished duplicates orphans too_deep not_a_call "
           "not_a_return filtered map_full chain_full below_minimum ring_lost handoff_lost instants expired").split()


class Damaged(Exception):
    pass


def need(true, what):
    if not true:
        raise Damaged(what)


def fields(layout, record):
    """The members of a record; what a shorter one lacks is zero, what a longer one has more is not looked at."""
    size = struct.calcsize("<" + layout)
    return struct.unpack("<" + layout, record[:size].ljust(size, b"\0"))


class Capture:
    def __init__(self, path):
        self.data = open(path, "rb").read()
        self.strings = [b""]
        self.processes, self.threads, self.functions, self.anchors = [], [], [], []
        self.hooked, self.manual, self.losses, self.accounts, self.segments = [], [], [], [], []
        self.chunks, self.index = [], []
        self.not_hooked = set()
        self.footer = self.span = None
        self.end = 0  # of the last whole chunk
        self.clocks = {}  # pid -> clock, as declared so far
        self.thread_clock = {}
        self.counted = Counter()

    # ---- chunks ----

    def next_chunk(self):
        """(type, payload), or None where the file ends."""
        at, rest = self.end, len(self.data) - self.end
        if rest < 16:
            need(not (rest and self.footer), "something behind the footer")
            return None
        magic, kind, flags, length, crc = struct.unpack_from("<IHHII", self.data, at)
        need(not self.footer, "something behind the footer")
        need(magic == 0x4B484353, f"no chunk at {at}")
        need(length <= LONGEST, f"a length of {length} at {at}")
        padded = (length + 7) & ~7
        if rest < 16 + padded:
            return None
        payload = self.data[at + 16:at + 16 + length]
        need(crc == zlib.crc32(self.data[at + 4:at + 12] + self.data[at + 16:at + 16 + padded]), f"checksum at {at}")
        self.end = at + 16 + padded
        need(flags in (0, 1), f"flags {flags} at {at}")
        if flags:
            need(kind not in (1, 12), "a deflated header or footer")
            (inflated,) = struct.unpack_from("<I", payload)
            need(inflated <= LONGEST, "inflated length")
            payload = zlib.decompress(payload[4:])
            need(len(payload) == inflated, "inflated length")
        self.chunks.append([at, kind, payload])
        return kind, payload

    def walk(self):
        """From chunk to chunk, without looking into them."""
        while self.next_chunk():
            if self.chunks[-1][1] == 12:
                self.footer = self.chunks[-1][2]
        return self

    def read(self):
        first = self.next_chunk()
        need(first and first[0] == 1, "no header")
        self.header(first[1])
        while True:
            chunk = self.next_chunk()
            if not chunk:
                return self
            kind, payload = chunk
            if kind == 2:
                self.take_strings(payload)
            elif kind == 14:
                self.take_index(payload)
            elif kind in self.sizes:
                self.take_records(kind, payload)
            else:
                need(self.minor > 2, f"type {kind}")

    def header(self, payload):
        need(payload[:8] == b"scopecap", "magic")
        order, major, self.minor = struct.unpack_from("<IHH", payload, 8)
        need(order == 0x01020304 and major == 1, "version")
        self.clock_snapshot = struct.unpack_from("<QQQ", payload, 16)
        lengths, fixed = struct.unpack_from("<III", payload, 40), struct.unpack_from("<I", payload, 52)[0]
        self.identity = None
        self.sizes = dict(FIRST_SIZES)
        if self.minor:
            self.identity = (payload[56:72].hex(), *struct.unpack_from("<IIQ", payload, 72))
            sizes = struct.unpack_from("<24H", payload, 88)
            self.sizes.update({kind: size for kind, size in enumerate(sizes) if size})
            self.index_entry = self.sizes.pop(14)
        else:
            fixed = 56
        at, texts = fixed, []
        for length in lengths:
            texts.append(payload[at:at + length].decode(errors="replace"))
            at += length
        need(at == len(payload), "texts of the header")
        self.host, self.kernel, self.command = texts
        self.counted[1] += 1

    # ---- records ----

    def take_strings(self, payload):
        first, count = struct.unpack_from("<II", payload)
        need(first == len(self.strings), "order of strings")
        at = 8
        for _ in range(count):
            (length,) = struct.unpack_from("<I", payload, at)
            self.strings.append(payload[at + 4:at + 4 + length])
            at += 4 + ((length + 3) & ~3)
        need(at == len(payload), "length of strings")
        self.counted[2] += count

    def take_index(self, payload):
        previous, count = struct.unpack_from("<QQ", payload)
        need(len(payload) == 16 + count * self.index_entry, "length of an index")
        entries = [fields("QQQIHHII", payload[at:at + self.index_entry])
                   for at in range(16, len(payload), self.index_entry)]
        self.index.append((self.chunks[-1][0], previous, entries))

    def take_records(self, kind, payload):
        size = self.sizes[kind]
        need(payload and len(payload) % size == 0, f"whole records of type {kind}")
        take = getattr(self, "take_" + NAMES[kind])
        for at in range(0, len(payload), size):
            take(payload[at:at + size])
            self.counted[kind] += 1

    def take_processes(self, record):
        start, pid, name, command, clock, time, parent, segment = fields("QIIIIQII", record)
        self.clocks[pid] = clock
        self.processes.append({"start": start, "pid": pid, "name": self.strings[name], "command": self.strings[command],
                               "clock": clock, "time": time, "parent": parent, "segment": segment})

    def take_threads(self, record):
        start, time, pid, tid, name, change = fields("QQIIII", record)
        need(change in (1, 2, 3), "change of a thread")
        self.threads.append((start, time, pid, tid, self.strings[name], change))

    def take_functions(self, record):
        address, number, name, module, not_hooked = fields("QIIII", record)
        need(number == len(self.functions), "order of functions")
        self.functions.append((self.strings[name], self.strings[module], address))
        if not_hooked:
            self.not_hooked.add(number)

    def take_anchors(self, record):
        self.anchors.append(fields("QQII", record))

    def take_span(self, record):
        self.span = fields("QQ", record)

    def take_hooked(self, record):
        start, end, sp, pid, tid, function, cpu, flags, start_tid, position = fields("QQQIIIHHII", record)
        need(function < len(self.functions), "a scope of no function")
        whole = None
        if self.span and position:
            f = self.span[0] // 8
            whole = f + (position - f) % 2**32
            need(self.span[0] < whole * 8 <= self.span[1], "a scope outside its span")
        self.hooked.append((start, end, pid, tid, function, flags, sp, whole))

    def take_manual(self, record):
        ticks, scope_id, value, pid, tid, name, kind, ring, flags = fields("QQQIIIBBH", record)
        if kind == 10 or (pid, tid) not in self.thread_clock:
            self.thread_clock[pid, tid] = self.clocks.get(pid, 0)
        self.manual.append((ticks, scope_id, value, pid, tid, self.strings[name], kind, ring,
                            self.thread_clock[pid, tid]))

    def take_losses(self, record):
        self.losses.append(fields("QQQIHH", record))

    def take_accounts(self, record):
        function, _, *terms = fields("II20Q", record)
        self.accounts.append((function, dict(zip(ACCOUNT, terms))))

    def take_segments(self, record):
        self.segments.append(fields("7QIIQQ", record))

    def take_footer(self, record):
        self.footer = fields("QQQ12QQ", record)
        for kind in range(12):
            need(self.footer[3 + kind] == self.counted[kind], f"the footer counts others of type {kind}")
        if self.minor:
            length, magic = struct.unpack("<II", self.data[-8:])
            need(magic == 0x444E4553 and length == 16 + len(record), "the tail of the footer")

    # ---- what it comes to ----

    def check_index(self):
        """From the end, as one would who wants no more than a few chunks."""
        there = {at: (kind, payload) for at, kind, payload in self.chunks}
        told, at = [], self.footer[15]
        while at:
            found = [index for index in self.index if index[0] == at]
            need(len(found) == 1, "an index where there is none")
            told = [entry for entry in found[0][2]] + told
            at = found[0][1]
        need([entry[0] for entry in told] == [at for at, kind, _ in self.chunks if kind not in (1, 12, 14)],
             "the index leaves chunks out")
        for offset, first, last, count, kind, _, pid, tid in told:
            need(there[offset][0] == kind, "type in the index")
            if kind == 7:
                size = self.sizes[7]
                records = [fields("QQQII", there[offset][1][at:at + size]) for at in range(0, count * size, size)]
                need(len(there[offset][1]) == count * size, "count in the index")
                need(first == min(r[0] for r in records) and last == max(max(r[0], r[1]) for r in records),
                     "times in the index")
                threads = {(r[3], r[4]) for r in records}
                need((pid, tid) == (threads.pop() if len(threads) == 1 else (0, 0)), "thread in the index")

    def to_time(self, ticks, clock):
        if clock <= 1:
            return Fraction(ticks)
        line = self.lines[clock]
        i = min(max(bisect.bisect_right(line, (ticks, float("inf"))) - 1, 0), len(line) - 2)
        (t0, n0), (t1, n1) = line[i], line[i + 1]
        return n0 + Fraction(n1 - n0, t1 - t0) * (ticks - t0)

    def manual_scopes(self):
        """(pid, tid, name, duration or None), and how many stops have no start."""
        self.lines = defaultdict(list)
        for ticks, time, clock, _ in sorted(set(self.anchors)):
            if not self.lines[clock] or ticks > self.lines[clock][-1][0]:
                self.lines[clock].append((ticks, time))
        scopes, open_scopes, orphans = [], {}, 0
        for ticks, scope_id, value, pid, tid, name, kind, _, clock in self.manual:
            if kind == 1:
                open_scopes[pid, tid, scope_id] = (name, ticks)
            elif kind == 2 and (pid, tid, scope_id) in open_scopes:
                name, start = open_scopes.pop((pid, tid, scope_id))
                scopes.append((pid, tid, name, self.to_time(ticks, clock) - self.to_time(start, clock)))
            elif kind == 2:
                orphans += 1
            elif kind == 4:
                scopes.append((pid, tid, name, self.to_time(value, clock) - self.to_time(ticks, clock)))
        for (pid, tid, _), (name, _) in open_scopes.items():
            scopes.append((pid, tid, name, None))
        return scopes, orphans

    def sums(self):
        functions, threads = {}, Counter()
        for number, (name, module, _) in enumerate(self.functions):
            if number in self.not_hooked:
                continue
            functions[name.decode(errors="replace"), module.decode(errors="replace"), "hooked"] = [0, 0, 0]
        for start, end, pid, tid, function, flags, _, _ in self.hooked:
            name, module, _ = self.functions[function]
            entry = functions[name.decode(errors="replace"), module.decode(errors="replace"), "hooked"]
            entry[0] += 1
            entry[1] += bool(flags & (UNFINISHED | UNWOUND))
            entry[2] += end - start if not flags & (UNFINISHED | UNWOUND) else 0
            threads[pid, tid] += 1
        scopes, orphans = self.manual_scopes()
        for pid, tid, name, duration in scopes:
            entry = functions.setdefault((name.decode(errors="replace"), "", "manual"), [0, 0, 0])
            entry[0] += 1
            entry[1] += duration is None
            entry[2] += duration or 0
            threads[pid, tid] += 1
        return functions, threads, orphans


def check_accounts(capture):
    in_file = Counter(scope[4] for scope in capture.hooked if not scope[5] & UNFINISHED)
    for function, a in capture.accounts:
        need(a["entries"] == a["not_a_call"] + a["too_deep"] + a["filtered"] + a["map_full"] + a["chain_full"]
             + a["opened"] + a["instants"], "entries")
        need(a["opened"] == a["completed"] + a["discarded"] + a["unwound"] + a["unfinished"], "opened")
        need(a["returns"] == a["completed"] + a["not_a_return"] + a["orphans"], "returns")
        need(a["completed"] + a["unwound"] + a["instants"] == a["below_minimum"] + a["ring_lost"] + a["handoff_lost"]
             + a["expired"] + in_file[function], "completed")
    for cursor, delivered, events, continuations, lost, written_off, holes, _, _, handoff_lost, expired in capture.segments:
        need(cursor == delivered + lost + written_off + holes and delivered == events + continuations + handoff_lost
             + expired, "segment")
    if capture.segments:
        need(sum(segment[2] for segment in capture.segments) == len(capture.manual), "manual events in the file")


def same(what, ours, theirs):
    need(ours == theirs, f"{what}: {ours} by the page, {theirs} by report")


def compare(capture, report):
    functions, threads, orphans = capture.sums()
    theirs = {(f["name"], f["module"], f["kind"]): f for f in report["functions"]}
    same("functions", sorted(functions), sorted(theirs))
    for key, (calls, unfinished, total) in functions.items():
        same(f"calls of {key}", calls, theirs[key]["calls"])
        if not unfinished:
            # Report rounds each time of a manual scope to a nanosecond.
            need(abs(total - theirs[key]["total_ns"]) <= (2 * calls if key[2] == "manual" else 0),
                 f"total of {key}: {float(total)}, {theirs[key]['total_ns']}")
    same("threads", dict(threads), {(t["pid"], t["tid"]): t["scopes"] for t in report["threads"] if t["scopes"]})
    same("not hooked", sorted(capture.functions[number][0].decode() for number in capture.not_hooked),
         sorted(f["name"] for f in report["not_hooked"]))
    for function, account in capture.accounts:
        name, module, _ = capture.functions[function]
        if function in capture.not_hooked:
            need(not account["entries"], f"{name} was not hooked, and was entered")
            continue
        entry = theirs[name.decode(), module.decode(), "hooked"]
        for term, value in account.items():
            if term in entry and term not in ("unwound", "instants", "unfinished"):
                same(f"{term} of {name}", value, entry[term])
    total = report["accounting"]
    for term in ("entries", "returns", "completed", "orphans", "ring_lost", "opened"):
        same(term, sum(account[term] for _, account in capture.accounts), total[term])
    same("delivered", sum(s[1] for s in capture.segments), total["segment_delivered"])
    same("losses", sorted(loss[:4] for loss in capture.losses),
         sorted((l["first_ns"], l["last_ns"], l["count"], l["pid"]) for l in report["losses"]))
    same("recursion_misses", capture.footer[2], total["recursion_misses"])
    need(total["balanced"], "report says it does not balance")
    return functions, orphans


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--report")
    parser.add_argument("--whole", action="store_true")
    arguments = parser.parse_args()
    try:
        capture = Capture(arguments.file)
        if arguments.whole:
            capture.walk()
            print(capture.end, len(capture.data) - capture.end, int(bool(capture.footer)))
            return 0
        capture.read()
        print(json.dumps({"host": capture.host, "command": capture.command, "identity": capture.identity,
                          "chunks": len(capture.chunks), "records": {NAMES[k]: v for k, v in capture.counted.items()},
                          "span": capture.span}))
        if not capture.footer:
            return 3
        check_accounts(capture)
        if capture.minor:
            capture.check_index()
        if arguments.report:
            functions, orphans = compare(capture, json.load(open(arguments.report)))
            print(f"{sum(f[0] for f in functions.values())} scopes of {len(functions)} names, {orphans} stops without "
                  "a start: as report has it")
    except (Damaged, struct.error, zlib.error) as damage:
        print(f"damaged: {damage}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
