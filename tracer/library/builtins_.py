"""Models of the builtins."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables import symbolic
from tracer.variables.base import ObservedException, VariableTracker
from tracer.variables.constant import FALSE, NONE, ConstantVariable, boolean, fold
from tracer.variables.functions import CallableVariable, FunctionVariable
from tracer.variables.iterators import (
    EnumerateIterator,
    FilterIterator,
    MapIterator,
    ReversedIterator,
    SentinelIterator,
    ZipIterator,
)
from tracer.variables.mappings import DictVariable, FrozenSetVariable, SetVariable, elements, pairs_of
from tracer.variables.objects import ClassVariable, SuperVariable, UserObjectVariable
from tracer.variables.sequences import ListVariable, RangeVariable, SequenceVariable, SliceVariable, TupleVariable
from tracer.variables.symbolic import SymNodeVariable
from tracer.variables.tensor import TensorVariable
from tracer.variables.text import formatted

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker


@models(len)
def _len(tx: Tracer, obj: Value) -> Value:
    return obj.length(tx)


@models(iter)
def _iter(tx: Tracer, obj: Value, *sentinel: Value) -> Value:
    return SentinelIterator(obj, sentinel[0]) if sentinel else obj.iterate(tx)


@models(next)
def _next(tx: Tracer, iterator: Value, *default: Value) -> Value:
    item = iterator.next(tx)
    if item is None:
        if default:
            return default[0]
        tx.raise_error(StopIteration)
    return item


@models(range)
def _range(tx: Tracer, *bounds: Value) -> Value:
    if not all(symbolic.is_number(bound) for bound in bounds):
        unsupported("unsupported-builtin", function="range of something else than ints")
    if len(bounds) == 1:
        return RangeVariable(ConstantVariable(0), bounds[0], ConstantVariable(1))
    start, stop, *step = bounds
    if step and step[0].is_constant() and step[0].constant() == 0:
        tx.raise_error(ValueError, "range() arg 3 must not be zero")
    return RangeVariable(start, stop, step[0] if step else ConstantVariable(1))


@models(slice)
def _slice(tx: Tracer, *parts: Value) -> Value:
    if len(parts) == 1:
        return SliceVariable(NONE, parts[0], NONE)
    return SliceVariable(*parts, *[NONE] * (3 - len(parts)))


@models(enumerate)
def _enumerate(tx: Tracer, iterable: Value, start: Value = ConstantVariable(0)) -> Value:
    if not start.is_constant():
        unsupported("unsupported-builtin", function="enumerate from a symbolic start")
    return EnumerateIterator(
        iterable.iterate(tx), start.constant(), lambda count, item: TupleVariable([ConstantVariable(count), item])
    )


@models(zip)
def _zip(tx: Tracer, *iterables: Value, strict: Value = ConstantVariable(False)) -> Value:
    return ZipIterator([iterable.iterate(tx) for iterable in iterables], strict.truth(tx), TupleVariable)


@models(map)
def _map(tx: Tracer, function: Value, *iterables: Value) -> Value:
    return MapIterator(function, [iterable.iterate(tx) for iterable in iterables])


@models(filter)
def _filter(tx: Tracer, function: Value, iterable: Value) -> Value:
    return FilterIterator(function, iterable.iterate(tx))


@models(reversed)
def _reversed(tx: Tracer, obj: Value) -> Value:
    if isinstance(obj, UserObjectVariable):
        special = obj.call_special(tx, "__reversed__")
        if special is not None:
            return special
    if isinstance(obj, SequenceVariable):
        return ReversedIterator(obj)
    return ReversedIterator(ListVariable(obj.unpack(tx)))


@models(sorted)
def _sorted(tx: Tracer, iterable: Value, /, *, key: Value = NONE, reverse: Value = FALSE) -> Value:
    return ListVariable(tx.sorted(iterable.unpack(tx), key, reverse))


# -- containers --------------------------------------------------------------------------------------------------------


@models(list)
def _list(tx: Tracer, *iterable: Value) -> Value:
    return ListVariable(iterable[0].unpack(tx) if iterable else [])


@models(tuple)
def _tuple(tx: Tracer, *iterable: Value) -> Value:
    if iterable and type(iterable[0]) is TupleVariable:
        return iterable[0]
    return TupleVariable(iterable[0].unpack(tx) if iterable else [])


@models(set)
def _set(tx: Tracer, *iterable: Value) -> Value:
    return SetVariable(_entries(tx, iterable))


@models(frozenset)
def _frozenset(tx: Tracer, *iterable: Value) -> Value:
    return FrozenSetVariable(_entries(tx, iterable))


def _entries(tx: Tracer, iterable: tuple[Value, ...]) -> dict[Any, Value]:
    entries: dict[Any, Value] = {}
    for item in elements(tx, iterable[0]) if iterable else ():
        entries.setdefault(item.hash_key(tx), item)
    return entries


@models(dict)
def _dict(tx: Tracer, *pairs: Value, **kwargs: Value) -> Value:
    result = DictVariable({})
    for value in pairs:
        result.update(tx, pairs_of(tx, value))
    result.update(tx, ((ConstantVariable(key), value) for key, value in kwargs.items()))
    return result


@models(dict.fromkeys)
def _fromkeys(tx: Tracer, iterable: Value, value: Value = NONE) -> Value:
    result = DictVariable({})
    result.update(tx, ((key, value) for key in iterable.unpack(tx)))
    return result


# -- numbers and strings -----------------------------------------------------------------------------------------------


@models(bool)
def _bool(tx: Tracer, *value: Value) -> Value:
    if value and isinstance(value[0], SymNodeVariable) and value[0].python_type() is bool:
        return value[0]
    return boolean(bool(value) and value[0].truth(tx))


@models(int)
def _int(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    if len(args) == 1 and isinstance(args[0], SymNodeVariable):
        kind = args[0].python_type()
        if kind is int:
            return args[0]
        return args[0].specialize(tx).call_method(tx, "__int__", [], {}) if kind is bool else _truncate(tx, args[0])
    return _convert(tx, int, "__int__", args, kwargs)


def _truncate(tx: Tracer, value: Value) -> Value:


    return symbolic.apply(tx, math.trunc, value)


@models(float)
def _float(tx: Tracer, *args: Value) -> Value:
    if len(args) == 1 and isinstance(args[0], SymNodeVariable):


        return symbolic.apply(tx, torch.sym_float, args[0])
    return _convert(tx, float, "__float__", args, {})


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
def _format(tx: Tracer, obj: Value, spec: Value = ConstantVariable(""), /) -> Value:
    return formatted(tx, format, [obj, spec], {})


def _convert(tx: Tracer, function: Any, special: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    if all(arg.is_constant() for arg in (*args, *kwargs.values())):
        return fold(tx, function, *(a.constant() for a in args), **{k: v.constant() for k, v in kwargs.items()})
    if len(args) == 1 and isinstance(args[0], UserObjectVariable):
        converted = args[0].call_special(tx, special)
        if converted is not None:
            return converted
    if len(args) == 1 and isinstance(args[0], TensorVariable) and special in ("__int__", "__float__"):
        return args[0].call_method(tx, "item", [], {})
    unsupported("unsupported-builtin", function=f"{function.__name__} of {', '.join(a.describe() for a in args)}")


@models(abs)
def _abs(tx: Tracer, value: Value) -> Value:
    if isinstance(value, TensorVariable):
        return value.call_method(tx, "abs", [], {})
    if isinstance(value, SymNodeVariable):
        return symbolic.apply(tx, abs, value)
    if isinstance(value, UserObjectVariable):
        return value.call_special(tx, "__abs__") or unsupported("unsupported-builtin", function="abs")
    return fold(tx, abs, value.constant())


@models(round)
def _round(tx: Tracer, value: Value, ndigits: Value = NONE) -> Value:
    if isinstance(value, TensorVariable):
        return value.call_method(tx, "round", [], {} if ndigits is NONE else {"decimals": ndigits})
    if isinstance(value, SymNodeVariable):
        value = value.specialize(tx)
    return fold(tx, round, value.constant(), ndigits.constant())


@models(pow)
def _pow(tx: Tracer, base: Value, exponent: Value, *modulus: Value) -> Value:
    if modulus:
        return fold(tx, pow, base.constant(), exponent.constant(), modulus[0].constant())
    return tx.binary("**", base, exponent)


@models(divmod)
def _divmod(tx: Tracer, left: Value, right: Value) -> Value:
    return TupleVariable([tx.binary("//", left, right), tx.binary("%", left, right)])


@models(sum)
def _sum(tx: Tracer, iterable: Value, start: Value = ConstantVariable(0)) -> Value:
    total = start
    for item in iterable.unpack(tx):
        total = tx.binary("+", total, item)
    return total


@models(max)
def _max(tx: Tracer, *args: Value, key: Value | None = None, default: Value | None = None) -> Value:
    return _extreme(tx, max, ">", args, key, default)


@models(min)
def _min(tx: Tracer, *args: Value, key: Value | None = None, default: Value | None = None) -> Value:
    return _extreme(tx, min, "<", args, key, default)


def _extreme(
    tx: Tracer, function: Any, op: str, args: tuple[Value, ...], key: Value | None, default: Value | None
) -> Value:
    items = list(args) if len(args) > 1 else args[0].unpack(tx)
    if not items:
        if default is not None:
            return default
        tx.raise_error(ValueError, f"{function.__name__}() arg is an empty sequence")
    best = items[0]
    best_key = best if key is None else key.call(tx, [best], {})
    for item in items[1:]:
        item_key = item if key is None else key.call(tx, [item], {})
        if key is None and _both_symbolic(best, item):


            best = best_key = symbolic.apply(tx, torch.sym_max if function is max else torch.sym_min, best, item)
        elif tx.binary_truth(op, item_key, best_key):
            best, best_key = item, item_key
    return best


def _both_symbolic(left: Value, right: Value) -> bool:
    return (isinstance(left, SymNodeVariable) or isinstance(right, SymNodeVariable)) and (
        symbolic.is_number(left) and symbolic.is_number(right)
    )


@models(all)
def _all(tx: Tracer, iterable: Value) -> Value:
    iterator = iterable.iterate(tx)
    while (item := iterator.next(tx)) is not None:
        if not item.truth(tx):
            return boolean(False)
    return boolean(True)


@models(any)
def _any(tx: Tracer, iterable: Value) -> Value:
    iterator = iterable.iterate(tx)
    while (item := iterator.next(tx)) is not None:
        if item.truth(tx):
            return boolean(True)
    return boolean(False)


@models(hash)
def _hash(tx: Tracer, value: Value) -> Value:
    if value.is_constant() and not isinstance(value.constant(), (str, bytes)):
        return fold(tx, hash, value.constant())
    unsupported("unsupported-builtin", function="hash")


# -- objects -----------------------------------------------------------------------------------------------------------


@models(isinstance)
def _isinstance(tx: Tracer, value: Value, classes: Value) -> Value:
    return boolean(any(_is_instance(tx, value, cls) for cls in _classes(tx, classes)))


def _is_instance(tx: Tracer, value: Value, cls: type) -> bool:


    kind = value.python_type()
    check = type(cls).__instancecheck__
    if check is type.__instancecheck__:
        return issubclass(kind, cls)
    if isinstance(value, TensorVariable) and cls in (torch.nn.Parameter, torch.nn.Buffer):
        return issubclass(kind, cls)
    if check is not type(torch.nn.Parameter).__instancecheck__ and hasattr(cls, "_is_protocol") and cls._is_protocol:
        unsupported("unsupported-builtin", function=f"isinstance of protocol {cls.__qualname__}")
    return _subclass(kind, cls)


def _subclass(kind: type, cls: type) -> bool:
    """issubclass by the rules of ABCs and typing, which look at the class alone."""
    return issubclass(kind, cls)


def _classes(tx: Tracer, value: Value) -> list[Any]:
    if isinstance(value, ClassVariable):
        return [value.value]
    if isinstance(value, TupleVariable):
        return [cls for item in value.items(tx) for cls in _classes(tx, item)]
    if isinstance(value, CallableVariable) and isinstance(value.value, type):
        return [value.value]
    unsupported("unsupported-builtin", function=f"isinstance with {value.describe()}")


@models(issubclass)
def _issubclass(tx: Tracer, cls: Value, classes: Value) -> Value:
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-builtin", function="issubclass of something else than a class")
    return boolean(issubclass(cls.value, tuple(_classes(tx, classes))))


@models(type)
def _type(tx: Tracer, *args: Value) -> Value:
    if len(args) != 1:
        unsupported("unsupported-builtin", function="type with three arguments")
    return tx.class_variable(args[0].python_type(), args[0])


@models(callable)
def _callable(tx: Tracer, value: Value) -> Value:
    if isinstance(value, (FunctionVariable, CallableVariable, ClassVariable)):
        return boolean(True)
    return boolean(hasattr(value.python_type(), "__call__"))


@models(getattr)
def _getattr(tx: Tracer, obj: Value, name: Value, *default: Value) -> Value:
    try:
        return obj.get_attr(tx, name.constant())
    except ObservedException as raised:
        if default and tx.is_exception(raised.value, AttributeError):
            return default[0]
        raise


@models(hasattr)
def _hasattr(tx: Tracer, obj: Value, name: Value) -> Value:
    try:
        obj.get_attr(tx, name.constant())
    except ObservedException as raised:
        if tx.is_exception(raised.value, AttributeError):
            return boolean(False)
        raise
    return boolean(True)


@models(setattr)
def _setattr(tx: Tracer, obj: Value, name: Value, value: Value) -> Value:
    obj.set_attr(tx, name.constant(), value)
    return NONE


@models(delattr)
def _delattr(tx: Tracer, obj: Value, name: Value) -> Value:
    obj.del_attr(tx, name.constant())
    return NONE


@models(id)
def _id(tx: Tracer, value: Value) -> Value:
    unsupported("unsupported-builtin", function="id")


@models(super)
def _super(tx: Tracer, *args: Value) -> Value:
    if args:
        cls, owner = args
    else:
        cell = tx.cells.get("__class__")  # type: ignore[attr-defined]
        cls = None if cell is None else cell.read(tx)
        owner = tx.first_argument()  # type: ignore[attr-defined]
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-builtin", function="super outside of a method")
    return SuperVariable(cls.value, owner)


@models(vars)
def _vars(tx: Tracer, *obj: Value) -> Value:
    if not obj:
        unsupported("frame-introspection", function="vars()")
    return obj[0].get_attr(tx, "__dict__")


@models(locals, globals, dir)
def _introspection(tx: Tracer, *args: Value) -> Value:
    unsupported("frame-introspection", function="locals(), globals() or dir()")
