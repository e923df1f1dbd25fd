"""What the zoo prints, and the table that it leaves in docs/zoo.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.zoo import Row, Run

HEADINGS = (
    "model", "family", "verdict", "graphs", "breaks", "compiled", "entries", "largest difference", "trace s", "torch: graphs",
    "torch: breaks", "torch: compiled", "torch: trace s", "ratio",
)  # fmt: skip


def line(row: Row) -> str:
    """One model, as it ends."""
    colour = "green" if row.is_good else "red"
    theirs = f" | torch {_run(row.torch)}" if row.torch else ""
    return f"[{colour}]{row.verdict:15}[/] {row.name:22} {_run(row.ours)}{theirs} {row.failure}".rstrip()


def _run(run: Run) -> str:
    if run.error:
        return run.error.splitlines()[0][:160]
    numbers = f"graphs {run.graphs}, breaks {len(run.breaks)}, compiled {run.compiled}, {run.all_calls:.1f} s"
    return numbers + (f", difference {run.difference:.2g}" if run.difference != 0 else "")


def details(row: Row) -> str:
    """Every break and recompile of one model."""
    told = [f"    break: {text}" for text in row.ours.breaks] + [f"    recompile: {text}" for text in row.ours.recompiles]
    if row.torch:
        told += [f"    torch: break: {text}" for text in row.torch.breaks]
    return "\n".join([*told, row.ours.error] if row.ours.error else told)


def summary(rows: list[Row]) -> str:
    """How many of each verdict."""
    counted = Counter(row.verdict for row in rows)
    return f"{len(rows)} models: " + ", ".join(f"{number} {verdict}" for verdict, number in counted.most_common())


def markdown(rows: list[Row]) -> str:
    """The table of docs/zoo.md."""
    lines = [
        "# The zoo",
        "",
        "Written by `make zoo`: random weights, small width, full depth; batches 1, 2, 5, 16, 3, 7, 32, each compared bit by",
        "bit with eager. `graphs`: those of the first call, `compiled`: those of all calls together, `trace s`: CPU time over",
        'eager of all calls; the peer is `torch.compile(backend="eager")` in the same process.',
        "",
        summary(rows) + ".",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
    ]
    return "\n".join(lines + [_markdown_row(row) for row in rows]) + "\n"


def _markdown_row(row: Row) -> str:
    ours, theirs = row.ours, row.torch
    cells = [row.name, row.family, row.verdict, ours.graphs, len(ours.breaks), ours.compiled, ours.entries]
    cells += [f"{ours.difference:.2g}", f"{ours.all_calls:.1f}"]
    if theirs is None or theirs.error:
        cells += ["-"] * 5
    else:
        ratio = f"{ours.all_calls / theirs.all_calls:.2f}x" if theirs.all_calls else "-"
        cells += [theirs.graphs, len(theirs.breaks), theirs.compiled, f"{theirs.all_calls:.1f}", ratio]
    return "| " + " | ".join(map(str, cells)) + " |"
