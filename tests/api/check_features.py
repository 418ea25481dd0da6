# SPDX-License-Identifier: GPL-2.0-or-later
"""check_features.py REPORT.json TRACE.txt FRAMES: what tests/targets/features truly did is what both show.

TRACE.txt is `protoc --decode` of the Perfetto export. Shares no code with the loader."""

import collections
import json
import sys


def parse(lines):
    """Text protobuf as a dict of lists."""
    message = collections.defaultdict(list)
    for line in lines:
        line = line.strip()
        if line == "}":
            return message
        if line.endswith("{"):
            message[line[:-1].strip()].append(parse(lines))
        elif line:
            key, value = line.split(": ", 1)
            message[key].append(json.loads(value) if value[0] in '"-0123456789' else value)
    return message


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"not ok {what}: {found}, not {wanted}")
    print(f"ok {what}")


def check_report(report, n):
    calls = {f["name"]: f["calls"] for f in report["functions"]}
    long = "a part with a name that takes more than one record"
    expect("scopes", calls, {"frame": n, "hot": n, long: n, "dynamic": n, "serve": n})
    expect("threads", sorted(t["name"] for t in report["threads"]), ["main thread", "server"])
    (frames,) = report["frames"]
    expect("frames", [frames[k] for k in ("name", "marks", "frames", "lost")], ["main loop", n + 1, n, 0])
    worst = [w["duration_ns"] for w in frames["worst"]]
    expect("the worst frame is the longest", (worst[0], worst), (frames["max_ns"], sorted(worst, reverse=True)))
    expect("five of them", len(worst), min(n, 5))
    expect("p50 and p99 are in order", frames["min_ns"] <= frames["p50_ns"] <= frames["p99_ns"] <= frames["max_ns"], True)
    asyncs = {a["name"]: (a["calls"], a["unfinished"]) for a in report["asyncs"]}
    expect("async", asyncs, {"request": (n, 0), "never ended": (1, 1)})
    expect("no end without a begin", report["async_orphans"], 0)
    numbers = {c["name"]: (c["count"], c["min"], c["max"], c["last"], c["mean"]) for c in report["counters"]}
    mean = (n - 1) / 2
    expect("counters", numbers, {"integer": (n, 0, n - 1, n - 1, mean),
                                 "double": (n, 0, (n - 1) / 4, (n - 1) / 4, mean / 4)})
    arguments = {(a["scope"], a["name"]): (a["count"], a["min"], a["max"]) for a in report["arguments"]}
    expect("arguments", arguments, {("frame", "i"): (n, 0, n - 1), ("frame", "after"): (n, 7, 7),
                                    ("hot", "inside hot"): (n, 0, 2 * n - 2), (long, "minus"): (n, 1 - n, 0),
                                    ("", "of nothing"): (1, 1, 1)})
    expect("instants", {i["name"]: i["count"] for i in report["instants"]}, {"sent": n})
    expect("balanced", report["accounting"]["balanced"], True)


class Trace:
    def __init__(self, trace):
        self.names, self.categories, self.keys, self.tracks, self.events = {}, {}, {}, {}, []
        for packet in trace["packet"]:
            for data in packet["interned_data"]:
                for table, kind in ((self.names, "event_names"), (self.categories, "event_categories"),
                                    (self.keys, "debug_annotation_names")):
                    for entry in data[kind]:
                        table[entry["iid"][0]] = entry["name"][0]
            for track in packet["track_descriptor"]:
                self.tracks[track["uuid"][0]] = track
            for event in packet["track_event"]:
                event["time"] = packet["timestamp"][0]
                self.events.append(event)

    def name(self, event):
        return self.names[event["name_iid"][0]] if event["name_iid"] else (event["name"] or [""])[0]

    def of(self, name, kind="TYPE_SLICE_BEGIN"):
        return [e for e in self.events if self.name(e) == name and e["type"] == [kind]]

    def annotations(self, event):
        values = {}
        for a in event["debug_annotations"]:
            key = a["name"][0] if a["name"] else self.keys[a["name_iid"][0]]
            values[key] = (a["int_value"] or a["uint_value"] or a["string_value"])[0]
        return values


def check_trace(trace, n):
    frames, serves = trace.of("frame"), trace.of("serve")
    expect("arguments on their slices", [trace.annotations(e) for e in frames], [{"i": i, "after": 7} for i in range(n)])
    expect("an argument on the hot slice", [trace.annotations(e) for e in trace.of("hot")],
           [{"inside hot": 2 * i} for i in range(n)])
    expect("each flow ties a frame to the serve of its request", [e["flow_ids"] for e in frames],
           [e["flow_ids"] for e in serves])
    expect("no two frames are tied", len({e["flow_ids"][0] for e in frames}), n)
    for name, key in (("integer", "counter_value"), ("double", "double_counter_value")):
        (uuid,) = [u for u, t in trace.tracks.items() if t["counter"] and t["name"] == [name]]
        values = [e[key][0] for e in trace.events if e["track_uuid"] == [uuid]]
        expect(f"counter track {name}", values, [i / (1 if name == "integer" else 4) for i in range(n)])
    requests = trace.of("request")
    expect("async slices carry their ids", [trace.annotations(e)["id"] for e in requests], list(range(n)))
    ends = collections.Counter(e["track_uuid"][0] for e in trace.events if e["type"] == ["TYPE_SLICE_END"])
    expect("and end on a track of their own", {trace.tracks[e["track_uuid"][0]]["name"][0] for e in requests}, {"request"})
    expect("as often as they begin", sum(ends[u] for u in {e["track_uuid"][0] for e in requests}), n)
    (never,) = trace.of("never ended")
    expect("one that never ended says so", trace.annotations(never)["flags"], "unfinished")
    expect("frame marks", len(trace.of("main loop", "TYPE_INSTANT")), n + 1)
    expect("instants", len(trace.of("sent", "TYPE_INSTANT")), n)
    (lone,) = trace.of("flow", "TYPE_INSTANT")
    expect("a flow outside of any scope", len(lone["flow_ids"]), 1)


def main():
    n = int(sys.argv[3])
    with open(sys.argv[1]) as file:
        check_report(json.load(file), n)
    with open(sys.argv[2]) as file:
        check_trace(Trace(parse(iter(file))), n)


main()
