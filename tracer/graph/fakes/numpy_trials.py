"""What NumPy gives for arrays that differ in their values, and in those of their sizes that vary: tried while tracing.

The sizes of the results that vary are taken for simple functions of the sizes of the arguments: a size, times or plus a constant,
or a product of sizes. That is a guess; the operator in the graph compares it with what NumPy gives (`operations.numpy_calls`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from tracer.graph.fakes.fake_tensors import expr_of, is_symbolic, symbols_in
from tracer.graph.fakes.trial_arrays import MakeArguments, TrialArrays, arrays_in, collecting_warnings
from tracer.graph.operations.array_operations import ArrayOperation, real_function
from tracer.graph.operations.numpy_calls import Form, SizeOf, leaves
from tracer.operators.layout import hint

_FILLS = ((3, 1.5, 1), (3, 1.5, 2), (1, 1.5, 1), (1, 0.0, 1))  # of the trials: bound of integers, spread of floats, seed
_STEPS = (2, 3, 5, 7, 11)  # what sizes that vary are made longer by, so that they are told apart
_DTYPES = frozenset("bool int8 uint8 int16 int32 int64 float16 float32 float64 complex64 complex128".split())
_FAILED = object()


def forms_by_numpy(
    operation: ArrayOperation, arguments: MakeArguments, tensors: list[torch.Tensor]
) -> tuple[Any, tuple[Form, ...]] | None:
    """A result of NumPy, and the forms of all that it may give for arguments like these (`tensors` stand for the arrays among
    them). None where it writes to an argument, gives the memory of one, or gives other things than arrays and scalars; where it
    fails; and where the sizes of the result do not follow from those of the arguments."""
    tried = _forms_of_trials(operation, arguments, None)
    symbols = symbols_in([list(tensor.shape) + list(tensor.stride()) + [tensor.storage_offset()] for tensor in tensors])
    if tried is None or not symbols:
        return tried
    result, forms = tried
    hints = {expr_of(size): hint(size) for tensor in tensors for size in tensor.shape if is_symbolic(size)}
    if len(symbols) > len(_STEPS) or any(hints.get(symbol) is None for symbol in symbols):
        return None
    longer = {symbol: hints[symbol] + step for symbol, step in zip(symbols, _STEPS)}
    again = _forms_of_trials(operation, arguments, longer)
    if again is None or len(again[1]) != len(forms):
        return None
    following = [_following(a, b, list(_candidates(tensors, longer))) for a, b in zip(forms, again[1])]
    return None if None in following else (result, tuple([form for form in following if form is not None]))


def _forms_of_trials(
    operation: ArrayOperation, arguments: MakeArguments, sizes: Mapping[Any, int] | None
) -> tuple[Any, tuple[Form, ...]] | None:
    result: Any = None
    forms: list[Form] | None = None
    for fill in _FILLS:
        tried = _tried(operation, *arguments(TrialArrays(*fill, sizes)))
        if tried is _FAILED:
            continue
        found = _forms(tried)
        if found is None or forms is not None and len(found) != len(forms):
            return None
        joined = found if forms is None else [a.joined(b) for a, b in zip(forms, found)]
        if None in joined:
            return None
        result, forms = (tried if forms is None else result), [form for form in joined if form is not None]
    return None if forms is None else (result, tuple(forms))


def _tried(operation: ArrayOperation, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of NumPy; `_FAILED` where it raises, and None where it has an effect on the arguments, or gives their memory."""
    kind, _, name = operation.name.partition(":")
    arrays = [leaf for leaf in arrays_in((args, kwargs)) if isinstance(leaf, np.ndarray)]
    before = [array.tobytes() for array in arrays]
    try:
        with collecting_warnings():
            result = real_function(kind, name)(*args, **kwargs)
    except Exception:
        return _FAILED
    if before != [array.tobytes() for array in arrays]:
        return None
    shared = any(isinstance(leaf, np.ndarray) and np.may_share_memory(leaf, each) for leaf in leaves(result) for each in arrays)
    return None if shared else result


def _forms(result: Any) -> list[Form] | None:
    """The forms of the arrays and scalars of a result; None if there is anything else in it that an operation cannot give."""
    found = list(leaves(result))
    for leaf in found:
        if type(leaf) is not np.ndarray and not isinstance(leaf, np.generic) or leaf.dtype.name not in _DTYPES:
            return None
        if type(leaf) is np.ndarray and (min(leaf.strides, default=0) < 0 or not leaf.flags.writeable):
            return None
    if any(np.may_share_memory(one, other) for one, other in itertools.combinations(found, 2)):
        return None
    return [Form.of(leaf) for leaf in found]


def _candidates(tensors: list[torch.Tensor], longer: Mapping[Any, int]) -> Iterator[tuple[SizeOf, int, int]]:
    """Numbers that the sizes of a result may be multiples of, with their values in the traced call and in longer arguments."""
    sizes = [
        (SizeOf(((index, dim),)), hint(size), int(expr_of(size).xreplace(longer)))
        for index, tensor in enumerate(tensors)
        for dim, size in enumerate(tensor.shape)
        if is_symbolic(size)
    ]
    yield from sizes
    for (one, a, x), (other, b, y) in itertools.combinations_with_replacement(sizes, 2):
        yield SizeOf(one.dims + other.dims), a * b, x * y


def _following(first: Form, longer: Form, candidates: Iterable[tuple[SizeOf, int, int]]) -> Form | None:
    """The form of results whose sizes follow from those of the arguments."""
    alike = (first.cls, first.dtype, len(first.shape)) == (longer.cls, longer.dtype, len(longer.shape))
    if not alike or (first.strides is None) is not (longer.strides is None):
        return None
    shape = _numbers_following(first.shape, longer.shape, candidates)
    strides = None if first.strides is None else _numbers_following(first.strides, longer.strides or (), candidates)
    if shape is None or strides is None and first.strides is not None:
        return None
    return first._replace(shape=shape, strides=strides)


def _numbers_following(
    first: tuple[Any, ...], longer: tuple[Any, ...], candidates: Iterable[tuple[SizeOf, int, int]]
) -> tuple[Any, ...] | None:
    """Sizes or strides as they follow from the sizes of the arguments; None where one does not."""
    numbers: list[Any] = []
    for a, b in zip(first, longer):
        if a == b:
            numbers.append(a)
        elif a is None or b is None:
            numbers.append(None)
        else:
            sizes = (_size(candidate, value, other, a, b) for candidate, value, other in candidates)
            found = next((size for size in sizes if size is not None), None)
            if found is None:
                return None
            numbers.append(found)
    return tuple(numbers)


def _size(candidate: SizeOf, value: int, longer: int, a: int, b: int) -> SizeOf | None:
    """A number that is `a` where `candidate` is `value`, and `b` where it is `longer`."""
    if a - value == b - longer:
        return candidate._replace(plus=a - value)
    times = a // value if value else 0
    return candidate._replace(times=times) if times * value == a and times * longer == b else None
