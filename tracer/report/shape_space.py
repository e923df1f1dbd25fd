"""The data for the picture of a function's shapes: the region of each entry, and the calls.

The page's script draws it (`shape_space.js`). Conditions that it cannot evaluate (functions of floats) are left out and counted;
what is said of strides is left out.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tracer.report.axes import Axes, short
from tracer.report.expressions import Unknown, expression, is_trivial, labels_of
from tracer.report.findings import Entry, Function, Part, Sizes

MOST_POINTS = 1500  # different calls in one picture; the most frequent ones


def picture(function: Function) -> dict[str, Any] | None:
    """One space for each region of each process, for calls of the function itself; None if no size varies."""
    part = function.parts.get(None)
    if part is None:
        return None
    groups = dict.fromkeys([entry.group for entry in part.entries])
    spaces = [space for group in groups if (space := _space(part, group)) is not None]
    spaces.sort(key=lambda space: -len(space["entries"]))
    return {"spaces": spaces} if spaces else None


def _space(part: Part, group: tuple[int, int]) -> dict[str, Any] | None:
    entries = [entry for entry in part.entries if entry.group == group and (entry.evicted is None or entry.served)]
    axes = part.function.axes_of(group)
    calls: Counter[tuple[Sizes, int]] = Counter()
    for sizes, count in part.missed.get(group, Counter()).items():
        calls[axes.sizes(sizes), 0] += count
    for entry in entries:
        for sizes, count in entry.served.items():
            calls[axes.sizes(sizes), entry.number] += count
    regions = [_region(entry, axes) for entry in entries]
    dims = _dims(regions, calls)
    if not dims or not entries:
        return None
    numbers = {label: index for index, tied in enumerate(dims) for label in tied}
    return {
        "name": f"{entries[0].record.get('region', '')} in {entries[0].process.title}",
        "dims": [{"name": _title(tied), "usual": _most_frequent(tied[0], calls)} for tied in dims],
        "first": _dims_to_show_first(dims, calls, regions),
        "entries": [_numbered(region, numbers) for region in regions],
        "calls": [
            {"at": [_value(tied, dict(sizes)) for tied in dims], "entry": number, "count": count}
            for (sizes, number), count in calls.most_common(MOST_POINTS)
        ],
        "left_out": max(0, len(calls) - MOST_POINTS),
    }


def _region(entry: Entry, axes: Axes) -> dict[str, Any]:
    shape_region = entry.record.get("region_of_shapes", {})
    conditions, unknown = [], 0
    for line in shape_region.get("lines", ()):
        try:
            conditions.append(expression(line["template"], line["labels"]))
        except Unknown:
            unknown += 1
    conditions += [["cmp", ["=="], [["v", label], size]] for label, size in shape_region.get("fixed", {}).items()]
    named = [axes.tree(tree) for tree in conditions if not any(map(_is_layout, labels_of(tree)))]
    return {
        "number": entry.number,
        "anchor": entry.anchor,
        "kind": entry.kind,
        "hits": entry.served.total(),
        "text": words(entry),
        "conditions": [tree for tree in named if not is_trivial(tree)],
        "ranks": shape_region.get("ranks", {}),
        "unknown": unknown,
    }


def _is_layout(label: str) -> bool:
    return ".stride()[" in label or label.endswith(".storage_offset()")


def words(entry: Entry) -> str:
    """The conditions of an entry on sizes, but not on strides, in a line."""
    axes = entry.part.function.axes_of(entry.group)
    shape_region = entry.record.get("region_of_shapes", {})
    conditions = [(line["template"], line["labels"]) for line in shape_region.get("lines", ())]
    fixed = shape_region.get("fixed", {}).items()
    conditions += [(f"{{0}} == {size}", [label]) for label, size in fixed if not axes.follows(label)]
    lines = [_filled(template, labels, axes) for template, labels in conditions if not any(map(_is_layout, labels))]
    return ", ".join(dict.fromkeys(filter(None, lines))) or "any size"


def _filled(template: str, labels: list[str], axes: Axes) -> str:
    """A condition as text; empty where it only says that two labels are what was declared of them."""
    with contextlib.suppress(Unknown):
        if is_trivial(axes.tree(expression(template, labels))):
            return ""
    text = template
    for index, label in enumerate(labels):
        text = text.replace(f"{{{index}}}", axes.text(label))
    return text


def _dims(regions: list[dict[str, Any]], calls: Iterable[tuple[Sizes, int]]) -> list[list[str]]:
    """The dims of the picture, each a list of labels: labels that vary and were equal in each call make one dim."""
    rows = [dict(sizes) for sizes, _ in calls]
    labels = dict.fromkeys([label for row in rows for label in row])
    tied: dict[tuple[Any, ...], list[str]] = {}
    for label in labels:
        column = tuple([row.get(label) for row in rows])
        varies = len(set(column)) > 1 and label.startswith("L[")  # what was declared keeps its name
        tied.setdefault(column if varies else (label,), []).append(label)
    used = set().union(*[labels_of(tree) for region in regions for tree in region["conditions"]]) if regions else set()
    return [group for group in tied.values() if len({row.get(group[0]) for row in rows}) > 1 or used.intersection(group)]


def _title(tied: list[str]) -> str:
    """`x.size(0)`, or `ids.size(0) = mask.size(0)`, or `ids.size(0) = 5 others`."""
    names = sorted(map(short, tied), key=len)
    return " = ".join(names) if len(names) < 3 else f"{names[0]} = {len(names) - 1} others"


def _dims_to_show_first(dims: list[list[str]], calls: Iterable[tuple[Sizes, int]], regions: list[dict[str, Any]]) -> list[int]:
    """The two dims to show first: those with the most values, sizes before plain ints."""
    rows = [dict(sizes) for sizes, _ in calls]
    mentions: Counter[str] = Counter(
        label for region in regions for label in set().union(set(), *map(labels_of, region["conditions"]))
    )

    def rank(index: int) -> tuple[Any, ...]:
        tied = dims[index]
        values = len({row.get(tied[0]) for row in rows})
        return values > 1, ".size()[" in tied[0] or not tied[0].startswith("L["), max(mentions[label] for label in tied), values

    ranked = sorted(range(len(dims)), key=rank, reverse=True)[:2]
    return sorted(index for index in ranked if rank(index)[0]) or sorted(ranked)[:1]


def _most_frequent(label: str, calls: Counter[tuple[Sizes, int]]) -> int | None:
    counts: Counter[int] = Counter()
    for (sizes, _), count in calls.items():
        value = dict(sizes).get(label)
        if value is not None:
            counts[value] += count
    return counts.most_common(1)[0][0] if counts else None


def _value(tied: list[str], sizes: dict[str, int]) -> int | None:
    return next((sizes[label] for label in tied if label in sizes), None)


def _numbered(region: dict[str, Any], numbers: dict[str, int]) -> dict[str, Any]:
    """The region with numbers of dims in place of labels. Conditions on labels that are in no dim are left out and counted."""
    conditions = [tree for tree in region["conditions"] if labels_of(tree) <= numbers.keys()]
    unknown = region["unknown"] + len(region["conditions"]) - len(conditions)
    return {**region, "unknown": unknown, "conditions": [_renamed(tree, numbers) for tree in conditions]}


def _renamed(tree: Any, numbers: dict[str, int]) -> Any:
    if not isinstance(tree, list):
        return tree
    if tree[0] == "v":
        return ["v", numbers[tree[1]]]
    if tree[0] == "cmp":
        return ["cmp", tree[1], [_renamed(part, numbers) for part in tree[2]]]
    return [tree[0], *(_renamed(part, numbers) for part in tree[1:])]
