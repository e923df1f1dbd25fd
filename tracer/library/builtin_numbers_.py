"""Models of the builtins that make numbers and text."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.operations.array_operations import array_operation
from tracer.graph.symbols.sym_operators import to_multiple
from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import rely_on_process
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.containers.python_hashes import Answering, as_hash
from tracer.variables.containers.ranges import as_int
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.arrays import NdarrayVariable, apply
from tracer.variables.tensors.numpy_sizes import NumpySizeVariable, RoundedSizeVariable
from tracer.variables.tensors.passed_scalars import number_in
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.text import form, formatted
from tracer.variables.values import symbolic
from tracer.variables.values.constant import NONE, ConstantVariable, boolean, fold
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
EMPTY = ConstantVariable("")


@models(bool)
def _bool(tx: Tracer, value: Value | None = None, /) -> Value:
    if isinstance(value, SymNodeVariable) and value.python_type() is bool:
        return value
    return boolean(value is not None and value.truth(tx))


@models(int)
def _int(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    args = tuple(number_in(tx, arg) for arg in args)
    if len(args) == 1 and not kwargs and isinstance(args[0], SymNodeVariable):
        kind = args[0].python_type()
        if kind is int:
            return args[0]
        if kind is bool:
            return fold(tx, int, args[0].specialize(tx).constant())
        return symbolic.apply(tx, math.trunc, args[0])
    return converted(tx, int, ("__int__", "__index__", "__trunc__"), args, kwargs)


@models(float)
def _float(tx: Tracer, *args: Value) -> Value:
    args = tuple(number_in(tx, arg) for arg in args)
    if len(args) == 1 and isinstance(args[0], SymNodeVariable):
        kind = args[0].python_type()
        if kind is bool:
            return fold(tx, float, args[0].specialize(tx).constant())
        return args[0] if kind is float else symbolic.apply(tx, torch.sym_float, args[0])
    return converted(tx, float, ("__float__", "__index__"), args, {})


@models(complex)
def _complex(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    args = tuple(arg.specialize(tx) for arg in args)
    return converted(tx, complex, ("__complex__", "__float__", "__index__"), args, kwargs)


def converted(tx: Tracer, function: Any, specials: tuple[str, ...], args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """`function(*args, **kwargs)`: folded for constants; for a user's object or a tensor, by its special method."""
    if len(args) == 1 and not kwargs and isinstance(args[0], NumpySizeVariable):
        number = args[0].number
        if function is float:
            return _float(tx, number)
        return number if function is int else fold(tx, function, args[0].fixed(tx).value)
    if len(args) == 1 and not kwargs and isinstance(args[0], RoundedSizeVariable):
        return args[0].whole(tx) if function is int else fold(tx, function, args[0].fixed(tx).value)
    if all(arg.is_constant() for arg in (*args, *kwargs.values())):
        return fold(tx, function, *(a.constant() for a in args), **{k: v.constant() for k, v in kwargs.items()})
    if len(args) == 1 and not kwargs and isinstance(args[0], UserObjectVariable):
        for special in specials:
            result = args[0].call_special(tx, special)
            if result is not None:
                return _checked(tx, function, special, result)
    if len(args) == 1 and not kwargs and isinstance(args[0], TensorVariable):
        return args[0].call_method(tx, specials[0], [], {})
    if len(args) == 1 and not kwargs and isinstance(args[0], NdarrayVariable):
        return _of_array(tx, function, specials[0], args[0])
    unsupported("unsupported-builtin", function=f"{function.__name__} of {', '.join(a.describe() for a in args)}")


def _of_array(tx: Tracer, function: Any, special: str, array: NdarrayVariable) -> Value:
    """The number in a scalar of NumPy, or in an array of no dims. NumPy warns of other arrays, and of complex numbers."""
    known = array.known(tx)
    if known is not None and not known.ndim and known.dtype.kind != "c":
        return fold(tx, function, known[()])
    if array.tensor.fake.dim() or array.dtype.kind not in "iuf" or function is complex:
        unsupported("unsupported-builtin", function=f"{function.__name__} of {array.describe()}")
    return array.tensor.call_method(tx, special, [], {})


def _checked(tx: Tracer, function: Any, special: str, result: Value) -> Value:
    if result.python_type() is not function:
        if special == "__index__" and result.python_type() is int:
            return _float(tx, result) if function is float else converted(tx, function, (), (result,), {})
        unsupported("unsupported-builtin", function=f"{function.__name__}, whose {special} gives {result.describe()}")
    return result


@models(abs, operator.abs)
def _abs(tx: Tracer, value: Value, /) -> Value:
    if isinstance(value, TensorVariable):
        return value.call_method(tx, "abs", [], {})
    if isinstance(value, SymNodeVariable):
        return symbolic.apply(tx, abs, value)
    if isinstance(value, NdarrayVariable):
        return apply(tx, array_operation("operator", "abs"), [value], {})
    return _special(tx, value, "__abs__") or fold(tx, abs, value.constant())


def _special(tx: Tracer, value: Value, name: str, *args: Value) -> Value | None:
    if not isinstance(value, UserObjectVariable):
        return None
    return value.call_special(tx, name, *args) or unsupported("unsupported-builtin", function=name)


_DIGITS_OF_INT64 = 18  # that any has: a graph's ints have 64 bits


def _rounded_int(tx: Tracer, number: Value, ndigits: int) -> Value:
    def binary(operation: Any, left: Value, right: Value | int) -> Value:
        return symbolic.apply(tx, operation, left, ConstantVariable(right) if isinstance(right, int) else right)

    return number if ndigits >= 0 else to_multiple(binary, number, 10**-ndigits)


@models(round)
def _round(tx: Tracer, number: Value, ndigits: Value = NONE) -> Value:
    number = number_in(tx, number) if ndigits is NONE else number
    if isinstance(number, TensorVariable):
        unsupported("unsupported-builtin", function="round of a tensor")
    if isinstance(number, UserObjectVariable):
        given = () if ndigits is NONE else (ndigits,)
        return number.call_special(tx, "__round__", *given) or unsupported("unsupported-builtin", function="__round__")
    if isinstance(number, SymNodeVariable) and ndigits.is_constant():
        if number.python_type() is float:
            return symbolic.apply(tx, round, number, *(() if ndigits is NONE else (ndigits,)))
        digits = 0 if ndigits is NONE else ndigits.constant()
        if number.python_type() is int and type(digits) is int and digits > -_DIGITS_OF_INT64:
            return _rounded_int(tx, number, digits)
    number, ndigits = (v.specialize(tx) for v in (number, ndigits))
    return fold(tx, round, number.constant(), ndigits.constant())


@models(pow)
def _pow(tx: Tracer, base: Value, exp: Value, mod: Value = NONE) -> Value:
    if mod.is_none():
        return tx.binary("**", base, exp)
    numbers = [v.specialize(tx) for v in (base, exp, mod)]
    return fold(tx, pow, *(number.constant() for number in numbers))


@models(divmod)
def _divmod(tx: Tracer, left: Value, right: Value, /) -> Value:
    if isinstance(left, NdarrayVariable) or isinstance(right, NdarrayVariable):
        return apply(tx, array_operation("function", "divmod"), [left, right], {})
    for value in (left, right):
        if not symbolic.is_number(value):
            return _user_divmod(tx, left, right)
    return TupleVariable([tx.binary("//", left, right), tx.binary("%", left, right)])


def _user_divmod(tx: Tracer, left: Value, right: Value) -> Value:
    for value, name, other in ((left, "__divmod__", right), (right, "__rdivmod__", left)):
        if isinstance(value, UserObjectVariable) and type(left) is not type(right):
            result = value.call_special(tx, name, other)
            if result is not None and not (result.is_constant() and result.constant() is NotImplemented):
                return result
    unsupported("unsupported-builtin", function="divmod")


@models(hash)
def _hash(tx: Tracer, value: Value, /) -> Value:
    value = value.specialize(tx)
    if isinstance(value, UserObjectVariable):
        result = value.call_special(tx, "__hash__")
        if result is not None and result.is_constant() and isinstance(result.constant(), int):
            return fold(tx, as_hash, result.constant())
        if result is not None and not issubclass(result.python_type(), int):
            tx.raise_error(TypeError, "__hash__ method should return an integer")
        if result is not None:
            return result
    value.hash_key(tx)  # raises TypeError if the value is unhashable
    if value.is_constant():
        if not isinstance(value.constant(), (int, float, complex)):
            rely_on_process("hashes of texts and objects differ between processes")
        return fold(tx, hash, value.constant())
    if isinstance(value, TupleVariable):  # the hash is made of those of the items
        hashes = [_hash(tx, item) for item in value.items(tx)]
        if all(each.is_constant() for each in hashes):
            return fold(tx, lambda: hash(tuple([Answering(each.constant()) for each in hashes])))
    if isinstance(value, ClassVariable) and type(value.value).__hash__ is type.__hash__:
        rely_on_process("hashes of classes differ between processes")
        return fold(tx, hash, value.value)
    unsupported("unsupported-builtin", function=f"hash of {value.describe()}")


def _of_constants(function: Any) -> Any:
    def model(tx: Tracer, *args: Value) -> Value:
        args = tuple(arg.specialize(tx) for arg in args)
        if len(args) == 1 and isinstance(args[0], UserObjectVariable):
            number = None if function is ord else as_int(tx, args[0])
            if number is None:
                unsupported("unsupported-builtin", function=f"{function.__name__} of {args[0].describe()}")
            return fold(tx, function, number)
        if len(args) == 1 and isinstance(args[0], TensorVariable):
            return fold(tx, function, args[0].call_method(tx, "__index__", [], {}).constant())
        return fold(tx, function, *(arg.constant() for arg in args))

    return model


for _function in (chr, ord, hex, oct, bin):
    models(_function)(_of_constants(_function))


@models(bytes)
def _bytes(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    if args and isinstance(args[0], UserObjectVariable):
        unsupported("unsupported-builtin", function="bytes of an object")
    return formatted(tx, bytes, list(args), kwargs)


@models(str)
def _str(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    return formatted(tx, str, list(args), kwargs)


@models(repr)
def _repr(tx: Tracer, obj: Value, /) -> Value:
    return formatted(tx, repr, [obj], {})


@models(ascii)
def _ascii(tx: Tracer, obj: Value, /) -> Value:
    return formatted(tx, ascii, [obj], {})


@models(format)
def _format(tx: Tracer, obj: Value, spec: Value = EMPTY, /) -> Value:
    return formatted(tx, format, [obj, spec], {})


@models(str.join)
def _join(tx: Tracer, separator: Value, items: Value, /) -> Value:
    return separator.call_method(tx, "join", [items], {})


@models(str.maketrans)
def _maketrans(tx: Tracer, *args: Value) -> Value:
    return fold(tx, str.maketrans, *(form(tx, arg) for arg in args))


@models(int.from_bytes)
def _from_bytes(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    named = {name: value.constant() for name, value in kwargs.items()}
    return fold(tx, int.from_bytes, *(form(tx, arg) for arg in args), **named)
