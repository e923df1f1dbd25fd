"""numpy, written so that it can be traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.inside import graph_break
from tracer.library.polyfills.replacing import replaces

_OF_MODULE: Any = np.random.mtrand._rand  # the generator of the functions of np.random


@replaces(np.random.seed)
def seed(seed: Any = None) -> None:
    _OF_MODULE.seed(seed)


@replaces(np.iterable)
def iterable(y: Any) -> bool:
    try:
        iter(y)
    except TypeError:
        return False
    return True


@replaces(np.asanyarray)
def asanyarray(a: Any, dtype: Any = None) -> Any:
    if not isinstance(a, (np.ndarray, np.generic, list, tuple, bool, int, float, complex)):  # a matrix, say
        graph_break()
    return np.asarray(a, dtype=dtype)


@replaces(np.fromfunction)
def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    if like is not None:
        graph_break()
    return function(*np.indices(shape, dtype=dtype), **kwargs)


@replaces(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(arr, (np.ndarray, list, tuple)):  # a matrix, say
        graph_break()
    array = np.asarray(arr)
    dims = list(range(array.ndim))
    if not -array.ndim <= axis < array.ndim:
        graph_break()
    axis %= array.ndim
    rows = np.transpose(array, dims[:axis] + dims[axis + 1 :] + [axis])
    outer = rows.shape[:-1]
    results = [np.asarray(func1d(rows[(*index, ...)], *args, **kwargs)) for index in np.ndindex(*outer)]
    if not results:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    inner = results[0].shape
    for result in results:
        if result.shape != inner or result.dtype != results[0].dtype:
            graph_break()
    made = np.stack(results).reshape(outer + inner)
    dims = list(range(made.ndim))
    last = made.ndim - len(inner)
    return np.transpose(made, dims[:axis] + dims[last:] + dims[axis:last])


@replaces(vars(np.vectorize)["_vectorize_call"])
def vectorize_call(self: Any, func: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Of arrays whose values are known: the function gets Python's numbers."""
    if self.signature is not None:
        return self._vectorize_call_with_signature(func, args)
    if not args:
        return func()
    arrays = [np.asarray(arg) for arg in args]
    otypes, asked = self.otypes, []
    if otypes is None:
        if any(array.size == 0 for array in arrays):
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        first = func(*[array.flat[0] for array in arrays])
        asked = [first] if self.cache else []
        otypes = [np.asarray(each).dtype for each in (first if isinstance(first, tuple) else (first,))]
    shape = np.broadcast_shapes(*[array.shape for array in arrays])
    columns = [np.full(shape, array).flatten().tolist() for array in arrays]
    rows = [asked.pop() if asked else func(*each) for each in zip(*columns)]
    if len(otypes) == 1:
        return _array_of_numbers(rows, otypes[0], shape)
    if any(not isinstance(row, tuple) or len(row) != len(otypes) for row in rows):
        graph_break()
    return tuple([_array_of_numbers([row[i] for row in rows], kind, shape) for i, kind in enumerate(otypes)])


def _array_of_numbers(values: list[Any], kind: Any, shape: tuple[int, ...]) -> Any:
    if not all(isinstance(value, (bool, int, float, complex, np.generic)) for value in values):
        graph_break()
    return np.array(values, dtype=kind).reshape(shape)
