"""Groups records by the function of the program that they are about, for the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tracer.metrics import MAKING
from tracer.report.axes import Axes, Sizes
from tracer.report.records import Recording

_RESUMED = re.compile(r"\.<resume at line (\d+)>$")
Record = dict[str, Any]
Group = tuple[int, int]  # (process, region)


@dataclass
class Process:
    """One file of the recording."""

    name: str
    number: int
    facts: Record
    records: list[Record]  # in order of time, but for the first, which is `facts`

    @property
    def title(self) -> str:
        return f"{self.facts.get('program') or 'python'}, pid {self.facts.get('pid', '?')} on {self.facts.get('host') or '?'}"


@dataclass
class Latency:
    """How long the runs of an entry took: their sum, and counts by upper bound."""

    seconds: float = 0.0
    counts: Counter[float] = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        self.seconds += record["seconds"]
        self.counts.update({float(bound): int(count) for bound, count in record["ranges"]})

    @property
    def count(self) -> int:
        return self.counts.total()

    @property
    def mean(self) -> float:
        return self.seconds / max(1, self.count)

    def percentile(self, share: float) -> float:
        """The time that this share of the runs did not exceed, up to the width of a range; of none, 0."""
        left = share * self.count
        for bound in sorted(self.counts):
            left -= self.counts[bound]
            if left <= 0:
                return bound
        return 0.0


@dataclass(eq=False)
class Entry:
    """A compile, with the reasons for it and the calls that its entry served."""

    process: Process
    record: Record
    part: Part
    number: int  # in its function, from 1
    failures: list[Record] = field(default_factory=list)  # why no older entry served the call that was traced
    breaks: list[Record] = field(default_factory=list)
    evicted: Record | None = None
    served: Counter[Sizes] = field(default_factory=Counter)
    latency: Latency = field(default_factory=Latency)

    @property
    def anchor(self) -> str:
        return f"{self.part.function.anchor}-e{self.number}"

    @property
    def group(self) -> Group:
        """A call is served by one of the entries of one group."""
        return self.process.number, self.record.get("region_number", 0)

    @property
    def kind(self) -> str:
        return "left to CPython" if self.record.get("left") else "graph, then a break" if self.record.get("broken") else "graph"


@dataclass(eq=False)
class Part:
    """A traced frame: that of the function itself, or that of a resume function."""

    function: Function
    line: int | None  # where it resumes
    entries: list[Entry] = field(default_factory=list)
    notes: list[tuple[Process, Record]] = field(default_factory=list)  # skips, limits and other events
    missed: dict[Group, Counter[Sizes]] = field(default_factory=dict)
    misses: list[tuple[Process, Record]] = field(default_factory=list)  # those with a record of their own

    @property
    def title(self) -> str:
        return "from its start" if self.line is None else f"from line {self.line} on"


@dataclass(eq=False)
class Function:
    """A function or module of the program, and all that was traced of it."""

    name: str  # what was compiled is named as its user does, else it is `code`
    code: str  # the qualified name of the code
    file: str
    line: int
    number: int
    parts: dict[int | None, Part] = field(default_factory=dict)
    certificates: dict[Group, tuple[Process, Record]] = field(default_factory=dict)  # the last one of each region
    seals: dict[Group, tuple[Process, Record]] = field(default_factory=dict)  # likewise
    declared: dict[Group, dict[str, str]] = field(default_factory=dict)  # see Axes

    def axes_of(self, group: Group) -> Axes:
        return Axes(self.declared.get(group, {}))

    @property
    def anchor(self) -> str:
        return f"f{self.number}"

    @property
    def entries(self) -> list[Entry]:
        return [entry for part in self.parts.values() for entry in part.entries]

    @property
    def breaks(self) -> list[Record]:
        return [record for entry in self.entries for record in entry.breaks] + [
            record for part in self.parts.values() for _, record in part.notes if record["kind"] == "break"
        ]

    @property
    def seconds(self) -> float:
        found: float = sum(entry.record["seconds"] for entry in self.entries)
        return found

    def count(self, kind: str) -> int:
        return sum(record["kind"] == kind for part in self.parts.values() for _, record in part.notes)

    @property
    def missed(self) -> int:
        return sum(counts.total() for part in self.parts.values() for counts in part.missed.values())

    @property
    def served(self) -> int:
        return sum(entry.served.total() for entry in self.entries)

    @property
    def recompiles(self) -> int:
        return sum(bool(entry.failures) for entry in self.entries)


@dataclass
class Findings:
    processes: list[Process]
    functions: list[Function]
    notes: list[str]


def gather(recording: Recording) -> Findings:
    """The findings of a recording; functions are in the order of their first record."""
    processes = []
    started = sorted(recording.processes.items(), key=lambda item: item[1][0]["t"])
    for number, (name, records) in enumerate(started):
        facts = next((record for record in records if record["kind"] == "process"), {})
        rest = sorted((record for record in records if record["kind"] != "process"), key=lambda record: record["t"])
        processes.append(Process(name, number, facts, rest))
    gatherer = _Gatherer({process.name: process for process in processes})
    for process in processes:
        gatherer.take(process)
    return Findings(processes, list(gatherer.functions.values()), recording.notes)


Waiting = dict[tuple[Any, ...], tuple[list[Record], list[Record]]]  # (part, region, thread) -> failures, breaks up to the compile


class _Gatherer:
    def __init__(self, processes: dict[str, Process]) -> None:
        self.processes = processes
        self.functions: dict[tuple[str, int, str, str], Function] = {}
        self.entries: dict[tuple[str, int], Entry] = {}
        self.names: dict[tuple[Group, str, int], str] = {}  # (region, file, line) of what was compiled -> its name
        self.owners: dict[Group, Function] = {}  # the function of a region that was compiled, and not called by such a one

    def take(self, process: Process) -> None:
        for record in process.records:
            if record.get("root"):
                frame = record["frame"]
                self.names[self.group(process, record), frame["file"], frame["line"]] = record["region"]
        waiting: Waiting = {}
        of_regions = []
        for record in process.records:
            if record["kind"] == "requests":
                self.count(process, record)
            elif record["kind"] == "latencies":
                entry = self.entry(process, record)
                if entry is not None:
                    entry.latency.add(record)
            elif record["kind"] in ("seal", "unseal"):
                of_regions.append(record)
            else:
                self.take_event(process, record, waiting)
        for (part, *_), (_, breaks) in waiting.items():
            part.notes += [(process, record) for record in breaks]
        for record in of_regions:
            owner = self.owners.get(self.group(process, record))
            if owner is not None:
                owner.seals[self.group(process, record)] = process, record

    def take_event(self, process: Process, record: Record, waiting: Waiting) -> None:
        part, group = self.part(process, record), self.group(process, record)
        key = (part, record.get("region_number"), record.get("thread"))
        failures, breaks = waiting.setdefault(key, ([], []))
        if record["kind"] == "recompile":
            failures += record.get("failures", ())
        elif record["kind"] == "break":
            breaks.append(record)
        elif record["kind"] == "miss":
            part.missed.setdefault(group, Counter())[_sizes(record.get("sizes", {}))] += 1
            part.misses.append((process, record))
        elif record["kind"] in MAKING:
            number = len(part.function.entries) + 1
            entry = Entry(process, record, part, number, failures, breaks)
            del waiting[key]
            part.entries.append(entry)
            self.entries[process.name, record.get("entry", 0)] = entry
            part.function.declared.setdefault(group, {}).update(record.get("axes", {}))
        elif record["kind"] == "certificate":
            part.function.certificates[group] = process, record
            for variant in record.get("variants", ()):
                part.function.declared.setdefault(group, {}).update(variant["axes"])
        elif record["kind"] == "evict" and (process.name, record.get("entry", 0)) in self.entries:
            self.entries[process.name, record["entry"]].evicted = record
        else:
            part.notes.append((process, record))

    def group(self, process: Process, record: Record) -> Group:
        return process.number, record.get("region_number", 0)

    def part(self, process: Process, record: Record) -> Part:
        frame = record.get("frame") or {}
        code = str(frame.get("name", "?"))
        resumed = _RESUMED.search(code)
        code, line = (code[: resumed.start()], int(resumed[1])) if resumed else (code, None)
        file, first = str(frame.get("file", "")), int(frame.get("line", 0))
        group = self.group(process, record)
        compiled = self.names.get((group, file, first))
        name = compiled or code
        key = file, first, code, name
        if key not in self.functions:
            self.functions[key] = Function(name, code, file, first, len(self.functions) + 1)
        function = self.functions[key]
        if compiled is not None:
            self.owners.setdefault(group, function)
        return function.parts.setdefault(line, Part(function, line))

    def count(self, process: Process, record: Record) -> None:
        """Adds counts of requests to the entry that served them."""
        if not record.get("entry"):
            counts = self.part(process, record).missed.setdefault(self.group(process, record), Counter())
            for point in record.get("points", ()):
                counts[_sizes(point["sizes"])] += point["count"]
            return
        entry = self.entry(process, record)
        if entry is not None:
            for point in record.get("points", ()):
                entry.served[_sizes(point["sizes"])] += point["count"]

    def entry(self, process: Process, record: Record) -> Entry | None:
        """The one of a number, which may belong to the process that this one was forked from."""
        entry = None
        ancestor: Process | None = process
        seen: set[str] = set()
        while entry is None and ancestor is not None and ancestor.name not in seen:
            seen.add(ancestor.name)
            entry = self.entries.get((ancestor.name, record.get("entry", 0)))
            ancestor = self.processes.get(ancestor.facts.get("parent") or "")
        return entry


def _sizes(sizes: dict[str, int]) -> Sizes:
    return tuple(sorted(sizes.items()))


def by_reason(breaks: Iterable[Record]) -> list[tuple[Record, int]]:
    """(break, count) for breaks with the same reason at the same line; the most frequent first."""
    counts: Counter[str] = Counter()
    first: dict[str, Record] = {}
    for record in breaks:
        reason = record.get("reason", {})
        stack = reason.get("stack") or [None]
        key = f"{reason.get('id')} {reason.get('message')} {stack[-1]}"
        counts[key] += 1
        first.setdefault(key, record)
    return [(first[key], count) for key, count in counts.most_common()]
