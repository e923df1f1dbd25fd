"""Conditions on sizes as nested lists of the operators that the page's script knows: `["cmp", ["<="], [2, ["v", "B"]]]`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

_BINARY: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip
_COMPARE: dict[type, str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_CALLS = ("max", "min", "abs")


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


def labels_of(tree: Any) -> set[str]:
    if not isinstance(tree, list):
        return set()
    if tree[0] == "v":
        return {tree[1]}
    return set().union(*map(labels_of, tree[2] if tree[0] == "cmp" else tree[1:]))


def substituted(tree: Any, values: Mapping[str, Any]) -> Any:
    """The expression with other ones in place of labels."""
    if not isinstance(tree, list):
        return tree
    if tree[0] == "v":
        return values.get(tree[1], tree)
    if tree[0] == "cmp":
        return ["cmp", tree[1], [substituted(part, values) for part in tree[2]]]
    return [tree[0], *(substituted(part, values) for part in tree[1:])]


def is_trivial(tree: Any) -> bool:
    """Whether it says of something that it is equal to itself."""
    return bool(isinstance(tree, list) and tree[:2] == ["cmp", ["=="]] and tree[2][0] == tree[2][1])
