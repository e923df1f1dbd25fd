"""What the community zoo prints, and the tables that it leaves in docs/zoo_community.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.zoo_models.community import COMMUNITY

if TYPE_CHECKING:
    from benchmarks.zoo_community import Outcome, Row

WAYS = ("fullgraph", "default", "dynamic")


def line(row: Row) -> str:
    """One model, as it ends."""
    if row.failure:
        return f"[red]failed  [/] {row.name:32} {_first(row.failure)}"
    colour = "green" if row.is_good else "red"
    cells = " | ".join(f"{way} {_cell(row.ours.get(way), way)} ({_cell(row.torch.get(way), way)})" for way in WAYS)
    return f"[{colour}]{'good' if row.is_good else 'LESS':8}[/] {row.name:32} {cells}"


def _cell(outcome: Outcome | None, way: str) -> str:
    """What came of one way, in a few letters."""
    if outcome is None:
        return "-"
    if outcome.error:
        return "refused" if way == "fullgraph" else "error"
    if way == "fullgraph":
        told = "yes" if outcome.is_captured else f"no: {outcome.graphs}"
    elif way == "default":
        told = f"{outcome.graphs}" + (f", {len(outcome.breaks)} breaks" if outcome.breaks else "")
    else:
        told = f"{outcome.graphs}+{outcome.recompiled}"
    return told if outcome.is_equal else f"{told}, differs by {outcome.difference:.2g}"


def _first(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


def details(row: Row) -> str:
    """Every break and error of one model."""
    told = []
    for who, outcomes in (("ours", row.ours), ("torch", row.torch)):
        for way, outcome in outcomes.items():
            told += [f"    {who} {way}: break: {text}" for text in outcome.breaks]
            told += [f"    {who} {way}: {outcome.error}"] if outcome.error else []
    return "\n".join(told + ([row.failure] if row.failure else []))


def _beside(rows: list[Row]) -> list[Row]:
    """The models that ran with both: others would make the figures of the two unlike."""
    return [row for row in rows if not row.failure and row.ours and row.torch]


def figures(rows: list[Row]) -> list[tuple[str, int, int]]:
    """What is counted of this tracer and of torch.compile, over the models that ran with both."""
    ran = _beside(rows)

    def count(of: str, way: str, what: str) -> int:
        return sum(getattr(getattr(row, of)[way], what) for row in ran if way in getattr(row, of))

    told = [
        ("`fullgraph=True`", *(count(who, "fullgraph", "is_captured") for who in ("ours", "torch"))),
        ("one graph by default", *(count(who, "default", "is_captured") for who in ("ours", "torch"))),
        ("no recompile with `dynamic=True`", *(count(who, "dynamic", "is_without_recompile") for who in ("ours", "torch"))),
    ]
    for title, holds in (
        ("results that differ from eager", lambda way, o: not o.is_equal),
        ("errors that eager does not raise", lambda way, o: bool(o.error) and way != "fullgraph"),
    ):
        told.append((title, *(sum(any(holds(w, o) for w, o in who.items()) for who in side) for side in _sides(ran))))
    told.append(
        ("seconds of a processor", *(round(sum(o.seconds for who in side for o in who.values())) for side in _sides(ran)))
    )
    return told


def _sides(rows: list[Row]) -> tuple[list[dict[str, Outcome]], list[dict[str, Outcome]]]:
    return [row.ours for row in rows], [row.torch for row in rows]


def summary(rows: list[Row]) -> str:
    """The figures in a few lines."""
    packages = len({row.package for row in rows if not row.failure})
    failed = sum(bool(row.failure) for row in rows)
    lines = [f"{len(rows) - failed} models and programs of {packages} packages" + (f", {failed} failed" if failed else "")]
    lines += [f"  {title}: {ours}, torch.compile {theirs}" for title, ours, theirs in figures(rows)]
    less = [row.name for row in rows if row.captures_less]
    return "\n".join([*lines, f"  torch.compile captures more of {len(less)}: {', '.join(less) or 'none'}"])


def markdown(rows: list[Row]) -> str:
    """The tables of docs/zoo_community.md."""
    ran, beside = [row for row in rows if not row.failure], _beside(rows)
    lines = [
        "# The community zoo",
        "",
        f"Written by `make zoo-community`: {len(ran)} models and programs of {len({row.package for row in ran})} packages, with",
        f"random weights and small sizes, by this tracer, and {len(beside)} of them by `torch.compile` with the backend `eager`,",
        "too: the figures are of these. Every way of",
        "capture runs in a process of its own in which nothing was called before, so that the caches of the packages are",
        "cold. Results are compared bit by bit with eager's; `dynamic=True` is called with batches of 4, 6 and 3.",
        *_not_run(rows),
        "",
        "| | shapetracer | torch.compile |",
        "|---|---|---|",
        *(f"| {title} | {ours} | {theirs} |" for title, ours, theirs in figures(rows)),
        "",
        "## Where torch.compile captures more",
        "",
        *_table(("model", "package", "in", "why"), [_shortfall(row) for row in ran if row.captures_less]),
        "",
        "## All models",
        "",
        "Each cell has this tracer before the stroke and torch.compile behind it. `default`: graphs of the call, and places",
        "where they break; `dynamic`: graphs of the first call, and graphs that the other batches added.",
        "",
        *_table(("model", "package", *WAYS), [_all_ways(row) for row in ran]),
    ]
    return "\n".join(lines) + "\n"


def _not_run(rows: list[Row]) -> list[str]:
    """What of the zoo the tables do not have, in words."""
    left = len(COMMUNITY) - len(rows)
    return [f"{left} models of the zoo have not run yet."] if left > 0 else []


def _table(headings: tuple[str, ...], cells: list[list[str]]) -> list[str]:
    if not cells:
        return ["None."]
    rule = "|" + "---|" * len(headings)
    return ["| " + " | ".join(headings) + " |", rule, *("| " + " | ".join(row) + " |" for row in cells)]


def _shortfall(row: Row) -> list[str]:
    return [row.name, row.package, ", ".join(row.captures_less), reason(row).replace("|", "\\|")]


def reason(row: Row) -> str:
    """Why this tracer captures less of a model: the first break or error of the ways in question."""
    for way in row.captures_less:
        outcome = row.ours[way]
        if outcome.error or outcome.breaks:
            return re.sub(r"\S*/site-packages/", "", _first(outcome.error) or outcome.breaks[0])
    return "graphs for other sizes"


def _all_ways(row: Row) -> list[str]:
    return [row.name, row.package, *(f"{_cell(row.ours.get(way), way)} / {_cell(row.torch.get(way), way)}" for way in WAYS)]
