"""The functions of Python's numbers, as SymPy functions with Python's semantics.

Each class evaluates constants, and applies a few laws that hold for every integer, given in comments; further simplification is
done by `simplify` on polynomials. Where Python raises (`x // 0`, `1 << -1`) constants raise too, and no law divides by zero.
This module has the functions of integers, `float_functions` those of floats. `FUNCTIONS` has all by name, each with its Python
callable (`.python`) and its printed form (`.form`).
"""

import operator
from typing import Any, ClassVar

import sympy
from sympy import Expr, Integer
from sympy.core.sorting import default_sort_key
from sympy.logic.boolalg import Boolean

from shapes.float_functions import (
    CeilToInt,
    FloatAbs,
    FloatAdd,
    FloatFloorDiv,
    FloatMod,
    FloatMul,
    FloatNeg,
    FloorToInt,
    Pow,
    RoundDecimal,
    RoundToInt,
    ToFloat,
    TrueDiv,
    TruncToInt,
    float_constant,
)
from shapes.python_function import (
    FloatFunction,
    Form,
    IntegerFunction,
    Number,
    PythonFunction,
    is_integral,
    python_number,
    sympy_number,
)


def _exact_quotient(numerator: Expr, divisor: int) -> Expr | None:
    """numerator / divisor when every coefficient is divisible; None else."""
    terms = []
    for term in sympy.Add.make_args(numerator):
        coefficient, rest = term.as_coeff_Mul()
        if not isinstance(coefficient, Integer) or int(coefficient) % divisor:
            return None
        terms.append(Integer(int(coefficient) // divisor) * rest)
    return sympy.Add(*terms)


class FloorDiv(IntegerFunction):
    """a // b of integers, rounding towards minus infinity."""

    nargs = (2,)
    python = operator.floordiv
    form = Form("//", infix=True)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if b.is_Integer:
            divisor = int(b)
            if divisor == 0:
                raise ZeroDivisionError("integer division or modulo by zero")
            if a.is_Integer:
                return Integer(int(a) // divisor)
            if divisor == 1:  # x // 1 -> x
                return a
            if divisor == -1:  # x // -1 -> -x
                return -a
            if isinstance(a, FloorDiv) and a.args[1].is_Integer and divisor > 0 and int(a.args[1]) > 0:
                return FloorDiv(a.args[0], a.args[1] * b)  # (x // m) // n -> x // (m*n), m and n positive
            return _exact_quotient(a, divisor)  # (n*x + n*y) // n -> x + y
        if b.is_nonzero:
            if a == b:  # x // x -> 1, x nonzero
                return sympy.S.One
            if a.is_zero:  # 0 // x -> 0, x nonzero
                return sympy.S.Zero
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        a, b = self.args
        return True if a.is_nonnegative and b.is_positive else None


class PythonMod(IntegerFunction):
    """a % b of integers, with the sign of b."""

    nargs = (2,)
    python = operator.mod
    form = Form("%", infix=True)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if b.is_Integer:
            divisor = int(b)
            if divisor == 0:
                raise ZeroDivisionError("integer division or modulo by zero")
            if a.is_Integer:
                return Integer(int(a) % divisor)
            if divisor in (1, -1):  # x % 1 -> 0, x % -1 -> 0
                return sympy.S.Zero
            if _exact_quotient(a, divisor) is not None:  # (n*x + n*y) % n -> 0
                return sympy.S.Zero
        elif b.is_nonzero and (a == b or a.is_zero):  # x % x -> 0, 0 % x -> 0, x nonzero
            return sympy.S.Zero
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_positive else None  # 0 <= x % n < n, n positive


class BitAnd(IntegerFunction):
    """a & b of integers, on two's complement without end."""

    nargs = (2,)
    python = operator.and_
    form = Form("&", infix=True)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if a.is_Integer and b.is_Integer:
            return Integer(int(a) & int(b))
        if a == b:  # x & x -> x
            return a
        if a.is_zero or b.is_zero:  # x & 0 -> 0
            return sympy.S.Zero
        if a == -1 or b == -1:  # x & -1 -> x
            return b if a == -1 else a
        return _in_order(cls, a, b)


class BitOr(IntegerFunction):
    """a | b of integers."""

    nargs = (2,)
    python = operator.or_
    form = Form("|", infix=True)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if a.is_Integer and b.is_Integer:
            return Integer(int(a) | int(b))
        if a == b:  # x | x -> x
            return a
        if a.is_zero or b.is_zero:  # x | 0 -> x
            return b if a.is_zero else a
        if a == -1 or b == -1:  # x | -1 -> -1
            return sympy.S.NegativeOne
        return _in_order(cls, a, b)


class BitXor(IntegerFunction):
    """a ^ b of integers."""

    nargs = (2,)
    python = operator.xor
    form = Form("^", infix=True)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if a.is_Integer and b.is_Integer:
            return Integer(int(a) ^ int(b))
        if a == b:  # x ^ x -> 0
            return sympy.S.Zero
        if a.is_zero or b.is_zero:  # x ^ 0 -> x
            return b if a.is_zero else a
        if a == -1 or b == -1:  # x ^ -1 -> ~x -> -x - 1
            return -(b if a == -1 else a) - 1
        return _in_order(cls, a, b)


def _in_order(cls: type, a: Expr, b: Expr) -> Expr | None:
    """The commuted application if the arguments stand in the wrong order: a & b and b & a are one expression."""
    return cls(b, a) if default_sort_key(b) < default_sort_key(a) else None


class LShift(IntegerFunction):
    """a << b of integers; a negative b raises."""

    nargs = (2,)
    python = operator.lshift
    form = Form("<<", infix=True)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if b.is_Integer:
            if int(b) < 0:
                raise ValueError("negative shift count")
            if int(b) <= 64 or a.is_Integer:
                return a * Integer(1 << int(b))  # x << n -> x * 2**n
        return None


class RShift(IntegerFunction):
    """a >> b of integers; a negative b raises."""

    nargs = (2,)
    python = operator.rshift
    form = Form(">>", infix=True)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if b.is_Integer:
            if int(b) < 0:
                raise ValueError("negative shift count")
            if a.is_Integer:
                return Integer(int(a) >> int(b))
            if int(b) <= 64:
                return FloorDiv(a, Integer(1 << int(b)))  # x >> n -> x // 2**n
        return None


# ------------------------------------------------------------------------------------- minimum and maximum


class _Extremum(PythonFunction):
    """Max and Min. Of integers: flat, without repeats, at most one constant, arguments in canonical order.

    With a float among them the arguments stay as they are: the result depends on their order for NaN and for 0.0 and -0.0.
    """

    enough: ClassVar[Any]  # the builtin `any` or `all`: how many arguments with a sign decide that of the result

    def __new__(cls, *args: Any, **options: Any) -> Any:
        given = [sympy.sympify(arg) for arg in args]
        if not given:
            raise TypeError(f"{cls.__name__} needs at least one argument")
        if options.get("evaluate", True) and all(map(is_integral, given)):
            given = cls._canonical(given)
        return given[0] if len(given) == 1 else sympy.Function.__new__(cls, *given, evaluate=False)

    @classmethod
    def _canonical(cls, args: list[Expr]) -> list[Expr]:
        flat: set[Expr] = set()
        for arg in args:
            flat.update(arg.args if isinstance(arg, cls) else (arg,))  # max(max(x, y), z) -> max(x, y, z)
        constants = [int(arg) for arg in flat if arg.is_Integer]
        if len(constants) > 1:  # max(x, 2, 3) -> max(x, 3)
            flat = {arg for arg in flat if not arg.is_Integer} | {Integer(cls.python(constants))}
        return sorted(flat, key=default_sort_key)  # max(x, x) -> x

    def _eval_is_integer(self) -> bool | None:
        return True if all(map(is_integral, self.args)) else None

    def _eval_is_extended_real(self) -> bool | None:
        return True if all(arg.is_extended_real for arg in self.args) else None

    def _eval_is_positive(self) -> bool | None:
        return True if self.enough(arg.is_positive for arg in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.enough(arg.is_nonnegative for arg in self.args) else None


class Max(_Extremum):
    """max(a, b, ...)"""

    python = max
    form = Form("max")
    enough = any  # one positive argument makes the maximum positive


class Min(_Extremum):
    """min(a, b, ...)"""

    python = min
    form = Form("min")
    enough = all  # the minimum is positive if all arguments are


class Where(PythonFunction):
    """a if condition else b; only one of them is computed."""

    nargs = (3,)
    form = Form("where")

    @classmethod
    def eval(cls, condition: Boolean, a: Expr, b: Expr) -> Expr | None:
        if condition is sympy.true:
            return a
        if condition is sympy.false:
            return b
        return None

    @staticmethod
    def python(condition: bool, a: Number, b: Number) -> Number:
        return a if condition else b

    def _eval_is_integer(self) -> bool | None:
        return True if is_integral(self.args[1]) and is_integral(self.args[2]) else None


FUNCTIONS: dict[str, type[PythonFunction]] = {
    cls.__name__: cls
    for cls in (
        FloorDiv, PythonMod, BitAnd, BitOr, BitXor, LShift, RShift, Max, Min, Where,
        Pow, TrueDiv, FloatAdd, FloatMul, FloatFloorDiv, FloatMod, FloatNeg, FloatAbs, ToFloat, RoundDecimal,
        FloorToInt, CeilToInt, TruncToInt, RoundToInt,
    )
}  # fmt: skip

__all__ = [
    "FUNCTIONS", "BitAnd", "BitOr", "BitXor", "CeilToInt", "FloatAbs", "FloatAdd", "FloatFloorDiv", "FloatFunction",
    "FloatMod", "FloatMul", "FloatNeg", "FloorDiv", "FloorToInt", "IntegerFunction", "LShift", "Max", "Min", "Pow",
    "PythonFunction", "PythonMod", "RShift", "RoundDecimal", "RoundToInt", "ToFloat", "TrueDiv", "TruncToInt", "Where",
    "float_constant", "python_number", "sympy_number",
]  # fmt: skip
