"""Running a shape program twice: on symbolic integers, which records its guards, and on plain ones, which is the truth.

A program asks `t.decide(condition)` wherever a PyTorch program would branch on sizes. The recorded guards hold at some
sizes exactly if the program decides everything there as it did in the traced run; that needs no SymPy, no z3 and no
printer to find out.
"""

import math
from collections.abc import Callable
from typing import Any

import sympy

from shapes import sympy_functions as f

Program = Callable[..., Any]


class Refused(Exception):
    """The program raises an error of its own at these sizes."""


class Plain:
    """A run on plain ints that notes its decisions."""

    max = staticmethod(max)
    min = staticmethod(min)
    floor = staticmethod(math.floor)
    ceil = staticmethod(math.ceil)
    integer = staticmethod(math.trunc)
    ratio = staticmethod(lambda a, b: a / b)

    def __init__(self, limit: int = 10_000) -> None:
        self.decisions: list[bool] = []
        self.limit = limit

    def decide(self, condition: bool) -> bool:
        self.decisions.append(condition)
        if len(self.decisions) > self.limit:
            raise Refused("more decisions than the traced run")
        return condition

    def check(self, condition: bool) -> None:
        if not self.decide(condition):
            raise Refused

    def either(self, a: bool, b: bool) -> bool:
        return a or b

    def both(self, a: bool, b: bool) -> bool:
        return a and b


class Number:
    """A symbolic number with its value in the traced run."""

    def __init__(self, expr: Any, hint: Any) -> None:
        self.expr = expr
        self.hint = hint

    @property
    def is_float(self) -> bool:
        return isinstance(self.hint, float)

    def _binary(self, other: Any, integer: Callable, real: Callable, python: Callable, swap: bool = False) -> "Number":
        a, b = (number(other), self) if swap else (self, number(other))
        build = real if a.is_float or b.is_float else integer
        return Number(build(a.expr, b.expr), python(a.hint, b.hint))

    def __add__(self, other):
        return self._binary(other, lambda a, b: a + b, f.FloatAdd, lambda a, b: a + b)

    def __radd__(self, other):
        return self._binary(other, lambda a, b: a + b, f.FloatAdd, lambda a, b: a + b, swap=True)

    def __sub__(self, other):
        return self._binary(other, lambda a, b: a - b, _float_sub, lambda a, b: a - b)

    def __rsub__(self, other):
        return self._binary(other, lambda a, b: a - b, _float_sub, lambda a, b: a - b, swap=True)

    def __mul__(self, other):
        return self._binary(other, lambda a, b: a * b, f.FloatMul, lambda a, b: a * b)

    def __rmul__(self, other):
        return self._binary(other, lambda a, b: a * b, f.FloatMul, lambda a, b: a * b, swap=True)

    def __floordiv__(self, other):
        return self._binary(other, f.FloorDiv, f.FloatFloorDiv, lambda a, b: a // b)

    def __rfloordiv__(self, other):
        return self._binary(other, f.FloorDiv, f.FloatFloorDiv, lambda a, b: a // b, swap=True)

    def __mod__(self, other):
        return self._binary(other, f.PythonMod, f.FloatMod, lambda a, b: a % b)

    def __rmod__(self, other):
        return self._binary(other, f.PythonMod, f.FloatMod, lambda a, b: a % b, swap=True)

    def __and__(self, other):
        return self._binary(other, f.BitAnd, f.BitAnd, lambda a, b: a & b)

    def __or__(self, other):
        return self._binary(other, f.BitOr, f.BitOr, lambda a, b: a | b)

    def __xor__(self, other):
        return self._binary(other, f.BitXor, f.BitXor, lambda a, b: a ^ b)

    def __rshift__(self, other):
        return self._binary(other, f.RShift, f.RShift, lambda a, b: a >> b)

    def __lshift__(self, other):
        return self._binary(other, f.LShift, f.LShift, lambda a, b: a << b)

    def __rlshift__(self, other):
        return self._binary(other, f.LShift, f.LShift, lambda a, b: a << b, swap=True)

    def __pow__(self, other):
        return self._binary(other, f.Pow, f.Pow, lambda a, b: a**b)

    def __neg__(self):
        return Number(f.FloatNeg(self.expr) if self.is_float else -self.expr, -self.hint)

    def __abs__(self):
        return Number(f.FloatAbs(self.expr) if self.is_float else sympy.Abs(self.expr), abs(self.hint))

    def _compare(self, other: Any, build: Callable, truth: Callable[[Any, Any], bool]) -> "Condition":
        other = number(other)
        return Condition(build(self.expr, other.expr), truth(self.hint, other.hint))

    def __eq__(self, other):
        return self._compare(other, sympy.Eq, lambda a, b: a == b)

    def __ne__(self, other):
        return self._compare(other, sympy.Ne, lambda a, b: a != b)

    def __lt__(self, other):
        return self._compare(other, sympy.Lt, lambda a, b: a < b)

    def __le__(self, other):
        return self._compare(other, sympy.Le, lambda a, b: a <= b)

    def __gt__(self, other):
        return self._compare(other, sympy.Gt, lambda a, b: a > b)

    def __ge__(self, other):
        return self._compare(other, sympy.Ge, lambda a, b: a >= b)

    __hash__ = None

    def __bool__(self):
        raise TypeError("a program says t.decide(...)")


class Condition:
    def __init__(self, expr: Any, hint: bool) -> None:
        self.expr = expr
        self.hint = hint

    def __bool__(self):
        raise TypeError("a program says t.decide(...)")


def number(value: Any) -> Number:
    if isinstance(value, Number):
        return value
    return Number(f.float_constant(value) if isinstance(value, float) else sympy.Integer(value), value)


def condition(value: Any) -> Condition:
    return value if isinstance(value, Condition) else Condition(sympy.true if value else sympy.false, value)


def _float_sub(a: Any, b: Any) -> Any:
    return f.FloatAdd(a, f.FloatNeg(b))


class Recorder:
    """A run on symbolic sizes; `guards` are what it decided, as it decided it."""

    def __init__(self) -> None:
        self.guards: list[Any] = []
        self.decisions: list[bool] = []

    def decide(self, asked: Any) -> bool:
        asked = condition(asked)
        self.decisions.append(asked.hint)
        # SymPy's negation of a < b is a >= b, which is wrong of NaN
        negate = {"evaluate": all(argument.is_integer for argument in getattr(asked.expr, "args", ()))}
        guard = asked.expr if asked.hint else sympy.Not(asked.expr, **negate)
        if guard is not sympy.true:
            self.guards.append(guard)
        return asked.hint

    def check(self, asked: Any) -> None:
        if not self.decide(asked):
            raise Refused

    def either(self, a: Any, b: Any) -> Condition:
        a, b = condition(a), condition(b)
        return Condition(sympy.Or(a.expr, b.expr), a.hint or b.hint)

    def both(self, a: Any, b: Any) -> Condition:
        a, b = condition(a), condition(b)
        return Condition(sympy.And(a.expr, b.expr), a.hint and b.hint)

    def max(self, *args: Any) -> Number:
        args = [number(arg) for arg in args]
        return Number(f.Max(*(arg.expr for arg in args)), max(arg.hint for arg in args))

    def min(self, *args: Any) -> Number:
        args = [number(arg) for arg in args]
        return Number(f.Min(*(arg.expr for arg in args)), min(arg.hint for arg in args))

    def floor(self, a: Any) -> Number:
        return Number(f.FloorToInt(number(a).expr), math.floor(number(a).hint))

    def ceil(self, a: Any) -> Number:
        return Number(f.CeilToInt(number(a).expr), math.ceil(number(a).hint))

    def integer(self, a: Any) -> Number:
        return Number(f.TruncToInt(number(a).expr), math.trunc(number(a).hint))

    def ratio(self, a: Any, b: Any) -> Number:
        a, b = number(a), number(b)
        return Number(f.TrueDiv(a.expr, b.expr), a.hint / b.hint)


def record(program: Program, hints: dict[str, int]) -> Recorder:
    """The traced run: one integer symbol for each size."""
    recorder = Recorder()
    program(recorder, *(Number(sympy.Symbol(name, integer=True), hint) for name, hint in hints.items()))
    return recorder


def same_path(program: Program, decisions: list[bool], sizes: tuple[int, ...]) -> bool | None:
    """Whether the program decides at these sizes as in the traced run; None if it does and raises after that."""
    plain = Plain(len(decisions))
    try:
        program(plain, *sizes)
    except Refused:
        return False
    except (ArithmeticError, ValueError):
        return None if plain.decisions == decisions[: len(plain.decisions)] else False
    return plain.decisions == decisions
