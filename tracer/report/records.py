"""The files of a recording: one per process. Each line is a JSON object with the version of the format, a kind and a time.

Kinds: "process" (the first of each file), "miss", "compile", "recompile", "break", "skip", "limit" and the other events, and
"requests": the number of calls of each size that an entry (0: none) has served since the last record of that kind.
"""

from __future__ import annotations

import contextlib
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
    recording = Reader(directory, growing=False).read()
    if not recording.processes:
        notes_text = "".join(f"\n  {note}" for note in recording.notes)
        raise UserError(
            f"there are no records of the tracer in {os.fspath(directory)}{notes_text}",
            hint=f"run the program with {VARIABLE}={os.fspath(directory)} in its environment.",
        )
    return recording


@dataclass
class _File:
    """What was read of a file so far."""

    records: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    broken: int = 0  # lines that are not whole (the process was killed, the disk was full)
    newer: int = 0  # lines with another version
    problem: str = ""

    def add(self, text: str) -> None:
        for line in text.split("\n"):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                version, _, _ = record["v"], record["kind"] + "", record["t"] + 0.0
            except (ValueError, KeyError, TypeError):
                self.broken += 1
                continue
            if version == VERSION:
                self.records.append(record)
            else:
                self.newer += 1

    def notes(self, name: str) -> Iterator[str]:
        if self.problem:
            yield f"{name} cannot be read: {self.problem}"
        if self.broken:
            yield f"{name}: {self.broken} of its lines are not whole, and were left out"
        if self.newer:
            yield f"{name}: {self.newer} of its lines have another version than {VERSION}, and were left out"


class Reader:
    """Reads the files of a directory, and later what they have more. `growing`: half a line at the end is being written, and left
    for later."""

    def __init__(self, directory: str | os.PathLike[str], growing: bool = True) -> None:
        self.directory, self._growing = Path(directory), growing
        self._files: dict[str, _File] = {}

    def version(self) -> str:
        """Other text whenever there is more to read."""
        sizes = []
        for path in self._paths():
            with contextlib.suppress(OSError):
                sizes.append(f"{path.name}:{path.stat().st_size}")
        return " ".join(sizes)

    def read(self) -> Recording:
        """All that was recorded until now."""
        recording = Recording()
        for path in self._paths():
            file = self._files.setdefault(path.name, _File())
            self._read_more(path, file)
            if file.records:
                recording.processes[path.name.removesuffix(SUFFIX)] = file.records
            recording.notes += file.notes(path.name)
        return recording

    def _paths(self) -> list[Path]:
        return sorted(self.directory.glob(f"*{SUFFIX}"))

    def _read_more(self, path: Path, file: _File) -> None:
        try:
            with path.open("rb") as stream:
                stream.seek(file.size)
                data = stream.read()
        except OSError as error:
            file.problem = str(error)
            return
        whole = data.rfind(b"\n") + 1 if self._growing else len(data)
        file.size += whole
        file.add(data[:whole].decode(errors="replace"))


def markdown() -> str:
    """The part of docs/config.md on recordings."""
    return (
        "# Recording\n\n"
        f"`{VARIABLE}=DIR` in the environment at import, or `tracer.record(DIR)`: what is compiled, for which shapes, how long\n"
        "it takes, what breaks and what misses goes to files in `DIR`, and `python -m tracer report DIR` makes a page of them.\n"
        "See [howto/report.md](howto/report.md).\n"
    )
