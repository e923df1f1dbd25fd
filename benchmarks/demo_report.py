"""The tables of the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.demo import Serving


LINE = 104  # characters of a guard that are shown


def summary(servings: list[Serving]) -> Table:
    """One line per model and stream."""
    table = Table(title="Served", title_justify="left")
    for heading in ("model", "seed", "requests", "shapes", "entries", "graphs", "recompiles", "breaks"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for heading in ("max diff", "bitwise", "random state"):
        table.add_column(heading, justify="right")
    for serving in servings:
        graphs = len(serving.captures)
        counts = (serving.entries, graphs, max(0, graphs - 1), serving.breaks)
        table.add_row(
            serving.model,
            str(serving.seed),
            str(len(serving.requests)),
            str(len({(request.batch, request.length) for request in serving.requests})),
            *map(str, counts),
            f"{serving.largest_difference:.3g}",
            _mark(serving.bitwise),
            _mark(serving.random_state_equal),
        )
    return table


def captures(serving: Serving) -> Table:
    """One line per graph: when and why it was traced."""
    table = Table(title=f"{serving.model}: graphs, and why each was traced", title_justify="left")
    for heading in ("#", "request", "batch x length", "operations", "call took"):
        table.add_column(heading, justify="right")
    table.add_column("reason", overflow="fold")
    for number, capture in enumerate(serving.captures, 1):
        table.add_row(
            str(number),
            str(capture.request),
            str(capture.shape),
            str(capture.operations),
            f"{capture.seconds:.2f} s",
            capture.reason,
        )
    return table


def check_fn(serving: Serving, lines: int) -> Panel:
    """The newest entry's guards, as Python; the middle and the ends of long lines are left out unless `lines` is 0."""
    text = serving.check_fn.splitlines()
    if lines:
        text = [line if len(line) <= LINE else line[: LINE - 1] + "…" for line in text]
    if lines and len(text) > lines:
        head = lines // 2
        omitted = [f"# ... {len(text) - lines} more lines (--guards 0 shows all) ..."]
        text = text[:head] + omitted + text[len(text) - (lines - head) :]
    shown = Syntax("\n".join(text), "python", word_wrap=True, background_color="default")
    return Panel(shown, title=f"{serving.model}: check_fn of the final entry", title_align="left")


def calls(model: str, rows: list[dict[str, Any]]) -> Table:
    """Milliseconds per warm call."""
    table = Table(title=f"{model}: ms per warm call, against torch.compile(backend='eager')", title_justify="left")
    for heading in ("batch x length", "eager", "ours", "torch", "ours - eager", "torch - eager"):
        table.add_column(heading, justify="right")
    for row in rows:
        times = [row[key] * 1e3 for key in ("eager", "ours", "torch")]
        table.add_row(row["shape"], *(f"{t:.2f}" for t in times), f"{times[1] - times[0]:+.2f}", f"{times[2] - times[0]:+.2f}")
    return table


def traces(model: str, rows: list[dict[str, Any]]) -> Table:
    """Seconds per trace."""
    table = Table(title=f"{model}: s per trace, against torch.compile(backend='eager')", title_justify="left")
    for heading in ("trace", "ours", "torch", "ratio"):
        table.add_column(heading, justify="left" if heading == "trace" else "right")
    for row in rows:
        ratio = row["ours"] / row["torch"] if row["torch"] else float("nan")
        table.add_row(row["trace"], f"{row['ours']:.2f}", f"{row['torch']:.2f}", f"{ratio:.2f}x")
    return table


def verdict(broken: list[tuple[Serving, list[str]]]) -> str:
    """What was promised and did not hold."""
    lines = [
        f"[red]{serving.model}, seed {serving.seed}: not kept: {', '.join(promises)}[/red]"
        for serving, promises in broken
        if promises
    ]
    lines += [f"  {_first_line(text)}" for serving, _ in broken for text in dict.fromkeys(serving.warnings)]
    return "\n".join(lines) or "[green]Everything that is promised held.[/green]"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _mark(holds: bool) -> str:
    return "[green]equal[/green]" if holds else "[red]DIFFERS[/red]"
