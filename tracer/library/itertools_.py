"""Models of itertools."""

from __future__ import annotations

import inspect
import itertools
import numbers
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.containers.ranges import as_int
from tracer.variables.iterators.grouping_iterators import GroupByIterator, PoolIterator, TeeIterator
from tracer.variables.iterators.lazy_iterators import (
    AccumulateIterator,
    BatchedIterator,
    ChainIterator,
    CompressIterator,
    CountIterator,
    CycleIterator,
    FilterFalseIterator,
    PairwiseIterator,
    RepeatIterator,
    SliceIterator,
    StarMapIterator,
    WhileIterator,
    ZipLongestIterator,
)
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import NONE, ONE, ZERO

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
MOST_TUPLES = 100_000


def _int(tx: Tracer, value: Value, what: str) -> int:
    number = None if isinstance(value, UserObjectVariable) and not value.is_constant() else as_int(tx, value)
    if number is None:
        unsupported("call-arguments", error=f"{what} takes an int")
    return number


@models(itertools.chain)
def _chain(tx: Tracer, *iterables: Value) -> Value:
    return ChainIterator(TupleVariable(iterables).iterate(tx))


@models(itertools.chain.from_iterable)
def _chain_from_iterable(tx: Tracer, iterables: Value, /) -> Value:
    return ChainIterator(iterables.iterate(tx))


@models(itertools.islice)
def _islice(tx: Tracer, iterable: Value, bound: Value, /, *more: Value) -> Value:
    start, stop, step = (NONE, bound, NONE) if not more else (bound, more[0], more[1] if len(more) > 1 else NONE)
    numbers = [None if value.is_none() else _int(tx, value, "islice") for value in (start, stop, step)]
    if any(number is not None and number < (position == 2) for position, number in enumerate(numbers)) or len(more) > 2:
        unsupported("call-arguments", error="islice")
    return SliceIterator(iterable.iterate(tx), numbers[0] or 0, numbers[1], numbers[2] or 1)


@models(itertools.count)
def _count(tx: Tracer, start: Value = ZERO, step: Value = ONE) -> Value:
    for value in (start, step):
        if not issubclass(value.python_type(), numbers.Number):
            unsupported("unsupported-builtin", function=f"itertools.count of {value.describe()}")
    if start.python_type() is bool and step.is_constant() and step.constant() == 1:  # C counts from the int that the bool equals
        start = tx.unary("+", start)
    return CountIterator(start, step)


@models(itertools.repeat)
def _repeat(tx: Tracer, object: Value, times: Value | None = None) -> Value:
    return RepeatIterator(object, None if times is None else max(0, _int(tx, times, "repeat")))


@models(itertools.cycle)
def _cycle(tx: Tracer, iterable: Value, /) -> Value:
    return CycleIterator(iterable.iterate(tx))


@models(itertools.accumulate)
def _accumulate(tx: Tracer, iterable: Value, func: Value = NONE, *, initial: Value = NONE) -> Value:
    return AccumulateIterator(iterable.iterate(tx), None if func.is_none() else func, None if initial.is_none() else initial)


@models(itertools.zip_longest)
def _zip_longest(tx: Tracer, *iterables: Value, fillvalue: Value = NONE) -> Value:
    return ZipLongestIterator([iterable.iterate(tx) for iterable in iterables], fillvalue)


@models(itertools.filterfalse)
def _filterfalse(tx: Tracer, function: Value, iterable: Value, /) -> Value:
    return FilterFalseIterator(function, iterable.iterate(tx))


@models(itertools.takewhile)
def _takewhile(tx: Tracer, predicate: Value, iterable: Value, /) -> Value:
    return WhileIterator(itertools.takewhile, predicate, iterable.iterate(tx))


@models(itertools.dropwhile)
def _dropwhile(tx: Tracer, predicate: Value, iterable: Value, /) -> Value:
    return WhileIterator(itertools.dropwhile, predicate, iterable.iterate(tx))


@models(itertools.starmap)
def _starmap(tx: Tracer, function: Value, iterable: Value, /) -> Value:
    return StarMapIterator(function, iterable.iterate(tx))


@models(itertools.compress)
def _compress(tx: Tracer, data: Value, selectors: Value) -> Value:
    return CompressIterator(data.iterate(tx), selectors.iterate(tx))


@models(itertools.pairwise)
def _pairwise(tx: Tracer, iterable: Value, /) -> Value:
    return PairwiseIterator(iterable.iterate(tx))


def _batched(tx: Tracer, iterable: Value, n: Value, **options: Value) -> Value:
    if not options.keys() <= inspect.signature(BatchedIterator.cls).parameters.keys():  # 3.13 brings `strict`
        unsupported("call-arguments", error="batched")
    size = _int(tx, n, "batched")
    if size < 1:
        tx.raise_error(ValueError, "n must be at least one")
    strict = "strict" in options and options["strict"].truth(tx)
    return BatchedIterator(iterable.iterate(tx), size, strict)


if hasattr(itertools, "batched"):  # from 3.12 on
    models(BatchedIterator.cls)(_batched)


@models(itertools.groupby)
def _groupby(tx: Tracer, iterable: Value, key: Value = NONE) -> Value:
    return GroupByIterator(iterable.iterate(tx), None if key.is_none() else key)


@models(itertools.tee)
def _tee(tx: Tracer, iterable: Value, n: Value | None = None, /) -> Value:
    if isinstance(iterable, TeeIterator):
        unsupported("unsupported-builtin", function="itertools.tee of an iterator that tee made")
    source, buffer = iterable.iterate(tx), list[Value]()
    return TupleVariable([TeeIterator(source, buffer) for _ in range(2 if n is None else _int(tx, n, "tee"))])


# -- combinations ------------------------------------------------------------------------------------------------------


@models(itertools.product)
def _product(tx: Tracer, *iterables: Value, repeat: Value = ONE) -> Value:
    times = _int(tx, repeat, "product")
    if times < 0:
        tx.raise_error(ValueError, "repeat argument cannot be negative")
    pools = [iterable.unpack(tx) for iterable in iterables] * times
    size = 1
    for pool in pools:
        size *= len(pool)
    return _iterator_over_tuples(itertools.product, pools, {}, itertools.product(*pools), size)


def _iterator_over_tuples(cls: Any, pools: list[list[Value]], options: dict[str, int], tuples: Any, size: int = 0) -> Value:
    """An iterator over tuples of items of `pools`, all of which are made now. `size` is their number, if it is known before."""
    if size > MOST_TUPLES:
        unsupported("trace-too-long", value=size)
    made = []
    for items in tuples:
        made.append(TupleVariable(items))
        if len(made) > MOST_TUPLES:
            unsupported("trace-too-long", value=MOST_TUPLES)
    return PoolIterator(cls, pools, options, made)


def _model_of_choice(cls: Any) -> Any:
    """The model of a class that chooses `r` items of an iterable, such as `itertools.combinations`."""

    def model(tx: Tracer, iterable: Value, r: Value) -> Value:
        pool, count = iterable.unpack(tx), _int(tx, r, cls.__name__)
        if count < 0:
            tx.raise_error(ValueError, "r must be non-negative")
        return _iterator_over_tuples(cls, [pool], {"r": count}, cls(pool, count))

    return model


for _cls in (itertools.combinations, itertools.combinations_with_replacement):
    models(_cls)(_model_of_choice(_cls))


@models(itertools.permutations)
def _permutations(tx: Tracer, iterable: Value, r: Value = NONE) -> Value:
    pool = iterable.unpack(tx)
    if r.is_none():
        return _iterator_over_tuples(itertools.permutations, [pool], {}, itertools.permutations(pool))
    result: Value = _model_of_choice(itertools.permutations)(tx, TupleVariable(pool), r)
    return result
