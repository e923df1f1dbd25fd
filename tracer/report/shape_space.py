"""The data for the picture of a function's shapes: the region of each entry, and the calls.

The page's script draws it (`shape_space.js`). Expressions become nested lists of the operators that the script knows. Conditions
with others (strides, functions of floats) are left out and counted.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tracer.report.findings import Entry, Function, Part, Sizes

MOST_POINTS = 1500  # different calls in one picture; the most frequent ones
_BINARY: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip
_COMPARE: dict[type, str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_CALLS = ("max", "min", "abs")
_LOCAL = re.compile(r"L\['(?:kwargs'\]\[')?(\w+)'\]")
_SIZE = re.compile(r"\.(size|stride)\(\)\[(\d+)\]")


class Unknown(ValueError):
    """An expression that the script cannot evaluate."""


def expression(template: str, labels: list[str]) -> Any:
    """`"{0} % 8 == 0"` with its labels, as `["cmp", ["=="], [["%", ["v", label], 8], 0]]`."""
    text = template
    for index in range(len(labels)):
        text = text.replace(f"{{{index}}}", f"_{index}")
    try:
        return _tree(ast.parse(text.strip(), mode="eval").body, {f"_{index}": label for index, label in enumerate(labels)})
    except (SyntaxError, RecursionError) as error:
        raise Unknown(str(error)) from None


def _tree(node: ast.expr, names: dict[str, str]) -> Any:
    def inner(part: ast.expr) -> Any:
        return _tree(part, names)

    match node:
        case ast.Constant(value=bool() | int() as value):
            return int(value)
        case ast.Name(id=name) if name in names:
            return ["v", names[name]]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return [_BINARY[type(op)], inner(left), inner(right)]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return ["-", 0, inner(operand)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ["not", inner(operand)]
        case ast.BoolOp(op=op, values=values):
            return ["and" if isinstance(op, ast.And) else "or", *map(inner, values)]
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARE for op in ops):
            return ["cmp", [_COMPARE[type(op)] for op in ops], [inner(left), *map(inner, rest)]]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return ["if", inner(test), inner(body), inner(orelse)]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            return [name, *map(inner, args)]
    raise Unknown(ast.unparse(node))


def _labels(tree: Any) -> set[str]:
    if not isinstance(tree, list):
        return set()
    if tree[0] == "v":
        return {tree[1]}
    return set().union(*map(_labels, tree[2] if tree[0] == "cmp" else tree[1:]))


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
    missed = part.missed.get(group, Counter())
    calls: Counter[tuple[Sizes, int]] = Counter({(sizes, 0): count for sizes, count in missed.items()})
    for entry in entries:
        for sizes, count in entry.served.items():
            calls[sizes, entry.number] += count
    regions = [_region(entry) for entry in entries]
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


def _region(entry: Entry) -> dict[str, Any]:
    shape_region = entry.record.get("region_of_shapes", {})
    conditions, unknown = [], 0
    for line in shape_region.get("lines", ()):
        try:
            conditions.append(expression(line["template"], line["labels"]))
        except Unknown:
            unknown += 1
    conditions += [["cmp", ["=="], [["v", label], size]] for label, size in shape_region.get("fixed", {}).items()]
    kept = [tree for tree in conditions if not any(_is_layout(label) for label in _labels(tree))]
    return {
        "number": entry.number,
        "anchor": entry.anchor,
        "kind": entry.kind,
        "hits": entry.served.total(),
        "text": words(entry),
        "conditions": kept,
        "ranks": shape_region.get("ranks", {}),
        "unknown": unknown,
    }


def _is_layout(label: str) -> bool:
    return ".stride()[" in label or label.endswith(".storage_offset()")


def words(entry: Entry) -> str:
    """The conditions of an entry on sizes, but not on strides, in a line."""
    shape_region = entry.record.get("region_of_shapes", {})
    lines = [short(_filled(line)) for line in shape_region.get("lines", ()) if not any(map(_is_layout, line["labels"]))]
    fixed = [f"{short(label)} == {size}" for label, size in shape_region.get("fixed", {}).items()]
    return ", ".join([*lines, *fixed]) or "any size"


def _filled(line: dict[str, Any]) -> str:
    text: str = line["template"]
    for index, label in enumerate(line["labels"]):
        text = text.replace(f"{{{index}}}", label)
    return text


def short(text: str) -> str:
    """`L['x'].size()[0]` as `x.size(0)`."""
    return _SIZE.sub(r".\1(\2)", _LOCAL.sub(r"\1", text))


def _dims(regions: list[dict[str, Any]], calls: Iterable[tuple[Sizes, int]]) -> list[list[str]]:
    """The dims of the picture, each a list of labels: labels that vary and were equal in each call make one dim."""
    rows = [dict(sizes) for sizes, _ in calls]
    labels = dict.fromkeys([label for row in rows for label in row])
    tied: dict[tuple[Any, ...], list[str]] = {}
    for label in labels:
        column = tuple([row.get(label) for row in rows])
        varies = len(set(column)) > 1
        tied.setdefault(column if varies else (label,), []).append(label)
    used = set().union(*[_labels(tree) for region in regions for tree in region["conditions"]]) if regions else set()
    return [group for group in tied.values() if len({row.get(group[0]) for row in rows}) > 1 or used.intersection(group)]


def _title(tied: list[str]) -> str:
    """`x.size(0)`, or `ids.size(0) = mask.size(0)`, or `ids.size(0) = 5 others`."""
    names = sorted(map(short, tied), key=len)
    return " = ".join(names) if len(names) < 3 else f"{names[0]} = {len(names) - 1} others"


def _dims_to_show_first(dims: list[list[str]], calls: Iterable[tuple[Sizes, int]], regions: list[dict[str, Any]]) -> list[int]:
    """The two dims to show first: those with the most values, sizes before plain ints."""
    rows = [dict(sizes) for sizes, _ in calls]
    mentions: Counter[str] = Counter(
        label for region in regions for label in set().union(set(), *map(_labels, region["conditions"]))
    )

    def rank(index: int) -> tuple[Any, ...]:
        tied = dims[index]
        values = len({row.get(tied[0]) for row in rows})
        return values > 1, ".size()[" in tied[0], max(mentions[label] for label in tied), values

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
    conditions = [tree for tree in region["conditions"] if _labels(tree) <= numbers.keys()]
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
