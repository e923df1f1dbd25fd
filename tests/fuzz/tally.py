"""A campaign that goes on from day to day: programs of tensors under a compiler, until as many have run as are wanted.

What a chunk of seeds gave is a line of tests/results/fuzz_NAME.jsonl, with the fingerprint of the sources that it ran on. Seeds
that have run do not run again when the sources change; those that differed do, so that what was mended is known to be.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.campaign import RESULT, fingerprint, in_process

CHUNK = 50
COMPILERS_RESULT = RESULT.with_name("fuzz_compilers.md")
_COUNTED = ("programs", "calls", "graphs", "seconds")


class Tally:
    """What is known of the programs of one backend. A record is that of a chunk: its seeds and sources, how many programs, calls
    and graphs it had, those that differ (seed and kind), how many do as torch.compile does (by kind), and how many of them
    differed once and do not any more."""

    def __init__(self, backend: str, folder: Path = RESULT.parent) -> None:
        self.backend = backend
        self._path = folder / f"fuzz_{backend}.jsonl"

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def carry_on(self, seeds: range, minutes: float | None = None) -> None:
        """Runs what differed under other sources, and what has not run yet, a chunk in a process. Ends after so many minutes."""
        started, sources, records = time.time(), fingerprint(), self.records()
        for record in records:
            if record["failures"] and record["sources"] != sources:
                self._run_again(record, sources)
                self._keep(records)
        ran = {seed for record in records for seed in range(*record["seeds"])}
        for first in range(seeds.start, seeds.stop, CHUNK):
            if minutes is not None and time.time() - started > 60 * minutes:
                break
            wanted = [seed for seed in range(first, min(first + CHUNK, seeds.stop)) if seed not in ran]
            if wanted:
                chunk = range(wanted[0], wanted[-1] + 1)
                found = _shown(in_process(chunk, self.backend))
                counted = {name: round(found[name]) for name in _COUNTED}
                shared = Counter(kind for _, kind, _ in found["shared"])
                failures = [[seed, kind] for seed, kind, _ in found["failures"]]
                seen = {"failures": failures, "shared": shared, "mended": 0}
                records.append({"seeds": [chunk.start, chunk.stop], "sources": sources, **counted, **seen})
                self._keep(records)

    def _run_again(self, record: dict[str, Any], sources: str) -> None:
        again = [_shown(in_process(range(seed, seed + 1), self.backend)) for seed, _ in record["failures"]]
        record["failures"] = [[seed, kind] for each in again for seed, kind, _ in each["failures"]]
        shared = Counter(kind for each in again for _, kind, _ in each["shared"])
        record["shared"] = Counter(record["shared"]) + shared
        record["mended"] += len(again) - len(record["failures"]) - shared.total()
        record["sources"] = sources

    def _keep(self, records: list[dict[str, Any]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(f".part{os.getpid()}")
        unfinished.write_text("".join(json.dumps(record) + "\n" for record in sorted(records, key=lambda each: each["seeds"])))
        unfinished.rename(self._path)

    def row(self) -> str:
        """The line of the table of all backends."""
        records = self.records()
        programs, calls, graphs, seconds = (sum(record[name] for record in records) for name in _COUNTED)
        differ = sum(len(record["failures"]) for record in records)
        mended = sum(record["mended"] for record in records)
        states = len({record["sources"] for record in records})
        cells = [self.backend, _runs_of(records), programs, calls, graphs, differ, self.shared().total(), mended, states, seconds]
        return f"| {' | '.join(map(str, cells))} |"

    def shared(self) -> Counter[str]:
        """How often each kind of difference was seen that torch.compile shows too."""
        return sum((Counter(record["shared"]) for record in self.records()), Counter())


def _shown(found: dict[str, Any]) -> dict[str, Any]:
    for seed, kind, text in found["failures"]:
        print(f"{seed} {kind} {text[-900:]}", flush=True)
    return found


def _runs_of(records: list[dict[str, Any]]) -> str:
    """The seeds, as few ranges."""
    ranges: list[list[int]] = []
    for first, last in sorted(record["seeds"] for record in records):
        if ranges and ranges[-1][1] == first:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
    return ", ".join(f"{first}:{last}" for first, last in ranges)


def table(tallies: list[Tally]) -> str:
    """What tests/results/fuzz_compilers.md says of the backends that have run."""
    lines = [
        "# Programs of tensors under compilers",
        "",
        "`python -m tests.fuzz --backend NAME tally SEEDS`. Shared differences are those that torch.compile shows too; "
        "what is mended differed once and does not any more.",
        "",
        "| Backend | Seeds | Programs | Calls | Graphs | Differ | Shared | Mended | States of the sources | s of a processor |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(tally.row() for tally in tallies),
    ]
    for tally in tallies:
        kinds = tally.shared()
        if kinds:
            lines += ["", f"Shared under {tally.backend}: {', '.join(f'{kind} {count}' for kind, count in kinds.most_common())}."]
    return "\n".join(lines) + "\n"
