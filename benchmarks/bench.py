"""`make bench`: this tracer and torch.compile side by side, a process for each case; a table, and JSON.

    python -m benchmarks.bench [--smoke] [--only TEXT ...] [--rounds N] [--json FILE]

`--smoke` runs shallow models and few rounds in one process, to show that everything still works: its times say nothing.
How each figure is obtained: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import lookups, measuring, outlined, repeated, second_process
from benchmarks.trace_cases import LOOP_STEPS, MODELS
from benchmarks.warm_cases import CASES

RESULTS = Path(__file__).parent / "results" / "bench.json"
ROUNDS = {"warm": 15, "lookup": 7, "cold": 3}


def case_names() -> list[str]:
    """All cases, `kind:name`."""
    warm = [f"warm:{name}" for name in CASES]
    looked_up = [f"lookup:{name}" for name in lookups.MAKERS]
    return [*warm, *looked_up, *[f"cold:{name}" for name in MODELS], "deep:llama", "repeated:blocks",
            *[f"outline:{name}" for name in outlined.MODELS], "loop:python", "memory:bert", "import:tracer",
            "second process:bert"]  # fmt: skip


def run_case(case: str, rounds: int | None, depth: int | None = None) -> list[dict[str, Any]]:
    """The rows of one case, measured in this process."""
    kind, _, name = case.partition(":")
    turns = rounds or ROUNDS.get(kind, 3)
    if kind == "warm":
        return [measuring.warm(name, turns)]
    if kind == "lookup":
        return [lookups.lookup(name, turns)]
    if kind == "cold":
        return measuring.cold(name, turns, depth)
    if kind == "deep":
        return measuring.deep(name, turns)
    if kind == "repeated":
        return [repeated.repeated(turns, depth or repeated.BLOCKS)]
    if kind == "outline":
        return [outlined.outlined(name, depth)]
    if kind == "loop":
        return [measuring.loop(turns, depth or LOOP_STEPS)]
    if kind == "second process":
        return [second_process.second_process(depth)]
    return [measuring.memory(depth) if kind == "memory" else measuring.import_seconds(turns)]


def run_apart(case: str, rounds: int | None) -> list[dict[str, Any]]:
    """The rows of one case, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench", "--case", case]
    if rounds:
        command += ["--rounds", str(rounds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        return [{"kind": "failed", "case": case, "error": done.stderr.strip()[-2000:]}]
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def smoke() -> list[dict[str, Any]]:
    """Everything once, shallow."""
    rows = [row for name in CASES if not name.startswith("demo") for row in run_case(f"warm:{name}", 2)]
    rows += run_case("lookup:size", 1)
    rows += [row for name in ("toy", "mlp", "bert") for row in run_case(f"cold:{name}", 1, 1)]
    rows += run_case("repeated:blocks", 1, 2)
    rows += run_case("loop:python", 1, 100)
    return [*rows, *run_case("memory:bert", 1, 1), *run_case("import:tracer", 1)]


# ---- tables


def held(row: dict[str, Any]) -> str:
    if row.get("bar") is None:
        return ""
    fine = row["ratio"] >= row["bar"] if row["kind"] == "loop" else row["ratio"] <= row["bar"]
    return "[green]yes[/]" if fine else "[red]no[/]"


_COLUMNS = {
    "warm": ("own_ns", "torch_ns", "own_dispatch_ns", "torch_dispatch_ns", "check_fn_ns", "ratio_over_eager",
             "ratio_of_dispatch"),
    "lookup": ("alone_ns", "mean_ns", "worst_ns", "ratio"),
    "cold": ("own_s", "torch_s", "ratio"),
    "deep": ("shallow_s", "deep_s", "ratio"),
    "repeated": ("own_compiles", "torch_compiles", "own_s", "torch_s", "ratio"),
    "outline": ("own_s", "torch_s", "own_with_children_s", "torch_with_children_s", "ratio"),
    "loop": ("own_per_s", "torch_per_s", "ratio"),
    "memory": ("own_bytes", "torch_bytes", "ratio"),
    "import": ("own_s",),
    "second process": ("own_frames", "own_compiles", "torch_compiles", "own_s", "torch_s", "ratio"),
}  # fmt: skip
_TITLES = {
    "warm": "Warm calls (ns over eager; ns of dispatch to a graph that does nothing)",
    "lookup": "Finding the entry of a call (ns; the ratio is that of the worst call to an entry alone)",
    "cold": "Cold traces (CPU seconds of the first call)",
    "deep": "A deep model beside a shallow one (CPU seconds of the first call)",
    "repeated": "Equal modules compiled one by one (backend compiles; CPU seconds, with the calls)",
    "outline": "First answer under Inductor with equal blocks compiled once (CPU seconds)",
    "loop": "Bytecodes per second",
    "memory": "Bytes of Python objects per cached entry",
    "import": "import tracer, over import torch (CPU seconds)",
    "second process": "First answer of a second process (frames traced, backend compiles; seconds)",
}


def show(rows: list[dict[str, Any]]) -> None:
    console = Console(width=max(150, Console().width))
    for kind, columns in _COLUMNS.items():
        of_kind = [row for row in rows if row["kind"] == kind]
        if not of_kind:
            continue
        table = Table(title=_TITLES[kind], title_justify="left")
        for heading in ("case", *[column.replace("_", " ") for column in columns], "bar", "held"):
            table.add_column(heading, justify="left" if heading == "case" else "right", no_wrap=heading == "case")
        for row in of_kind:
            values = [_number(row.get(column)) for column in columns]
            table.add_row(row["case"], *values, "" if row["bar"] is None else f"{row['bar']}", held(row))
        console.print(table)
    for row in rows:
        if row["kind"] == "failed":
            console.print(f"[red]failed[/] {row['case']}\n{row['error']}", markup=True)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def main() -> int:
    arguments = argparse.ArgumentParser(prog="benchmarks.bench")
    arguments.add_argument("--smoke", action="store_true")
    arguments.add_argument("--only", nargs="*", default=[], help="run the cases whose name has one of these texts")
    arguments.add_argument("--rounds", type=int)
    arguments.add_argument("--json", type=Path, default=RESULTS)
    arguments.add_argument("--case", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    measuring.quiet()
    if options.case:
        print(json.dumps(run_case(options.case, options.rounds)))
        return 0
    if options.smoke:
        rows = smoke()
    else:
        chosen = [name for name in case_names() if not options.only or any(text in name for text in options.only)]
        rows = []
        for name in chosen:
            print(name, file=sys.stderr, flush=True)
            rows += run_apart(name, options.rounds)
        about = {"python": platform.python_version(), "torch": torch.__version__, "cores": os.cpu_count()}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    show(rows)
    return int(any(row["kind"] == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
