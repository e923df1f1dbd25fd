"""The table of functions in expressions: how Python computes each, its interval, its SymPy form.

A new function is a row here, laws in `simplify` if some hold, an operator in the front end, and a row in
`conversion.SYMPY_FUNCTIONS`, which converts it back from SymPy.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any

import sympy

from shapes import ranges
from shapes import sympy_functions as f
from shapes.math_functions import MATH_FUNCTIONS
from shapes.ranges import Range


@dataclasses.dataclass(frozen=True)
class Operation:
    name: str
    python: Callable[..., Any]
    sympy: Callable[..., Any]
    range: Callable[..., Range] | None = None  # None: any value


def _where(condition: bool, a: Any, b: Any) -> Any:
    return a if condition else b


def _either(condition: Any, a: Range, b: Range) -> Range:
    return ranges.join(a, b)


INTEGER: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("floordiv", operator.floordiv, f.FloorDiv, ranges.floordiv),
        Operation("mod", operator.mod, f.PythonMod, ranges.mod),
        Operation("max", max, f.Max, ranges.maximum),
        Operation("min", min, f.Min, ranges.minimum),
        Operation("pow", operator.pow, f.Pow, ranges.power),
        Operation("product", operator.mul, sympy.Mul, ranges.mul),
        Operation("bitand", operator.and_, f.BitAnd, ranges.bitand),
        Operation("bitor", operator.or_, f.BitOr, ranges.bitor),
        Operation("bitxor", operator.xor, f.BitXor, ranges.bitxor),
        Operation("lshift", operator.lshift, f.LShift, ranges.lshift),
        Operation("rshift", operator.rshift, f.RShift, ranges.rshift),
        Operation("where", _where, f.Where, _either),
        Operation("floor", math.floor, f.FloorToInt, ranges.rounded(math.floor)),
        Operation("ceil", math.ceil, f.CeilToInt, ranges.rounded(math.ceil)),
        Operation("trunc", math.trunc, f.TruncToInt, ranges.rounded(math.trunc)),
        Operation("round", round, f.RoundToInt, ranges.rounded(round)),
    )
}


def _sub(a: Any, b: Any) -> Any:
    return f.FloatAdd(a, f.FloatNeg(b))  # a - b and a + -b are one operation in IEEE arithmetic


def _max(a: Any, b: Any) -> Any:
    return f.Where(sympy.Gt(b, a, evaluate=False), b, a)  # Python's max, also of nan and -0.0


def _min(a: Any, b: Any) -> Any:
    return f.Where(sympy.Lt(b, a, evaluate=False), b, a)


# Integers are arguments of "float" and "int_truediv" alone, and the digits of "round_digits".
FLOAT: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("float", float, f.ToFloat, ranges.to_float),
        Operation("int_truediv", operator.truediv, f.TrueDiv, ranges.int_div),
        Operation("truediv", operator.truediv, f.TrueDiv, ranges.float_div),
        Operation("neg", operator.neg, f.FloatNeg, ranges.float_neg),
        Operation("abs", abs, f.FloatAbs, ranges.float_abs),
        Operation("add", operator.add, f.FloatAdd, ranges.float_add),
        Operation("sub", operator.sub, _sub, ranges.float_sub),
        Operation("mul", operator.mul, f.FloatMul, ranges.float_mul),
        Operation("floordiv", operator.floordiv, f.FloatFloorDiv),
        Operation("mod", operator.mod, f.FloatMod),
        Operation("pow", operator.pow, f.Pow),
        Operation("max", max, _max, ranges.maximum),
        Operation("min", min, _min, ranges.minimum),
        Operation("round_digits", round, f.RoundDecimal),
        Operation("where", _where, f.Where),
        *(Operation(name, getattr(math, name), cls) for name, cls in MATH_FUNCTIONS.items()),
    )
}
