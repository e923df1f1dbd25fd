"""The timeline, as an SVG: a lane per process, a bar per compile, a mark per break, miss, recompile and other event.

Long times without an event are cut out: a server compiles for seconds and serves for days.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any

from tracer.metrics import MAKING
from tracer.report.findings import Entry, Findings, Process

WIDTH, LEFT, LANE, TOP = 1000, 8, 60, 26
GAP = 14.0  # width of time that is cut out
IDLE = 0.04  # of the time that is shown: longer times without events are cut out
MARKS = ("break", "recompile", "miss", "skip", "limit")  # in the order of their rows; other kinds come last


class Axis:
    """Converts seconds to x coordinates, with idle times cut out."""

    def __init__(self, spans: list[tuple[float, float]]) -> None:
        self.pieces: list[list[float]] = []  # [start, end] of what is shown
        for start, end in sorted(spans):
            if self.pieces and start <= self.pieces[-1][1]:
                self.pieces[-1][1] = max(self.pieces[-1][1], end)
            else:
                self.pieces.append([start, end])
        self._join()
        room = WIDTH - 2 * LEFT
        self.gap = min(GAP, room / 3 / max(1, len(self.pieces) - 1))
        shown = sum(end - start for start, end in self.pieces)
        self.scale = (room - self.gap * (len(self.pieces) - 1)) / max(shown, 1e-6)

    def _join(self) -> None:
        """Joins pieces with little time between them."""
        busy = sum(end - start for start, end in self.pieces)
        least = max(IDLE * busy, 0.005)
        joined: list[list[float]] = []
        for start, end in self.pieces:
            if joined and start - joined[-1][1] <= least:
                joined[-1][1] = end
            else:
                joined.append([start, end])
        for piece in joined:
            piece[0] -= least / 8
            piece[1] += least / 8
        self.pieces = joined

    def place(self, time: float) -> float:
        at = float(LEFT)
        for start, end in self.pieces:
            if time <= end:
                return at + max(0.0, time - start) * self.scale
            at += (end - start) * self.scale + self.gap
        return at - self.gap

    def cuts(self) -> list[tuple[float, float]]:
        """(x coordinate, seconds) of each time that is cut out."""
        return [
            (self.place(before[1]) + self.gap / 2, after[0] - before[1]) for before, after in zip(self.pieces, self.pieces[1:])
        ]


def timeline(findings: Findings) -> str:
    """The SVG; empty where nothing happened."""
    entries = [entry for function in findings.functions for entry in function.entries]
    spans = [(entry.record["t"] - entry.record["seconds"], entry.record["t"]) for entry in entries]
    events = [record for process in findings.processes for record in process.records if record["kind"] != "requests"]
    spans += [(record["t"], record["t"]) for record in events]
    if not spans:
        return ""
    axis = Axis(spans)
    height = TOP + LANE * len(findings.processes) + 8
    parts = [f'<svg class="timeline" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="timeline of compiles and events">']
    for place, seconds in axis.cuts():
        shown = f"{duration(seconds)} without an event"
        parts.append(f'<path class="cut" d="M{place:.1f} {TOP - 8}V{height - 16}"><title>{shown}</title></path>')
    for process in findings.processes:
        parts += _lane(process, [entry for entry in entries if entry.process is process], axis)
    parts += _scale(axis, height)
    return "".join([*parts, "</svg>"])


def _lane(process: Process, entries: list[Entry], axis: Axis) -> list[str]:
    top = TOP + LANE * process.number
    parts = [
        f'<text class="tick" x="{LEFT}" y="{top - 2}">{escape(process.title)}</text>',
        f'<rect class="lane" x="{LEFT}" y="{top + 4}" width="{WIDTH - 2 * LEFT}" height="{LANE - 22}" rx="4"/>',
    ]
    for entry in entries:
        seconds = entry.record["seconds"]
        start, end = axis.place(entry.record["t"] - seconds), axis.place(entry.record["t"])
        name = f"{entry.part.function.name}, entry {entry.number}: {duration(seconds)}"
        shape = f'x="{start:.1f}" y="{top + 8}" width="{max(1.5, end - start):.1f}" height="16" rx="2"'
        kind = "left" if entry.record.get("left") else "again" if entry.failures else "first"
        parts.append(f'<a href="#{entry.anchor}"><rect class="compile {kind}" {shape}><title>{escape(name)}</title></rect></a>')
    return parts + _marks(process, axis, top + 33)


def _marks(process: Process, axis: Axis, y: int) -> list[str]:
    """The marks of a lane. Events of a kind that would overlap are one mark, with their number."""
    marks: Counter[tuple[int, str]] = Counter()
    shown: dict[tuple[int, str], Any] = {}
    for record in process.records:
        if record["kind"] not in ("requests", *MAKING):
            key = round(axis.place(record["t"]) / 3) * 3, record["kind"]
            marks[key] += 1
            shown.setdefault(key, record)
    parts = []
    for (x, kind), count in marks.items():
        name = shown[x, kind].get("frame", {}).get("name", "")
        text = f"{count} {kind} events" if count > 1 else f"{kind} in {name}"
        known = kind if kind in MARKS else "other"
        row = y + 3 * min(MARKS.index(kind) if kind in MARKS else 3, 3) - 3
        parts.append(f'<circle class="mark {known}" cx="{x}" cy="{row}" r="2.6"><title>{escape(text)}</title></circle>')
    return parts


def _scale(axis: Axis, height: int) -> list[str]:
    begin, end = axis.pieces[0][0], axis.pieces[-1][1]
    return [
        f'<text class="tick" x="{LEFT}" y="{height - 4}">0 s</text>',
        f'<text class="tick" text-anchor="end" x="{WIDTH - LEFT}" y="{height - 4}">{duration(end - begin)}</text>',
    ]


def duration(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `5 min 10 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    for unit, size, below, part in (("min", 60, "s", 1), ("h", 3600, "min", 60), ("d", 86400, "h", 3600)):
        if seconds < 100 * size or unit == "d":
            return f"{int(seconds // size)} {unit} {int(seconds % size // part)} {below}"
    raise AssertionError
