"""Groups records by the function of the program that they are about, for the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tracer.report.records import Recording

_RESUMED = re.compile(r"\.<resume at line (\d+)>$")
Record = dict[str, Any]
Sizes = tuple[tuple[str, int], ...]


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

    @property
    def anchor(self) -> str:
        return f"{self.part.function.anchor}-e{self.number}"

    @property
    def group(self) -> tuple[int, int]:
        """(process, region): a call is served by one of the entries of one group."""
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
    missed: dict[tuple[int, int], Counter[Sizes]] = field(default_factory=dict)  # by group

    @property
    def title(self) -> str:
        return "from its start" if self.line is None else f"from line {self.line} on"


@dataclass(eq=False)
class Function:
    """A function of the program, and all that was traced of it."""

    name: str
    file: str
    line: int
    number: int
    parts: dict[int | None, Part] = field(default_factory=dict)

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


class _Gatherer:
    def __init__(self, processes: dict[str, Process]) -> None:
        self.processes = processes
        self.functions: dict[tuple[str, int, str], Function] = {}
        self.entries: dict[tuple[str, int], Entry] = {}

    def take(self, process: Process) -> None:
        waiting: dict[tuple[Any, ...], tuple[list[Record], list[Record]]] = {}  # (failures, breaks) up to the compile
        for record in process.records:
            if record["kind"] == "requests":
                self.count(process, record)
                continue
            part = self.part(record.get("frame") or {})
            key = (part, record.get("region_number"), record.get("thread"))
            failures, breaks = waiting.setdefault(key, ([], []))
            if record["kind"] == "recompile":
                failures += record.get("failures", ())
            elif record["kind"] == "break":
                breaks.append(record)
            elif record["kind"] == "miss":
                group = process.number, record.get("region_number", 0)
                part.missed.setdefault(group, Counter())[_sizes(record.get("sizes", {}))] += 1
            elif record["kind"] in ("compile", "merge", "load"):
                number = len(part.function.entries) + 1
                entry = Entry(process, record, part, number, failures, breaks)
                del waiting[key]
                part.entries.append(entry)
                self.entries[process.name, record.get("entry", 0)] = entry
            elif record["kind"] == "evict" and (process.name, record.get("entry", 0)) in self.entries:
                self.entries[process.name, record["entry"]].evicted = record
            else:
                part.notes.append((process, record))
        for (part, *_), (_, breaks) in waiting.items():
            part.notes += [(process, record) for record in breaks]

    def part(self, frame: Record) -> Part:
        name = str(frame.get("name", "?"))
        resumed = _RESUMED.search(name)
        name, line = (name[: resumed.start()], int(resumed[1])) if resumed else (name, None)
        key = str(frame.get("file", "")), int(frame.get("line", 0)), name
        if key not in self.functions:
            self.functions[key] = Function(name, key[0], key[1], len(self.functions) + 1)
        function = self.functions[key]
        return function.parts.setdefault(line, Part(function, line))

    def count(self, process: Process, record: Record) -> None:
        """Adds counts of requests to the entry that served them, which may belong to the process that this one was forked
        from."""
        if not record.get("entry"):
            missed = self.part(record.get("frame") or {}).missed
            counts = missed.setdefault((process.number, record.get("region_number", 0)), Counter())
            for point in record.get("points", ()):
                counts[_sizes(point["sizes"])] += point["count"]
            return
        entry = None
        of: Process | None = process
        seen: set[str] = set()
        while entry is None and of is not None and of.name not in seen:
            seen.add(of.name)
            entry = self.entries.get((of.name, record.get("entry", 0)))
            of = self.processes.get(of.facts.get("parent") or "")
        if entry is not None:
            for point in record.get("points", ()):
                entry.served[_sizes(point["sizes"])] += point["count"]


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
