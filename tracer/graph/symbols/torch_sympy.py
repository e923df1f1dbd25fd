"""SymPy expressions for PyTorch and from it: translates between the functions of `shapes.sympy_functions` and those of
`torch.utils._sympy`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import sympy
from sympy.logic.boolalg import BooleanFunction
from torch.utils._sympy import functions as t
from torch.utils._sympy.numbers import int_oo

from shapes import conversion
from shapes import sympy_functions as f
from shapes.conversion import SYMPY_FUNCTIONS
from shapes.math_functions import MATH_FUNCTIONS

_TO_TORCH: dict[type, Any] = {
    f.FloorDiv: t.FloorDiv,
    f.PythonMod: t.PythonMod,
    f.Max: t.Max,
    f.Min: t.Min,
    f.BitAnd: t.BitwiseFn_bitwise_and,
    f.BitOr: t.BitwiseFn_bitwise_or,
    f.BitXor: t.BitwiseFn_bitwise_xor,
    f.LShift: t.LShift,
    f.RShift: t.RShift,
    f.ToFloat: t.ToFloat,
    f.FloatAdd: sympy.Add,
    f.FloatMul: sympy.Mul,
    f.FloatNeg: lambda a: -a,
    f.FloatAbs: sympy.Abs,
    **{cls: getattr(t, f"OpaqueUnaryFn_{name}") for name, cls in MATH_FUNCTIONS.items()},
    f.FloorToInt: t.FloorToInt,
    f.CeilToInt: t.CeilToInt,
    f.TruncToInt: t.TruncToInt,
    f.RoundToInt: t.RoundToInt,
    f.RoundDecimal: t.RoundDecimal,
    f.Where: lambda condition, a, b: sympy.Piecewise((a, condition), (b, True)),
}


def to_torch_sympy(expr: Any, symbols: Mapping[Any, Any] | None = None) -> Any:
    """An expression of `shapes` in PyTorch's functions. `symbols` maps symbols to PyTorch's; one that it lacks stays."""
    if not expr.args:
        return (symbols or {}).get(expr, expr)
    args = [to_torch_sympy(arg, symbols) for arg in expr.args]
    if isinstance(expr, f.TrueDiv):
        ints = expr.args[0].is_integer and expr.args[1].is_integer
        return (t.IntTrueDiv if ints else t.FloatTrueDiv)(*args)
    if isinstance(expr, f.Pow):
        natural = expr.args[0].is_integer and expr.args[1].is_integer
        return (t.PowByNatural if natural else t.FloatPow)(*args)
    return _TO_TORCH.get(type(expr), expr.func)(*args)


def clauses(fact: sympy.Basic) -> Iterator[sympy.Basic]:
    """The parts of a fact that can be told to PyTorch one by one. It brings each into conjunctive normal form, which of a
    disjunction of conjunctions is exponentially large; such a part is left out."""
    if isinstance(fact, sympy.And):
        for part in fact.args:
            yield from clauses(part)
    elif not any(isinstance(part, BooleanFunction) for part in fact.args):
        yield fact


def _infinity(sign: int) -> conversion.Builder:
    """PyTorch's integer infinity, which `shapes` has as a float."""

    def build(algebra: Any, expr: Any) -> Any:
        return algebra.float_constant(sign * float("inf"))

    return build


_MOST_DIMS = 4  # the orders of more are too many


def _dense(algebra: Any, expr: Any) -> Any:
    """1 if dims of these sizes and strides fill their memory without overlaps, in whatever order they lie, else 0."""
    numbers = [algebra.from_sympy(arg) for arg in expr.args]
    dims = list(zip(numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]))
    if len(dims) > _MOST_DIMS:
        raise conversion.NotAnExpression(f"the layout of {len(dims)} dims is no shape expression")

    def filled(order: tuple[Any, ...]) -> Any:
        expected, facts = algebra.constant(1), []
        for size, stride in order:
            facts.append(algebra.relation("eq", size, algebra.constant(1)) | algebra.relation("eq", stride, expected))
            expected = algebra.mul(expected, size)
        return algebra.all_of(facts)

    return algebra.where(algebra.any_of(map(filled, itertools.permutations(dims))), algebra.constant(1), algebra.constant(0))


def register() -> None:
    """Lets `shapes` read expressions that are written in PyTorch's functions."""
    same_meaning: dict[type, type] = {
        t.FloorDiv: f.FloorDiv,
        t.Mod: f.PythonMod,
        t.PythonMod: f.PythonMod,
        t.Max: f.Max,
        t.Min: f.Min,
        t.BitwiseFn_bitwise_and: f.BitAnd,
        t.BitwiseFn_bitwise_or: f.BitOr,
        t.BitwiseFn_bitwise_xor: f.BitXor,
        t.LShift: f.LShift,
        t.RShift: f.RShift,
        t.ToFloat: f.ToFloat,
        t.IntTrueDiv: f.TrueDiv,
        t.FloatTrueDiv: f.TrueDiv,
        t.PowByNatural: f.Pow,
        t.FloatPow: f.Pow,
        t.FloorToInt: f.FloorToInt,
        t.CeilToInt: f.CeilToInt,
        t.CleanDiv: f.FloorDiv,
        t.TruncToInt: f.TruncToInt,
        t.RoundToInt: f.RoundToInt,
        t.RoundDecimal: f.RoundDecimal,
    }
    same_meaning.update({getattr(t, f"OpaqueUnaryFn_{name}"): cls for name, cls in MATH_FUNCTIONS.items()})
    for theirs, ours in same_meaning.items():
        SYMPY_FUNCTIONS[theirs] = SYMPY_FUNCTIONS[ours]
    SYMPY_FUNCTIONS[t.IsNonOverlappingAndDenseIndicator] = _dense
    SYMPY_FUNCTIONS[type(int_oo)] = _infinity(1)
    SYMPY_FUNCTIONS[type(-int_oo)] = _infinity(-1)
