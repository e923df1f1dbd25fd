"""Models of math. Constants are folded. The graph computes those functions of symbolic numbers that torch has; others specialise
them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.symbols import math_functions
from tracer.graph_breaks import unsupported
from tracer.library.torch_.numbers import assume
from tracer.protocol.lookups import defines
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.passed_scalars import number_in
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.text import form
from tracer.variables.values import symbolic
from tracer.variables.values.constant import ONE, ZERO, ConstantVariable, fold
from tracer.variables.values.special_results import checked_index
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_IN_GRAPH = {
    math.floor: math.floor,
    math.ceil: math.ceil,
    math.trunc: math.trunc,
    math.sqrt: torch._sym_sqrt,
    math.exp: math_functions.exp,
    math.log: math_functions.log,
    math.log2: torch._sym_log2,
    math.sin: torch._sym_sin,
    math.cos: torch._sym_cos,
    math.tan: torch._sym_tan,
    math.atan: torch._sym_atan,
    math.tanh: torch._sym_tanh,
}
# How the number has to compare with another: otherwise Python raises, and compiled code gives nan or infinity.
_DOMAIN = {math.sqrt: (">=", ZERO), math.log: (">", ZERO), math.log2: (">", ZERO), math.exp: ("<=", ConstantVariable(709.0))}
_SPECIAL = {math.floor: "__floor__", math.ceil: "__ceil__", math.trunc: "__trunc__"}
_INTEGERS = (math.gcd, math.lcm, math.isqrt, math.factorial, math.comb, math.perm)


def _model_of(function: Any) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        args = tuple(number_in(tx, arg) for arg in args)
        if len(args) == 1 and isinstance(args[0], SymNodeVariable) and function in _IN_GRAPH:
            if function in _DOMAIN:
                op, bound = _DOMAIN[function]
                assume(tx, tx.compare(op, args[0], bound))
            return symbolic.apply(tx, _IN_GRAPH[function], args[0])
        if function is math.isqrt and len(args) == 1 and isinstance(args[0], SymNodeVariable) and not kwargs:
            if args[0].python_type() is int and not args[0].depends_on_data() and tx.binary_truth(">=", args[0], ZERO):
                return args[0].integer_root()
        special = _SPECIAL.get(function)
        if special is not None and isinstance(args[0], UserObjectVariable):
            result = args[0].call_special(tx, special)
            if result is not None:
                return result
        numbers = [_number(tx, function, arg) for arg in args]
        return fold(tx, function, *numbers, **{name: _number(tx, function, value) for name, value in kwargs.items()})

    return model


def _number(tx: Tracer, function: Any, value: Value) -> Any:
    """The Python number that `function` works on."""
    if isinstance(value, SymNodeVariable):
        return value.specialize(tx).value
    if isinstance(value, (UserObjectVariable, TensorVariable)):
        names = ("__index__",) if function in _INTEGERS else ("__float__", "__index__")
        for name in names:
            if defines(value.python_type(), name):
                number = value.call_method(tx, name, [], {})
                if name == "__float__" and number.python_type() is not float:
                    unsupported("unsupported-builtin", function=f"math.{function.__name__} of {value.describe()}")
                return (number if name == "__float__" else checked_index(tx, number)).constant()
    if value.is_constant():
        return value.constant()
    unsupported("unsupported-builtin", function=f"math.{function.__name__} of {value.describe()}")


for _name in dir(math):
    _function = getattr(math, _name)
    if callable(_function) and _name[:2] != "__" and _name not in ("prod", "fsum", "dist", "pow", "sumprod"):
        models(_function)(_model_of(_function))


@models(math.prod)
def _prod(tx: Tracer, iterable: Value, /, *, start: Value = ONE) -> Value:
    product, iterator = start, iterable.iterate(tx)
    while (item := iterator.next(tx)) is not None:
        product = tx.binary("*", product, item)
    return product


@models(math.pow)
def _pow(tx: Tracer, base: Value, exponent: Value, /) -> Value:
    """For a positive base `**` of floats is the same; for others it gives complex numbers, or raises other errors."""
    is_symbolic = any(isinstance(value, SymNodeVariable) for value in (base, exponent))
    if is_symbolic and all(map(symbolic.is_number, (base, exponent))) and tx.binary_truth(">", base, ZERO):
        left, right = (symbolic.apply(tx, torch.sym_float, value) for value in (base, exponent))
        return tx.binary("**", left, right)
    return fold(tx, math.pow, _number(tx, math.pow, base), _number(tx, math.pow, exponent))


@models(math.fsum)
def _fsum(tx: Tracer, iterable: Value, /) -> Value:
    iterator, numbers = iterable.iterate(tx), []
    while (item := iterator.next(tx)) is not None:
        numbers.append(_number(tx, math.fsum, item))
    return fold(tx, math.fsum, numbers)


@models(math.dist)
def _dist(tx: Tracer, left: Value, right: Value, /) -> Value:
    return fold(tx, math.dist, form(tx, left), form(tx, right))


def _sumprod(tx: Tracer, p: Value, q: Value, /) -> Value:
    """Sizes stay symbolic among ints, of which the sum is exact; a sum of floats is rounded once, and known."""
    left, right = p.iterate(tx), q.iterate(tx)
    pairs = list[tuple[Value, Value]]()
    while True:
        first, second = left.next(tx), right.next(tx)
        if first is None and second is None:
            break
        if first is None or second is None:
            tx.raise_error(ValueError, "Inputs are not the same length")
        pairs.append((first, second))
    values = [value for pair in pairs for value in pair]
    if not all(map(symbolic.is_number, values)):
        unsupported("unsupported-builtin", function="math.sumprod of other values than numbers")
    if all(value.python_type() in (int, bool) for value in values):
        total: Value = ZERO
        for first, second in pairs:
            total = tx.binary("+", total, tx.binary("*", first, second))
        return total
    numbers = [_number(tx, _SUMPROD, value) for value in values]
    return fold(tx, _SUMPROD, numbers[::2], numbers[1::2])


_SUMPROD = getattr(math, "sumprod", None)
if _SUMPROD is not None:  # from 3.12 on
    models(_SUMPROD)(_sumprod)
