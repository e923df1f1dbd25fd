"""A campaign that goes on from day to day: programs of tensors under a compiler, until as many have run as are wanted.

What a chunk of seeds gave is kept in build/fuzz/NAME/, with the fingerprint of the sources that it ran on. Seeds that have run do
not run again when the sources change; those that differed do, so that what was mended is known to be.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.campaign import KEPT, RESULT, Statistics, fingerprint, in_process

CHUNK = 50
COMPILERS_RESULT = RESULT.with_name("fuzz_compilers.md")


class Tally:
    """What is known of the programs of one backend. A record is that of a chunk: seeds, sources, what its programs gave, and how
    many of them differed once and do not any more."""

    def __init__(self, backend: str, folder: Path = KEPT) -> None:
        self.backend = backend
        self._folder = folder / backend

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self._folder.glob("*.json"))]

    def carry_on(self, seeds: range, minutes: float | None = None) -> None:
        """Runs what has not run yet, a chunk in a process, and what differed under other sources. Ends after so many minutes."""
        started, sources = time.time(), fingerprint()
        for first in range(seeds.start, seeds.stop, CHUNK):
            if minutes is not None and time.time() - started > 60 * minutes:
                break
            chunk = range(first, min(first + CHUNK, seeds.stop))
            path = self._folder / f"{chunk.start}-{chunk.stop}.json"
            record = json.loads(path.read_text()) if path.exists() else None
            if record is None:
                record = {"seeds": [chunk.start, chunk.stop], "sources": sources, "mended": 0}
                record["found"] = in_process(chunk, self.backend)
            elif not record["found"]["failures"] or record["sources"] == sources:
                continue
            else:
                self._run_again(record, sources)
            self._keep(path, record)
            for seed, kind, text in record["found"]["failures"]:
                print(f"{seed} {kind} {text[-900:]}", flush=True)

    def _run_again(self, record: dict[str, Any], sources: str) -> None:
        before, found = record["found"]["failures"], record["found"]
        again = [in_process(range(seed, seed + 1), self.backend) for seed, *_ in before]
        found["failures"] = [failure for each in again for failure in each["failures"]]
        found["shared"] += [failure for each in again for failure in each["shared"]]
        record["mended"] += sum(not each["failures"] and not each["shared"] for each in again)
        record["sources"] = sources

    def _keep(self, path: Path, record: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".part{os.getpid()}")
        unfinished.write_text(json.dumps(record))
        unfinished.rename(path)

    def row(self) -> str:
        """The line of the table of all backends."""
        records = self.records()
        found = Statistics()
        for record in records:
            found.merge({**dataclasses.asdict(Statistics()), **record["found"]})
        cells = [
            self.backend, _runs_of(records), found.programs, found.calls, found.graphs, len(found.failures), len(found.shared),
            sum(record["mended"] for record in records), len({record["sources"] for record in records}), f"{found.seconds:.0f}",
        ]  # fmt: skip
        return f"| {' | '.join(map(str, cells))} |"

    def shared(self) -> Counter[str]:
        """How often each kind of difference was seen that torch.compile shows too."""
        return Counter(kind for record in self.records() for _, kind, _ in record["found"]["shared"])


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
