"""Many programs, in chunks that each have a process, and what is known of them afterwards: tests/results/fuzz.md.

A campaign that was interrupted goes on where it stopped: what a chunk found is kept in build/fuzz/, under the fingerprint of
all sources that it depends on.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.fuzz import programs, tensor_programs
from tests.fuzz.grammar import BREAKS, FEATURES
from tests.fuzz.running import run

_ROOT = Path(__file__).parents[2]
RESULT = _ROOT / "tests" / "results" / "fuzz.md"
_CHUNK = 250
KEPT = _ROOT / "build" / "fuzz"
_MOST_MEMORY = 8 << 30


@dataclasses.dataclass
class Statistics:
    """Of a sample of programs. `failures` has a seed, the kind of difference and its text for each; `shared` those that
    torch.compile shows with the same backend."""

    programs: int = 0
    seconds: float = 0  # of a processor
    calls: int = 0
    graphs: int = 0
    operations: int = 0
    with_graph: int = 0
    with_break: int = 0
    raising_calls: int = 0
    features: Counter[str] = dataclasses.field(default_factory=Counter)
    breaks: Counter[str] = dataclasses.field(default_factory=Counter)
    left: Counter[str] = dataclasses.field(default_factory=Counter)
    failures: list[tuple[int, str, str]] = dataclasses.field(default_factory=list)
    shared: list[tuple[int, str, str]] = dataclasses.field(default_factory=list)

    def add(self, seed: int, backend: str | None = None) -> None:
        started = time.process_time()
        program = programs.generate(seed)
        if backend is not None:
            program = dataclasses.replace(tensor_programs.generate(seed), backend=backend)
        verdict = run(program)
        self.programs += 1
        self.calls += program.calls
        self.graphs += verdict.graphs
        self.operations += verdict.operations
        self.with_graph += verdict.graphs > 0
        self.with_break += bool(verdict.breaks)
        self.raising_calls += verdict.raised
        self.features.update(name for name in program.used)
        self.breaks.update(verdict.breaks)
        self.left.update(verdict.left)
        if verdict.kind is not None:
            (self.shared if verdict.shared else self.failures).append((seed, verdict.kind, verdict.difference))
        self.seconds += time.process_time() - started

    def merge(self, other: dict[str, Any]) -> None:
        for field in dataclasses.fields(self):
            mine, theirs = getattr(self, field.name), other[field.name]
            if isinstance(mine, Counter):
                mine.update(theirs)
            else:
                setattr(self, field.name, mine + theirs)

    def as_json(self) -> dict[str, Any]:
        """What `merge` takes; `dataclasses.asdict` would count the items of the counters."""
        return dict(vars(self))

    def unmet(self) -> list[str]:
        """The features and kinds of breaks that no program had."""
        wanted = {*FEATURES, *(f"break: {kind}" for kind in (*BREAKS, "opaque expression"))}
        return sorted(wanted - set(self.features))

    def shortfalls(self) -> list[str]:
        """What the sample should have had and has not."""
        found = [f"seed {seed} differs in {kind}:\n{text}" for seed, kind, text in self.failures]
        if self.with_graph < 0.9 * self.programs:
            found.append(f"only {self.with_graph} of {self.programs} programs gave a graph")
        if self.with_break < 0.5 * self.programs:
            found.append(f"only {self.with_break} of {self.programs} programs broke the graph")
        if self.unmet():
            found.append(f"features that no program had: {', '.join(self.unmet())}")
        return found

    def markdown(self, seeds: range) -> str:
        import torch

        lines = [
            "# Random programs, traced and plain",
            "",
            f"Seeds {seeds.start} to {seeds.stop - 1}, Python {platform.python_version()}, torch {torch.__version__}, "
            f"{self.seconds:.0f} s of a processor, sources {fingerprint()}.",
            "",
            "| | |",
            "|---|---|",
            f"| programs | {self.programs} |",
            f"| calls | {self.calls}, of which {self.raising_calls} ended in an exception |",
            f"| programs that differ from CPython | {len(self.failures)} |",
            f"| programs with a graph | {self.with_graph} ({self.with_graph / self.programs:.1%}) |",
            f"| programs with a graph break | {self.with_break} ({self.with_break / self.programs:.1%}) |",
            f"| graphs, operations in them | {self.graphs}, {self.operations} |",
            f"| features met | {len(FEATURES) - len([name for name in self.unmet() if name in FEATURES])} of {len(FEATURES)} |",
        ]
        lines += ["", "## Reasons for breaks", "", "| Reason | Times |", "|---|---|"]
        lines += [f"| {reason} | {count} |" for reason, count in self.breaks.most_common()]
        lines += ["", "## Frames left to CPython", "", "| Reason | Times |", "|---|---|"]
        lines += [f"| {reason} | {count} |" for reason, count in self.left.most_common()]
        lines += ["", "## Features", "", "| Feature | Programs |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in sorted(self.features.items())]
        if self.failures:
            lines += ["", "## Differences", ""]
            lines += [f"- seed {seed}, {kind}: `{' '.join(text.split())[-200:]}`" for seed, kind, text in self.failures]
        return "\n".join(lines) + "\n"


def sample(seeds: range, backend: str | None = None) -> Statistics:
    """The programs of these seeds, run in this process. With a backend they are programs of tensors, compiled by it."""
    found = Statistics()
    for seed in seeds:
        found.add(seed, backend)
    return found


def campaign(seeds: range, processes: int | None = None) -> Statistics:
    """As `sample`, in processes of their own: one that dies is a failure like others."""
    kept = KEPT / fingerprint()
    kept.mkdir(parents=True, exist_ok=True)

    def found_in(chunk: range) -> dict[str, Any]:
        record = kept / f"{chunk.start}-{chunk.stop}.json"
        if record.exists():
            return json.loads(record.read_text())  # type: ignore[no-any-return]
        found = in_process(chunk)
        unfinished = record.with_suffix(".part")
        unfinished.write_text(json.dumps(found))
        unfinished.rename(record)
        return found

    chunks = [range(first, min(first + _CHUNK, seeds.stop)) for first in range(seeds.start, seeds.stop, _CHUNK)]
    found = Statistics()
    with ThreadPoolExecutor(processes or os.cpu_count()) as pool:
        for part in pool.map(found_in, chunks):
            found.merge(part)
    return found


def fingerprint() -> str:
    """Of the tracer, its extension and the fuzzer."""
    digest = hashlib.sha256(sys.version.encode())
    for folder in ("tracer", "shapes", "csrc", "tests/fuzz"):
        for path in sorted((_ROOT / folder).rglob("*.[pch]*")):
            if path.suffix in (".py", ".c", ".cpp", ".h"):
                digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def in_process(seeds: range, backend: str | None = None) -> dict[str, Any]:
    """The statistics of a chunk; where the process died, those of its programs one by one. A program of which CPython dies as
    well, without a tracer, is shared: PyTorch has defects that end the process."""
    done = _run("chunk", seeds.start, seeds.stop, backend=backend)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]
    if len(seeds) == 1:
        dead, plain = Statistics(programs=1), _run("plain", seeds.start, backend=backend)
        found = (seeds.start, "death", f"exit {done.returncode}: {done.stderr[-500:]}")
        (dead.shared if plain.returncode else dead.failures).append(found)
        return dead.as_json()
    whole, middle = Statistics(), (seeds.start + seeds.stop) // 2
    for half in (range(seeds.start, middle), range(middle, seeds.stop)):
        whole.merge(in_process(half, backend))
    return whole.as_json()


def _run(*words: Any, backend: str | None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz", *map(str, words), *(() if backend is None else ("--backend", backend))]
    return subprocess.run(command, cwd=_ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True)


def write(seeds: range, processes: int | None = None) -> Statistics:
    """Runs the campaign and leaves its table."""
    found = campaign(seeds, processes)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(found.markdown(seeds))
    return found
