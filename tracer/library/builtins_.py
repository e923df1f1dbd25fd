"""Models of the builtins that make and walk containers. Builtins for numbers and text are in `builtin_numbers_`, those that
ask about objects in `builtin_objects_`."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dicts import DictVariable, from_keys, update_from
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.containers.ranges import RangeVariable, SliceVariable, as_int
from tracer.variables.containers.sets import FrozenSetVariable, SetVariable, made_of
from tracer.variables.iteration import (
    EnumerateIterator,
    FilterIterator,
    ItemIterator,
    IteratorVariable,
    MapIterator,
    SentinelIterator,
    ZipIterator,
)
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values import symbolic
from tracer.variables.values.constant import FALSE, NONE, ONE, ZERO, ConstantVariable, boolean, fold
from tracer.variables.values.special_results import tuple_items
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


@models(len)
def _len(tx: Tracer, obj: Value, /) -> Value:
    if obj.is_constant() and not defines(obj.python_type(), "__len__"):
        tx.raise_error(TypeError, f"object of type {obj.python_type().__name__!r} has no len()")
    return obj.length(tx)


@models(iter)
def _iter(tx: Tracer, obj: Value, /, *sentinel: Value) -> Value:
    if len(sentinel) > 1:
        unsupported("call-arguments", error=f"iter expected at most 2 arguments, got {1 + len(sentinel)}")
    return SentinelIterator(obj, sentinel[0]) if sentinel else obj.iterate(tx)


@models(next)
def _next(tx: Tracer, iterator: Value, /, *default: Value) -> Value:
    if len(default) > 1:
        unsupported("call-arguments", error=f"next expected at most 2 arguments, got {1 + len(default)}")
    if not defines(iterator.python_type(), "__next__"):
        tx.raise_error(TypeError, f"{iterator.python_type().__name__!r} object is not an iterator")
    if not default and isinstance(iterator, (IteratorVariable, UserObjectVariable)):
        return iterator.call_method(tx, "__next__", [], {})  # StopIteration keeps its value
    item = iterator.next(tx)
    if item is not None:
        return item
    if default:
        return default[0]
    tx.raise_error(StopIteration)


@models(range)
def _range(tx: Tracer, *bounds: Value) -> Value:
    if not 1 <= len(bounds) <= 3:
        unsupported("call-arguments", error=f"range expected 1 to 3 arguments, got {len(bounds)}")
    parts = [_bound(tx, bound) for bound in bounds]
    if len(parts) == 1:
        return RangeVariable(ZERO, parts[0], ONE)
    start, stop, *step = parts
    if step and step[0].is_constant() and step[0].constant() == 0:
        tx.raise_error(ValueError, "range() arg 3 must not be zero")
    return RangeVariable(start, stop, step[0] if step else ONE)


def _bound(tx: Tracer, bound: Value) -> Value:
    if isinstance(bound, SymNodeVariable) and bound.python_type() is int:
        return bound
    number = as_int(tx, bound)
    if number is None:
        name = bound.python_type().__name__
        tx.raise_error(TypeError, f"{name!r} object cannot be interpreted as an integer")
    return ConstantVariable(number)


@models(slice)
def _slice(tx: Tracer, *parts: Value) -> Value:
    if not 1 <= len(parts) <= 3:
        unsupported("call-arguments", error=f"slice expected 1 to 3 arguments, got {len(parts)}")
    if len(parts) == 1:
        return SliceVariable(NONE, parts[0], NONE)
    start, stop, step = (*parts, NONE)[:3]
    return SliceVariable(start, stop, step)


@models(enumerate)
def _enumerate(tx: Tracer, iterable: Value, start: Value = ZERO) -> Value:
    if not (isinstance(start, SymNodeVariable) and start.python_type() is int):
        first = as_int(tx, start)
        if first is None:
            name = start.python_type().__name__
            tx.raise_error(TypeError, f"{name!r} object cannot be interpreted as an integer")
        start = tx.literal(first)
    return EnumerateIterator(iterable.iterate(tx), start)


@models(zip)
def _zip(tx: Tracer, *iterables: Value, strict: Value = FALSE) -> Value:
    iterators = []
    for iterable in iterables:
        if iterable.is_constant() and not defines(iterable.python_type(), "__iter__"):
            tx.raise_error(TypeError, f"{iterable.python_type().__name__!r} object is not iterable")
        iterators.append(iterable.iterate(tx))
    return ZipIterator(iterators, strict.truth(tx))


@models(map)
def _map(tx: Tracer, function: Value, iterable: Value, /, *iterables: Value) -> Value:
    return MapIterator(function, [each.iterate(tx) for each in (iterable, *iterables)])


@models(filter)
def _filter(tx: Tracer, function: Value, iterable: Value, /) -> Value:
    return FilterIterator(function, iterable.iterate(tx))


@models(reversed)
def _reversed(tx: Tracer, obj: Value, /) -> Value:
    if isinstance(obj, UserObjectVariable):
        special = obj.call_special(tx, "__reversed__")
        if special is not None:
            return special
        count = as_int(tx, obj.length(tx)) if obj.special(tx, "__getitem__") is not None else None
        if count is not None:
            return ItemIterator(obj, count - 1, -1)
        unsupported("unsupported-builtin", function=f"reversed of {obj.describe()}")
    backwards = getattr(obj, "reverse_iterate", None)
    if backwards is not None:
        result: Value = backwards(tx)
        return result
    if obj.is_constant() and isinstance(obj.constant(), (str, bytes)):
        return TupleVariable([ConstantVariable(item) for item in obj.constant()]).reverse_iterate(tx)
    if obj.is_constant() or isinstance(obj, (IteratorVariable, SetVariable)):
        tx.raise_error(TypeError, f"{obj.python_type().__name__!r} object is not reversible")
    if defines(obj.python_type(), "__reversed__"):
        return obj.call_method(tx, "__reversed__", [], {})
    unsupported("unsupported-builtin", function=f"reversed of {obj.describe()}")


@models(sorted)
def _sorted(tx: Tracer, iterable: Value, /, *, key: Value = NONE, reverse: Value = FALSE) -> Value:
    any_order = isinstance(iterable, SetVariable) and key.is_none()
    items = iterable.iterate_in_any_order(tx).drain(tx) if any_order else iterable.collect(tx)
    return ListVariable(tx.sorted(items, key, reverse))


@models(all)
def _all(tx: Tracer, iterable: Value, /) -> Value:
    iterator = iterable.iterate_in_any_order(tx)
    while (item := iterator.next(tx)) is not None:
        if not item.truth(tx):
            return boolean(False)
    return boolean(True)


@models(any)
def _any(tx: Tracer, iterable: Value, /) -> Value:
    iterator = iterable.iterate_in_any_order(tx)
    while (item := iterator.next(tx)) is not None:
        if item.truth(tx):
            return boolean(True)
    return boolean(False)


@models(sum)
def _sum(tx: Tracer, iterable: Value, /, start: Value = ZERO) -> Value:
    if start.is_constant() and isinstance(start.constant(), (str, bytes)):
        kind, prefix = ("strings", "") if isinstance(start.constant(), str) else ("bytes", "b")
        tx.raise_error(TypeError, f"sum() can't sum {kind} [use {prefix}''.join(seq) instead]")
    iterator = iterable.iterate_in_any_order(tx)
    total = start
    numbers: list[Any] | None = []
    while (item := iterator.next(tx)) is not None:
        if numbers is not None and _is_plain_number(item) and _is_plain_number(start):
            numbers.append(item.constant())
            continue
        if numbers:
            total = fold(tx, sum, numbers, start.constant())
        numbers = None
        total = tx.binary("+", total, item)
    return fold(tx, sum, numbers, start.constant()) if numbers else total


def _is_plain_number(value: Value) -> bool:
    return value.is_constant() and type(value.constant()) in (int, float, bool, complex)


# -- extremes ----------------------------------------------------------------------------------------------------------


@models(max)
def _max(tx: Tracer, *args: Value, key: Value = NONE, default: Value | None = None) -> Value:
    return _min_or_max(tx, max, ">", args, key, default)


@models(min)
def _min(tx: Tracer, *args: Value, key: Value = NONE, default: Value | None = None) -> Value:
    return _min_or_max(tx, min, "<", args, key, default)


def _min_or_max(tx: Tracer, function: Any, op: str, args: tuple[Value, ...], key: Value, default: Value | None) -> Value:
    """max(...) or min(...), which `function` is; `op` says whether an item is better than the best so far."""
    if not args or (len(args) > 1 and default is not None):
        unsupported("call-arguments", error=function.__name__)
    plain = key.is_none()
    items = TupleVariable(args) if len(args) > 1 else args[0]
    iterator = items.iterate_in_any_order(tx) if plain else items.iterate(tx)
    best = iterator.next(tx)
    if best is None:
        if default is not None:
            return default
        return fold(tx, function, ())  # the error, in the words of this version of Python
    best_key = best if plain else key.call(tx, [best], {})
    while (item := iterator.next(tx)) is not None:
        if plain and _are_symbolic(best, item, int):
            best = best_key = symbolic.apply(tx, _SYMBOLIC_EXTREMES[op], best, item)
            continue
        if plain and _are_symbolic(best, item, float) and any(_depends_on_data(number) for number in (best, item)):
            best = best_key = _float_extreme(tx, op, best, item)
            continue
        item_key = item if plain else key.call(tx, [item], {})
        if tx.binary_truth(op, item_key, best_key):
            best, best_key = item, item_key
    return best


_SYMBOLIC_EXTREMES = {">": torch.sym_max, "<": torch.sym_min}


def _are_symbolic(left: Value, right: Value, kind: type) -> bool:
    """Whether both are numbers of this kind and one is symbolic. The extreme may be symbolic, too: no guard says which of them
    it is."""
    if not any(isinstance(value, SymNodeVariable) for value in (left, right)):
        return False
    return all(symbolic.is_number(value) and value.python_type() is kind for value in (left, right))


def _depends_on_data(number: Value) -> bool:
    return isinstance(number, SymNodeVariable) and number.depends_on_data()


def _float_extreme(tx: Tracer, op: str, best: Value, item: Value) -> Value:
    """`item if item > best else best`. Tensors choose: compilers sort the arguments of sym_max, which shows with a NaN."""
    dtype = {"dtype": tx.literal(torch.float64)}
    left, right = (tx.call_in_graph(torch.scalar_tensor, [number], dtype) for number in (item, best))
    return tx.call_in_graph(torch.where, [tx.compare(op, left, right), left, right], {}).call_method(tx, "item", [], {})


# -- containers --------------------------------------------------------------------------------------------------------


@models(list)
def _list(tx: Tracer, iterable: Value | None = None, /) -> Value:
    result = ListVariable([])
    if iterable is not None:
        result.extend(tx, iterable)
    return result


@models(tuple)
def _tuple(tx: Tracer, iterable: Value | None = None, /) -> Value:
    if iterable is not None and type(iterable) is TupleVariable:
        return iterable
    return TupleVariable([] if iterable is None else tuple_items(tx, iterable))


@models(set)
def _set(tx: Tracer, iterable: Value | None = None, /) -> Value:
    return made_of(tx, iterable, SetVariable)


@models(frozenset)
def _frozenset(tx: Tracer, iterable: Value | None = None, /) -> Value:
    return made_of(tx, iterable, FrozenSetVariable)


@models(dict)
def _dict(tx: Tracer, mapping: Value | None = None, /, **kwargs: Value) -> Value:
    result = DictVariable({})
    if mapping is not None:
        update_from(tx, result, mapping)
    result.update(tx, ((ConstantVariable(key), value) for key, value in kwargs.items()))
    return result


@models(dict.fromkeys)
def _fromkeys(tx: Tracer, iterable: Value, value: Value = NONE, /) -> Value:
    return from_keys(tx, dict, iterable, value)


# -- effects -----------------------------------------------------------------------------------------------------------


def _model_that_breaks(name: str) -> Any:
    """The model of a function with effects that the trace cannot replay: it breaks the graph."""

    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        unsupported("side-effect-call", name=name, value=", ".join(value.describe() for value in args))

    return model


for _name in ("input", "open", "compile", "__import__"):
    models(getattr(builtins, _name))(_model_that_breaks(_name))
