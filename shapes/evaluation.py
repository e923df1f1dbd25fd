"""The value of an expression at given numbers, computed exactly as Python would."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Symbol
from sympy.core.sorting import default_sort_key

from shapes.python_function import Number, PythonFunction, python_number
from shapes.sympy_functions import Where

COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
}


def ordered_args(expr: sympy.Basic) -> list[sympy.Basic]:
    """The arguments of an `And` or `Or` in the order in which Python evaluates (and prints) them."""
    return sorted(expr.args, key=default_sort_key)


def evaluate(expr: sympy.Basic, values: Mapping[Symbol, Number]) -> Any:
    """The value of `expr`, computed by Python's own operators; raises what Python raises.

    `values` gives a number for each symbol. Raises KeyError for a symbol without one and TypeError for a SymPy
    construct that has no Python meaning here.
    """
    if isinstance(expr, Symbol):
        return values[expr]
    number = python_number(expr)
    if number is not None:
        return number
    if expr is sympy.true or expr is sympy.false:
        return expr is sympy.true
    return _evaluate_compound(expr, values)


def _evaluate_compound(expr: sympy.Basic, values: Mapping[Symbol, Number]) -> Any:
    if isinstance(expr, sympy.And):
        return all(evaluate(arg, values) for arg in ordered_args(expr))
    if isinstance(expr, sympy.Or):
        return any(evaluate(arg, values) for arg in ordered_args(expr))
    if isinstance(expr, sympy.Not):
        return not evaluate(expr.args[0], values)
    if isinstance(expr, Where | sympy.ITE):
        condition, a, b = expr.args
        return evaluate(a if evaluate(condition, values) else b, values)
    args = [evaluate(arg, values) for arg in expr.args]
    python = COMPARISONS.get(type(expr)) or _ARITHMETIC.get(type(expr))
    if python is not None:
        return python(*args)
    if isinstance(expr, PythonFunction):
        return type(expr).python(*args)
    raise TypeError(f"no Python meaning for {type(expr).__name__} in {expr}")


def _add(*args: Number) -> Number:
    total = args[0]
    for arg in args[1:]:
        total = total + arg
    return total


def _mul(*args: Number) -> Number:
    product = args[0]
    for arg in args[1:]:
        product = product * arg
    return product


_ARITHMETIC: dict[type, Callable[..., Any]] = {
    sympy.Add: _add,
    sympy.Mul: _mul,
    sympy.Pow: operator.pow,
    sympy.Abs: abs,
    sympy.Mod: operator.mod,
    sympy.Max: max,
    sympy.Min: min,
}
