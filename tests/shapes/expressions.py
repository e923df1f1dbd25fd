"""Random expressions: a tree that Python computes by itself, and the SymPy expression built from it."""

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import sympy
from hypothesis import strategies as st

from shapes import sympy_functions as f

X, Y, Z = SYMBOLS = sympy.symbols("x y z", integer=True)
NAMES = {X: "x", Y: "y", Z: "z"}

RAISED = "raised"  # stands for any arithmetic error, as a guard that raises is a miss


def outcome(compute: Callable[..., Any], *args: Any) -> Any:
    """The result with its type (1, 1.0 and True are three), or RAISED."""
    try:
        value = compute(*args)
    except (ArithmeticError, ValueError):
        return RAISED
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return type(value).__name__, value, math.copysign(1, value) if isinstance(value, float) else 0


class Operation(NamedTuple):
    name: str
    python: Callable[..., Any]
    sympy: Callable[..., Any]
    arity: int


INTEGER_OPERATIONS = [
    Operation("+", operator.add, operator.add, 2),
    Operation("-", operator.sub, operator.sub, 2),
    Operation("*", operator.mul, operator.mul, 2),
    Operation("neg", operator.neg, operator.neg, 1),
    Operation("//", operator.floordiv, f.FloorDiv, 2),
    Operation("%", operator.mod, f.PythonMod, 2),
    Operation("max", max, f.Max, 2),
    Operation("min", min, f.Min, 2),
    Operation("&", operator.and_, f.BitAnd, 2),
    Operation("|", operator.or_, f.BitOr, 2),
    Operation("^", operator.xor, f.BitXor, 2),
    Operation("abs", abs, sympy.Abs, 1),
    Operation("square", lambda a: a**2, lambda a: f.Pow(a, sympy.Integer(2)), 1),
    Operation(">>3", lambda a: a >> 3, lambda a: f.RShift(a, sympy.Integer(3)), 1),
    Operation("<<2", lambda a: a << 2, lambda a: f.LShift(a, sympy.Integer(2)), 1),
]
FLOAT_OPERATIONS = [
    Operation("/", operator.truediv, f.TrueDiv, 2),
    Operation("f+", lambda a, b: float(a) + b, lambda a, b: f.FloatAdd(f.ToFloat(a), b), 2),
    Operation("f*", lambda a, b: float(a) * b, lambda a, b: f.FloatMul(f.ToFloat(a), b), 2),
    Operation("f//", lambda a, b: float(a) // b, lambda a, b: f.FloatFloorDiv(f.ToFloat(a), b), 2),
    Operation("f%", lambda a, b: float(a) % b, lambda a, b: f.FloatMod(f.ToFloat(a), b), 2),
    Operation("fneg", lambda a: -float(a), lambda a: f.FloatNeg(f.ToFloat(a)), 1),
    Operation("fabs", lambda a: abs(float(a)), lambda a: f.FloatAbs(f.ToFloat(a)), 1),
]
ROUNDINGS = [
    Operation("floor", math.floor, f.FloorToInt, 1),
    Operation("ceil", math.ceil, f.CeilToInt, 1),
    Operation("trunc", math.trunc, f.TruncToInt, 1),
    Operation("round", round, f.RoundToInt, 1),
]
COMPARISONS = [
    Operation("==", operator.eq, sympy.Eq, 2),
    Operation("!=", operator.ne, sympy.Ne, 2),
    Operation("<", operator.lt, sympy.Lt, 2),
    Operation("<=", operator.le, sympy.Le, 2),
    Operation(">", operator.gt, sympy.Gt, 2),
    Operation(">=", operator.ge, sympy.Ge, 2),
]

Tree = Any  # a symbol, an int, or (operation, trees)


def python_value(tree: Tree, values: dict[sympy.Symbol, int]) -> Any:
    """The tree by Python's operators alone."""
    if isinstance(tree, sympy.Symbol):
        return values[tree]
    if not isinstance(tree, tuple):
        return tree
    operation, args = tree
    return operation.python(*(python_value(arg, values) for arg in args))


def expression(tree: Tree) -> Any:
    """The tree as SymPy builds it; may raise what Python raises on constants."""
    if not isinstance(tree, tuple):
        return sympy.sympify(tree)
    operation, args = tree
    return operation.sympy(*map(expression, args))


def _applied(operations: list[Operation], children: st.SearchStrategy) -> st.SearchStrategy:
    return st.sampled_from(operations).flatmap(
        lambda operation: st.tuples(st.just(operation), st.tuples(*[children] * operation.arity))
    )


_leaves = st.sampled_from(SYMBOLS) | st.integers(-9, 9)
integer_trees = st.recursive(_leaves, lambda children: _applied(INTEGER_OPERATIONS, children), max_leaves=6)
float_trees = st.recursive(
    _applied(FLOAT_OPERATIONS, integer_trees), lambda children: _applied(FLOAT_OPERATIONS, children), max_leaves=3
)
rounded_trees = _applied(ROUNDINGS, float_trees)
relation_trees = _applied(COMPARISONS, integer_trees)

_SMALL = [op for op in INTEGER_OPERATIONS if op.name in {"+", "-", "*", "//", "%", "max", "min"}]
small_trees = st.recursive(_leaves, lambda children: _applied(_SMALL, children), max_leaves=3)
small_relations = _applied(COMPARISONS, small_trees)

values = st.fixed_dictionaries({symbol: st.integers(-20, 20) for symbol in SYMBOLS})
