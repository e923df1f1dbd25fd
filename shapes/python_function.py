"""Base classes of the SymPy functions that stand for Python's, and the conversion of constants between Python and SymPy."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import sympy
from sympy import Expr, Float, Integer

Number = float  # or int, or bool


class Form(NamedTuple):
    """How a function is printed: an infix operator, or a call."""

    text: str
    infix: bool = False


class PythonFunction(sympy.Function):
    """A SymPy function that stands for a Python callable; `shapes.printing` prints it as Python."""

    python: ClassVar[Callable[..., Any]]
    form: ClassVar[Form]

    def _sympystr(self, printer: Any) -> str:
        if self.form.infix:
            return "(" + f" {self.form.text} ".join(printer._print(arg) for arg in self.args) + ")"
        return f"{self.form.text}({', '.join(printer._print(arg) for arg in self.args)})"

    def _eval_evalf(self, prec: int) -> None:
        return None


class IntegerFunction(PythonFunction):
    """A function whose value is an integer."""

    is_integer = True


class FloatFunction(PythonFunction):
    """A function whose value is a Python float. Only applications to constants are evaluated; for the solver it is unknown."""

    is_extended_real = None

    @classmethod
    def eval(cls, *args: Expr) -> Expr | None:
        return on_numbers(cls.python, args)


def is_integral(expr: Expr) -> bool:
    """The value is a Python int. (SymPy also calls the constant 0.0 an integer.)"""
    if isinstance(expr, IntegerFunction | Integer):
        return True
    if isinstance(expr, sympy.Add | sympy.Mul):  # without SymPy's assumptions, which take their time
        return all(map(is_integral, expr.args))
    return expr.is_integer is True and not isinstance(expr, Float)


def python_number(expr: Any) -> float | None:
    """The Python number of a SymPy constant; None for anything else."""
    if isinstance(expr, Integer):
        return int(expr)
    if isinstance(expr, Float):
        return float(expr)
    if expr is sympy.S.Infinity:
        return math.inf
    if expr is sympy.S.NegativeInfinity:
        return -math.inf
    if expr is sympy.S.NaN:
        return math.nan
    return None


def sympy_number(value: Number) -> Expr | None:
    """The SymPy constant of a Python number; None for -0.0, which SymPy cannot hold."""
    if isinstance(value, int):
        return Integer(int(value))
    if math.isnan(value):
        return sympy.S.NaN
    if math.isinf(value):
        return sympy.S.Infinity if value > 0 else sympy.S.NegativeInfinity
    if value == 0.0 and math.copysign(1.0, value) < 0:
        return None
    return Float(value)


def on_numbers(function: Callable[..., Number], args: tuple[Expr, ...]) -> Expr | None:
    """`function` of the arguments if all are constants and SymPy can hold the result."""
    numbers = []
    for arg in args:
        number = python_number(arg)
        if number is None:
            return None
        numbers.append(number)
    return sympy_number(function(*numbers))
