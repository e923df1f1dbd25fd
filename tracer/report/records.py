"""The files of a recording: one per process. Each line is a JSON object with the version of the format, a kind and a time.

Kinds: "process" (the first of each file), "miss", "compile", "recompile", "break", "skip", "limit" and the other events, and
"requests": the number of calls of each size that an entry (0: none) has served since the last record of that kind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracer.errors import UserError

VERSION = 1
VARIABLE = "TRACER_REPORT"
SUFFIX = ".tracer.jsonl"


@dataclass
class Recording:
    """The records of each process, by file name, and notes about what could not be read."""

    processes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read(directory: str | os.PathLike[str]) -> Recording:
    """The records of all processes that wrote there. Raises UserError where there are none."""
    recording = Recording()
    for path in sorted(Path(directory).glob(f"*{SUFFIX}")):
        found = list(_lines(path, recording.notes))
        if found:
            recording.processes[path.name.removesuffix(SUFFIX)] = found
    if not recording.processes:
        notes_text = "".join(f"\n  {note}" for note in recording.notes)
        raise UserError(
            f"there are no records of the tracer in {os.fspath(directory)}{notes_text}",
            hint=f"run the program with {VARIABLE}={os.fspath(directory)} in its environment.",
        )
    return recording


def _lines(path: Path, notes: list[str]) -> Iterator[dict[str, Any]]:
    """The records of a file. Lines that are incomplete (the process was killed, the disk was full) are skipped, with a note."""
    broken = newer = 0
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        notes.append(f"{path.name} cannot be read: {error}")
        return
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            version, _, _ = record["v"], record["kind"] + "", record["t"] + 0.0
        except (ValueError, KeyError, TypeError):
            broken += 1
            continue
        if version == VERSION:
            yield record
        else:
            newer += 1
    if broken:
        notes.append(f"{path.name}: {broken} of its lines are not whole, and were left out")
    if newer:
        notes.append(f"{path.name}: {newer} of its lines have another version than {VERSION}, and were left out")


def markdown() -> str:
    """The part of docs/config.md on recordings."""
    return (
        "# Recording\n\n"
        f"`{VARIABLE}=DIR` in the environment at import, or `tracer.record(DIR)`: what is compiled, for which shapes, how long\n"
        "it takes, what breaks and what misses goes to files in `DIR`, and `python -m tracer report DIR` makes a page of them.\n"
        "See [howto/report.md](howto/report.md).\n"
    )
