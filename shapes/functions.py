"""The functions of Python's numbers, as SymPy functions with Python's semantics.

Each class evaluates on constants and by a few laws that hold for every integer (the law stands beside it); it never
simplifies further, that is the polynomials' business. Where Python raises (`x // 0`, `1 << -1`) constants raise too,
and no law hides it. `FUNCTIONS` tells, by class name, the Python callable and how the function is printed;
`evaluate` computes an expression exactly as Python would.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import sympy
from sympy import Expr, Float, Integer, Symbol
from sympy.core.sorting import default_sort_key
from sympy.logic.boolalg import Boolean

Number = int | float | bool


# --------------------------------------------------------------------------------------------- constants


def python_number(expr: Any) -> int | float | None:
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


def float_constant(value: float) -> Expr:
    """A float as an expression, -0.0 included (as the negation of 0.0, which stays unevaluated)."""
    constant = sympy_number(float(value))
    return FloatNeg(Float(0.0)) if constant is None else constant


def _on_numbers(function: Callable[..., Number], args: tuple[Expr, ...]) -> Expr | None:
    """`function` of the arguments if all are constants and SymPy can hold the result."""
    numbers = []
    for arg in args:
        number = python_number(arg)
        if number is None:
            return None
        numbers.append(number)
    return sympy_number(function(*numbers))


# ------------------------------------------------------------------------------------- integer functions


class PythonFunction(sympy.Function):
    """Base of the functions of this module; printed as Python by `shapes.printing`."""

    def _sympystr(self, printer: Any) -> str:
        form = FUNCTIONS[type(self).__name__].form
        if form.infix:
            return "(" + f" {form.text} ".join(printer._print(arg) for arg in self.args) + ")"
        return f"{form.text}({', '.join(printer._print(arg) for arg in self.args)})"

    def _eval_evalf(self, prec: int) -> None:
        return None


class IntegerFunction(PythonFunction):
    """A function whose value is an integer."""

    is_integer = True


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
    """Max and Min: flat, without duplicates, at most one constant, arguments in canonical order."""

    pick: Callable[..., int]

    def __new__(cls, *args: Any, **options: Any) -> Expr:
        if not options.get("evaluate", True):
            return sympy.Function.__new__(cls, *map(sympy.sympify, args), evaluate=False)
        flat: set[Expr] = set()
        for arg in map(sympy.sympify, args):
            flat.update(arg.args if isinstance(arg, cls) else (arg,))  # max(max(x, y), z) -> max(x, y, z)
        constants = [int(arg) for arg in flat if arg.is_Integer]
        if len(constants) > 1:  # max(x, 2, 3) -> max(x, 3)
            flat = {arg for arg in flat if not arg.is_Integer} | {Integer(cls.pick(constants))}
        if not flat:
            raise TypeError(f"{cls.__name__} needs at least one argument")
        if len(flat) == 1:  # max(x, x) -> x
            return flat.pop()
        return sympy.Function.__new__(cls, *sorted(flat, key=default_sort_key), evaluate=False)

    def _eval_is_integer(self) -> bool | None:
        return True if all(arg.is_integer for arg in self.args) else None

    def _eval_is_extended_real(self) -> bool | None:
        return True if all(arg.is_extended_real for arg in self.args) else None


class Max(_Extremum):
    """max(a, b, ...) of integers."""

    pick = max

    def _eval_is_positive(self) -> bool | None:
        return True if any(arg.is_positive for arg in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(arg.is_nonnegative for arg in self.args) else None


class Min(_Extremum):
    """min(a, b, ...) of integers."""

    pick = min

    def _eval_is_positive(self) -> bool | None:
        return True if all(arg.is_positive for arg in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if all(arg.is_nonnegative for arg in self.args) else None


class Where(PythonFunction):
    """a if condition else b."""

    nargs = (3,)

    @classmethod
    def eval(cls, condition: Boolean, a: Expr, b: Expr) -> Expr | None:
        if condition is sympy.true:
            return a
        if condition is sympy.false:
            return b
        return None

    def _eval_is_integer(self) -> bool | None:
        return True if self.args[1].is_integer and self.args[2].is_integer else None


# -------------------------------------------------------------------------------------------- power, floats


class Pow(PythonFunction):
    """a ** b as Python has it: an integer for an integer a and an integer b >= 0, else a float."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        if a.is_integer and b.is_Integer and 0 <= int(b) <= 64:
            return sympy.Pow(a, b)  # x ** n, a product
        base, exponent = python_number(a), python_number(b)
        if base is None or exponent is None:
            return None
        value = base**exponent
        return None if isinstance(value, complex) else sympy_number(value)

    def _eval_is_integer(self) -> bool | None:
        a, b = self.args
        return True if a.is_integer and b.is_integer and b.is_nonnegative else None


class FloatFunction(PythonFunction):
    """A function whose value is a Python float; opaque to the solver."""

    is_extended_real = None


class TrueDiv(FloatFunction):
    """a / b, correctly rounded also for large integers."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        return _on_numbers(operator.truediv, (a, b))


class ToFloat(FloatFunction):
    """float(a)"""

    nargs = (1,)

    @classmethod
    def eval(cls, a: Expr) -> Expr | None:
        if isinstance(a, FloatFunction):  # float(x) -> x, x a float
            return a
        return _on_numbers(float, (a,))


class FloatAdd(FloatFunction):
    """a + b where one is a float; never reordered, since rounding is not associative."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        return _on_numbers(_float_add, (a, b))


class FloatMul(FloatFunction):
    """a * b where one is a float; never reordered."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        return _on_numbers(_float_mul, (a, b))


class FloatNeg(FloatFunction):
    """-a of a float."""

    nargs = (1,)

    @classmethod
    def eval(cls, a: Expr) -> Expr | None:
        if isinstance(a, FloatNeg):  # -(-x) -> x, also for floats
            return a.args[0]
        return _on_numbers(_float_neg, (a,))


class FloatFloorDiv(FloatFunction):
    """a // b where one is a float."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        return _on_numbers(_float_floordiv, (a, b))


class FloatMod(FloatFunction):
    """a % b where one is a float."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        return _on_numbers(_float_mod, (a, b))


class RoundDecimal(FloatFunction):
    """round(a, ndigits) of a float."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: Expr, ndigits: Expr) -> Expr | None:
        return _on_numbers(_round_decimal, (a, ndigits))


class _FloatToInt(IntegerFunction):
    """A rounding; of an integer it is that integer."""

    nargs = (1,)
    rounding: Callable[[Any], int]

    @classmethod
    def eval(cls, a: Expr) -> Expr | None:
        if a.is_integer and not isinstance(a, Float):  # floor(n) -> n, n an integer
            return a
        number = python_number(a)
        return None if number is None else Integer(cls.rounding(number))


class FloorToInt(_FloatToInt):
    """math.floor(a)"""

    rounding = math.floor


class CeilToInt(_FloatToInt):
    """math.ceil(a)"""

    rounding = math.ceil


class TruncToInt(_FloatToInt):
    """int(a), math.trunc(a)"""

    rounding = math.trunc


class RoundToInt(_FloatToInt):
    """round(a), halves to even"""

    rounding = round


def _float_add(a: Number, b: Number) -> float:
    return float(a + b)


def _float_mul(a: Number, b: Number) -> float:
    return float(a * b)


def _float_neg(a: Number) -> float:
    return -float(a)


def _float_floordiv(a: Number, b: Number) -> float:
    return float(a // b)


def _float_mod(a: Number, b: Number) -> float:
    return float(a % b)


def _round_decimal(a: Number, ndigits: int) -> float:
    return float(round(a, ndigits))


def _where(condition: bool, a: Number, b: Number) -> Number:
    return a if condition else b


# ------------------------------------------------------------------------------------------------ the table


class Form(NamedTuple):
    """How a function is printed: an infix or prefix operator with Python's precedence, or a call."""

    text: str
    infix: bool = False


class FunctionEntry(NamedTuple):
    cls: type[PythonFunction]
    python: Callable[..., Any]
    form: Form


FUNCTIONS: dict[str, FunctionEntry] = {
    entry.cls.__name__: entry
    for entry in (
        FunctionEntry(FloorDiv, operator.floordiv, Form("//", infix=True)),
        FunctionEntry(PythonMod, operator.mod, Form("%", infix=True)),
        FunctionEntry(BitAnd, operator.and_, Form("&", infix=True)),
        FunctionEntry(BitOr, operator.or_, Form("|", infix=True)),
        FunctionEntry(BitXor, operator.xor, Form("^", infix=True)),
        FunctionEntry(LShift, operator.lshift, Form("<<", infix=True)),
        FunctionEntry(RShift, operator.rshift, Form(">>", infix=True)),
        FunctionEntry(Max, max, Form("max")),
        FunctionEntry(Min, min, Form("min")),
        FunctionEntry(Where, _where, Form("where")),
        FunctionEntry(Pow, operator.pow, Form("**", infix=True)),
        FunctionEntry(TrueDiv, operator.truediv, Form("/", infix=True)),
        FunctionEntry(ToFloat, float, Form("float")),
        FunctionEntry(FloatAdd, operator.add, Form("+", infix=True)),
        FunctionEntry(FloatMul, operator.mul, Form("*", infix=True)),
        FunctionEntry(FloatNeg, operator.neg, Form("-")),
        FunctionEntry(FloatFloorDiv, operator.floordiv, Form("//", infix=True)),
        FunctionEntry(FloatMod, operator.mod, Form("%", infix=True)),
        FunctionEntry(RoundDecimal, round, Form("round")),
        FunctionEntry(FloorToInt, math.floor, Form("math.floor")),
        FunctionEntry(CeilToInt, math.ceil, Form("math.ceil")),
        FunctionEntry(TruncToInt, math.trunc, Form("math.trunc")),
        FunctionEntry(RoundToInt, round, Form("round")),
    )
}


# ----------------------------------------------------------------------------------------------- evaluation

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
    entry = FUNCTIONS.get(type(expr).__name__)
    if entry is not None and isinstance(expr, entry.cls):
        return entry.python(*args)
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
