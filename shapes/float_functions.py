"""Float arithmetic, and conversions between floats and integers, as SymPy functions.

Rounding obeys few laws, so nothing is reordered, and only constants are evaluated.
"""

import math
import operator
from typing import Any

import sympy
from sympy import Expr, Float, Integer

from shapes.python_function import (
    FloatFunction,
    Form,
    IntegerFunction,
    PythonFunction,
    is_integral,
    on_numbers,
    python_number,
    sympy_number,
)


class Pow(PythonFunction):
    """a ** b as Python has it: an integer for an integer a and an integer b >= 0, else a float."""

    nargs = (2,)
    python = operator.pow
    form = Form("**", infix=True)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if is_integral(a) and b.is_Integer and 0 <= int(b) <= 64:
            return sympy.Pow(a, b)  # x ** n, a product
        return None if _is_huge(a, b) else on_numbers(operator.pow, (a, b))

    def _eval_is_integer(self) -> bool | None:
        a, b = self.args
        return True if is_integral(a) and is_integral(b) and b.is_nonnegative else None


def _is_huge(base: Expr, exponent: Expr) -> bool:
    """The power has more than some thousand bits; it is not computed."""
    if not (base.is_Integer and exponent.is_Integer):
        return False
    return int(base).bit_length() * abs(int(exponent)) > 4096


class TrueDiv(FloatFunction):
    """a / b, correctly rounded also for large integers."""

    nargs = (2,)
    python = operator.truediv
    form = Form("/", infix=True)


class FloatAdd(FloatFunction):
    """a + b where one is a float."""

    nargs = (2,)
    python = operator.add
    form = Form("+", infix=True)


class FloatMul(FloatFunction):
    """a * b where one is a float."""

    nargs = (2,)
    python = operator.mul
    form = Form("*", infix=True)


class FloatFloorDiv(FloatFunction):
    """a // b where one is a float."""

    nargs = (2,)
    python = operator.floordiv
    form = Form("//", infix=True)


class FloatMod(FloatFunction):
    """a % b where one is a float."""

    nargs = (2,)
    python = operator.mod
    form = Form("%", infix=True)


class FloatNeg(FloatFunction):
    """-a of a float."""

    nargs = (1,)
    python = operator.neg
    form = Form("-")

    @classmethod
    def eval(cls, a: Expr) -> Expr | None:
        if isinstance(a, FloatNeg):  # -(-x) -> x, also for floats
            return a.args[0]
        return on_numbers(operator.neg, (a,))


class FloatAbs(FloatFunction):
    """abs(a) of a float."""

    nargs = (1,)
    python = abs
    form = Form("abs")


class ToFloat(FloatFunction):
    """float(a)"""

    nargs = (1,)
    python = float
    form = Form("float")

    @classmethod
    def eval(cls, a: Expr) -> Expr | None:
        if isinstance(a, FloatFunction):  # float(x) -> x, x a float
            return a
        return on_numbers(float, (a,))


class RoundDecimal(FloatFunction):
    """round(a, ndigits) of a float."""

    nargs = (2,)
    python = round
    form = Form("round")


class _FloatToInt(IntegerFunction):
    """A rounding; of an integer it is that integer."""

    nargs = (1,)

    @classmethod
    def eval(cls, a: Expr) -> Expr | None:
        if is_integral(a):  # floor(n) -> n, n an integer
            return a
        number: Any = python_number(a)
        return None if number is None else Integer(cls.python(number))


class FloorToInt(_FloatToInt):
    """math.floor(a)"""

    python = math.floor
    form = Form("math.floor")


class CeilToInt(_FloatToInt):
    """math.ceil(a)"""

    python = math.ceil
    form = Form("math.ceil")


class TruncToInt(_FloatToInt):
    """int(a), math.trunc(a)"""

    python = math.trunc
    form = Form("math.trunc")


class RoundToInt(_FloatToInt):
    """round(a), halves to even"""

    python = round
    form = Form("round")


def float_constant(value: float) -> Expr:
    """A float as an expression, -0.0 included (as the negation of 0.0, which stays unevaluated)."""
    constant = sympy_number(float(value))
    return FloatNeg(Float(0.0)) if constant is None else constant
