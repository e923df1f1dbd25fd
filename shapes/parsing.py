"""Python text to SymPy: the expressions and relations over named integers that a person writes, `S % 128 == 0`.

Also reads back what `shapes.printing` prints of integers. Anything else is a `ParseError` that shows the text.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import sympy

from shapes.sympy_functions import BitAnd, BitOr, BitXor, FloorDiv, LShift, Max, Min, Pow, PythonMod, RShift, Where


class ParseError(ValueError):
    """The text is no expression over integers."""


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: FloorDiv,
    ast.Mod: PythonMod,
    ast.LShift: LShift,
    ast.RShift: RShift,
    ast.BitAnd: BitAnd,
    ast.BitOr: BitOr,
    ast.BitXor: BitXor,
    ast.Pow: Pow,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "max": lambda *args: functools.reduce(Max, args),
    "min": lambda *args: functools.reduce(Min, args),
    "abs": sympy.Abs,
}


@functools.cache
def variable(name: str) -> sympy.Symbol:
    """The SymPy symbol of a named integer."""
    return sympy.Symbol(name, integer=True)


def parse_integer(text: str) -> Any:
    """`B*2 + 1`"""
    return _Reader(text).integer(_tree(text))


def parse_condition(text: str) -> Any:
    """`S <= T`, `1 <= B <= 256`, `S % 8 == 0 or B == 1`"""
    return _Reader(text).boolean(_tree(text))


def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ParseError(f"{text!r} is not an expression") from None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def refuse(self, node: ast.expr, expected: str) -> ParseError:
        return ParseError(f"{ast.unparse(node)!r} in {self.text!r} is not {expected}")

    def integer(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return sympy.Integer(node.value)
        if isinstance(node, ast.Name):
            return variable(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return _BINARY[type(node.op)](self.integer(node.left), self.integer(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.integer(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS and node.args:
            return _CALLS[node.func.id](*map(self.integer, node.args))
        if isinstance(node, ast.IfExp):
            return Where(self.boolean(node.test), self.integer(node.body), self.integer(node.orelse))
        raise self.refuse(node, "an integer expression: names, numbers, + - * // % and the like")

    def boolean(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) is bool:
            return sympy.true if node.value else sympy.false
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
            terms = [self.integer(term) for term in (node.left, *node.comparators)]
            return sympy.And(*(_COMPARE[type(op)](a, b) for op, a, b in zip(node.ops, terms, terms[1:])))
        if isinstance(node, ast.BoolOp):
            kind = sympy.And if isinstance(node.op, ast.And) else sympy.Or
            return kind(*map(self.boolean, node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return sympy.Not(self.boolean(node.operand))
        raise self.refuse(node, "a condition such as S <= T or S % 8 == 0")
