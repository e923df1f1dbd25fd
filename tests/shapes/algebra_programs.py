"""Random programs over integers, run by Python and by the algebra."""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from shapes import ShapeEnv
from shapes.evaluation import evaluate
from shapes.printing import NAMESPACE, python_source

MORE = 20 if "--full" in sys.argv else 1


def examples(number: int) -> settings:
    """How many random cases a test tries; more under --full."""
    return settings(max_examples=number * MORE, deadline=None)


Tree = Any  # ("symbol", i) | ("constant", n) | (operation, tree, tree)


@dataclasses.dataclass(frozen=True)
class Named:
    """A label that is nothing but its name."""

    name: str


PYTHON: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": max,
    "min": min,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": lambda a, b: a << (b % 8),
    ">>": lambda a, b: a >> (b % 8),
    "**": lambda a, b: a ** (b % 4),
    "abs": lambda a, b: abs(a),
    "where": lambda a, b: a if a < b else b + 1,
}


def build(env: ShapeEnv, tree: Tree, symbols: Sequence[Any]) -> Any:
    """The expression of a program."""
    if tree[0] == "symbol":
        return symbols[tree[1]]
    if tree[0] == "constant":
        return env.algebra.integer(tree[1])
    op = tree[0]
    a, b = build(env, tree[1], symbols), build(env, tree[2], symbols)
    algebra = env.algebra
    special: dict[str, Callable[[], Any]] = {
        "max": lambda: algebra.maximum(a, b),
        "min": lambda: algebra.minimum(a, b),
        "&": lambda: algebra.bitwise("bitand", a, b),
        "|": lambda: algebra.bitwise("bitor", a, b),
        "^": lambda: algebra.bitwise("bitxor", a, b),
        "<<": lambda: algebra.bitwise("lshift", a, b % 8),
        ">>": lambda: algebra.bitwise("rshift", a, b % 8),
        "**": lambda: algebra.power(a, b % 4),
        "abs": lambda: abs(a),
        "where": lambda: algebra.where(a < b, a, b + 1),
    }
    return special[op]() if op in special else PYTHON[op](a, b)


def run(tree: Tree, values: Sequence[int]) -> int:
    """What Python computes; raises ZeroDivisionError where it does."""
    if tree[0] == "symbol":
        return values[tree[1]]
    if tree[0] == "constant":
        return tree[1]
    return PYTHON[tree[0]](run(tree[1], values), run(tree[2], values))


def trees(symbols: int, operations: Sequence[str] = tuple(PYTHON), max_leaves: int = 8) -> st.SearchStrategy[Tree]:
    leaves = st.one_of(
        st.tuples(st.just("symbol"), st.integers(0, symbols - 1)),
        st.tuples(st.just("constant"), st.integers(-9, 9)),
    )
    return st.recursive(leaves, lambda inner: st.tuples(st.sampled_from(operations), inner, inner), max_leaves=max_leaves)


def sizes(env: ShapeEnv, hints: Sequence[int]) -> list[Any]:
    """Symbols of tensor sizes: at least 2."""
    return [env.create_size(hint, Named(f"s[{i}]")) for i, hint in enumerate(hints)]


def ints(env: ShapeEnv, hints: Sequence[int]) -> list[Any]:
    """Symbols of plain ints: any value."""
    return [env.create_int(hint, Named(f"n[{i}]")) for i, hint in enumerate(hints)]


def function_of(expr: Any, symbols: Sequence[Any]) -> Callable[..., Any]:
    """The expression as a Python function of the symbols' values, through its printed form."""
    names = {symbol.sympy: f"x{i}" for i, symbol in enumerate(symbols)}
    return eval(f"lambda {', '.join(names.values())}: {python_source(expr.sympy, names)}", dict(NAMESPACE))


def at(expr: Any, symbols: Sequence[Any], values: Sequence[int]) -> Any:
    """The value of an expression, through its SymPy form."""
    return evaluate(expr.sympy, {symbol.sympy: value for symbol, value in zip(symbols, values, strict=True)})


def readable(env: ShapeEnv) -> list[str]:
    return [guard.readable for guard in env.produce_guards()]
