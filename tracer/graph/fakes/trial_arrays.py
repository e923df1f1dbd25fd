"""Runs operations of NumPy while tracing, on *trial arrays*: of the same dtype and layout as the program's, with random values.

The trial shows what kind of result NumPy gives: array or scalar, dtype, shape, strides, whether it shares memory with an argument
or is one. `torch._numpy`, which computes the operation in the graph, is run on trial arrays, too; where its values differ from
NumPy's, the graph breaks. `variables.tensors.arrays` calls this for each operation that it records.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from tracer.graph.fakes.fake_tensors import expr_of, hints_in
from tracer.graph.operations.array_operations import ArrayOperation, real_function
from tracer.graph_breaks import unsupported
from tracer.operators.layout import hint

LARGEST_COMPARED = 1_000_000  # elements of arguments and results together; beyond that, values are not compared
_TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "complex64": 2e-4}  # absolute and relative; of other dtypes 1e-8
_SIZE_FROM_DATA = 3  # in trials, of what depends on data in the program


def value_in_trials(number: Any) -> Any:
    """An int for a size or number of the program, symbolic or not: its value in the traced call, or, where that depends on data,
    one that is made up."""
    value = hint(number)
    if value is not None:
        return value
    expr = expr_of(number)
    return int(expr.xreplace(dict.fromkeys(expr.free_symbols, _SIZE_FROM_DATA)))


class TrialArrays:
    """The arrays for one trial of an operation. Where fakes share memory, their trial arrays share it, too."""

    def __init__(self, integers: int, spread: float = 1.5, seed: int = 1, sizes: Mapping[Any, int] | None = None) -> None:
        self.integers = integers  # random integers are at least 0 and below this
        self.spread = spread  # random floats are between -spread and spread; with 0, random bools are False
        self._sizes = sizes  # values of the symbols (SymPy) in sizes; without it, those of the traced call
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._buffers: dict[int, np.ndarray[Any, Any]] = {}
        self._arrays: dict[Any, Any] = {}  # by the key that the caller gave
        self.owners: list[tuple[Any, Any]] = []  # (fake, its trial array)
        self.reversed: list[np.ndarray[Any, Any]] = []  # those with negative strides

    def of(self, key: Any, fake: torch.Tensor, cls: type, writeable: bool, values: np.ndarray[Any, Any] | None) -> Any:
        """The trial array of a fake; a scalar of NumPy if `cls` is not `np.ndarray`. The same key (a tracked value) gives the
        same object. `values` are those of an array that is known."""
        known = self._arrays.get(key)
        if known is not None:
            return known
        array = self._view(fake)
        if values is not None:
            array[...] = values
        made = array if cls is np.ndarray else array[()]
        if cls is np.ndarray:
            made.flags.writeable = writeable
            self.owners.append((fake, made))
        self._arrays[key] = made
        return made

    def with_reversed_dims(self, key: Any, array: np.ndarray[Any, Any], dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """An array with the values of `array`, and negative strides in some dims. NumPy may only read it: in the graph it is a
        copy."""
        known = self._arrays.get((key, dims))
        if known is None:
            known = self._arrays[key, dims] = np.flip(np.flip(array, dims).copy(), dims)
            known.flags.writeable = False
            self.reversed.append(known)
        made: np.ndarray[Any, Any] = known
        return made

    def _view(self, fake: torch.Tensor) -> np.ndarray[Any, Any]:
        """An array of the fake's layout in the buffer that belongs to its storage."""
        dtype = numpy_dtype(fake.dtype)
        storage = fake.untyped_storage()
        shape = [self._value(size) for size in fake.shape]
        strides = [self._value(step) * dtype.itemsize for step in fake.stride()]
        buffer = self._buffers.get(storage._cdata)
        if buffer is None:
            count = -(-self._value(storage.nbytes()) // dtype.itemsize)
            buffer = self._buffers[storage._cdata] = self._filled(count, dtype).view(np.uint8)
        offset = self._value(fake.storage_offset()) * dtype.itemsize
        return np.ndarray(shape, dtype, buffer=buffer.data, offset=offset, strides=strides)

    def _value(self, number: Any) -> Any:
        if self._sizes is None or type(number) is int:
            return value_in_trials(number)
        values = {**hints_in(number, _SIZE_FROM_DATA), **self._sizes}  # a storage's size has symbols that no view of it has
        return int(expr_of(number).xreplace(values))

    def _filled(self, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        drawn: np.ndarray[Any, Any] = self._drawn(count, dtype)
        return drawn.astype(dtype)

    def _drawn(self, count: int, dtype: np.dtype[Any]) -> Any:
        if dtype.kind == "b":
            return self._random.integers(0, 2 if self.spread else 1, count)
        if dtype.kind in "iu":
            return self._random.integers(0, self.integers, count)
        real = self._random.uniform(-self.spread, self.spread, count)
        return real + 1j * self._random.uniform(-self.spread, self.spread, count) if dtype.kind == "c" else real


MakeArguments = Callable[[TrialArrays], tuple[list[Any], dict[str, Any]]]  # the args and kwargs of a trial, with its arrays


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """NumPy's dtype for one of torch; breaks the graph where it has none."""
    try:
        found: np.dtype[Any] = torch.empty((), dtype=dtype, device="cpu").numpy().dtype
        return found
    except TypeError:
        unsupported("data-dependent-method", value=f"a tensor of {dtype}, which NumPy does not have,", name="numpy")


@contextlib.contextmanager
def collecting_warnings() -> Iterator[list[Any]]:
    """Within, warnings are put into the list, and floating-point errors are ignored."""
    with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def computed_by_numpy(
    operation: ArrayOperation, args: list[Any], kwargs: dict[str, Any], views: bool = False
) -> tuple[Any] | None:
    """What NumPy gives for these very values, in a tuple, since it may be None; None if it raises or warns, writes to an array of
    them, or gives their memory. `views`: it may give their memory."""
    kind, _, name = operation.name.partition(":")
    arrays = [leaf for leaf in arrays_in((args, kwargs)) if isinstance(leaf, np.ndarray)]
    before = [array.tobytes() for array in arrays]
    try:
        with collecting_warnings() as caught:
            result = real_function(kind, name)(*args, **kwargs)
    except Exception:
        return None  # the caller then tries trial arrays, and breaks the graph with the error
    if caught or before != [array.tobytes() for array in arrays]:
        return None
    shared = any(
        isinstance(leaf, np.ndarray) and np.may_share_memory(leaf, each) for leaf in arrays_in(result) for each in arrays
    )
    return None if shared and not views else (result,)


def try_in_numpy(operation: ArrayOperation, arguments: MakeArguments) -> tuple[Any, TrialArrays]:
    """The result of NumPy on trial arrays, and those arrays. Breaks the graph if NumPy raises or warns, or if `torch._numpy`
    gives other values."""
    kind, _, name = operation.name.partition(":")
    function = real_function(kind, name)
    error: BaseException | None = None
    for integers in (3, 1):  # integers may be positions, which zeros always are
        trial = TrialArrays(integers)
        args, kwargs = arguments(trial)
        copies = TrialArrays(integers)  # with the same values: NumPy may write to the first ones
        try:
            with collecting_warnings() as caught:
                result = function(*args, **kwargs)
        except Exception as failed:
            error = failed
            continue
        if caught:
            unsupported("operator-failed-in-trace", operator=operation.name, error=f"NumPy warns: {caught[0].message}")
        _compare_values(operation, result, args, kwargs, arguments(copies))
        return result, trial
    unsupported("operator-failed-in-trace", operator=operation.name, error=f"{type(error).__name__}: {error}")


def _compare_values(operation: ArrayOperation, result: Any, args: Any, kwargs: Any, copies: Any) -> None:
    """Breaks the graph unless `torch._numpy`, on `copies` of the arguments, gives the values of `result` and leaves the values
    that NumPy left in `args` and `kwargs`."""
    if sum(leaf.size for leaf in arrays_in((args, kwargs, result))) > LARGEST_COMPARED or "empty" in operation.name:
        return
    tensors = {id(leaf): _tensor(leaf) for leaf in arrays_in(copies)}
    try:
        with collecting_warnings():
            seen = operation(*_mapped(copies[0], tensors), **_mapped(copies[1], tensors))
    except Exception as error:  # of torch alone: NumPy has just computed it
        unsupported("operator-result", cause=error, operator=operation.name, cls="value that torch has no counterpart of")
    pairs = zip(arrays_in((result, args, kwargs)), _leaves((seen, _mapped(copies, tensors)), torch.Tensor))
    if not all(_equal(expected, tensor) for expected, tensor in pairs):
        unsupported("operator-result", operator=operation.name, cls="value other than NumPy's")


def _tensor(leaf: Any) -> torch.Tensor:
    """A tensor with the memory of an array; a copy for a scalar, or for negative strides, which torch does not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of arrays that are read only
        plain = isinstance(leaf, np.ndarray) and min(leaf.strides, default=0) >= 0
        return torch.from_numpy(leaf if plain else np.array(leaf, order="C"))


def _leaves(value: Any, kinds: type | tuple[type, ...]) -> Iterator[Any]:
    """The objects of these classes in nested containers."""
    if isinstance(value, kinds):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item, kinds)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()), kinds)


def arrays_in(value: Any) -> Iterator[Any]:
    """The arrays and scalars of NumPy in nested containers."""
    return _leaves(value, (np.ndarray, np.generic))


def _mapped(value: Any, tensors: dict[int, torch.Tensor]) -> Any:
    """The structure with a tensor in the place of each array or scalar: `tensors` has them by the ids of those."""
    if isinstance(value, (np.ndarray, np.generic)):
        return tensors[id(value)]
    if type(value) in (list, tuple):
        return type(value)(_mapped(item, tensors) for item in value)
    if isinstance(value, np.dtype):
        return value.name
    if type(value) is dict:
        return {key: _mapped(item, tensors) for key, item in value.items()}
    return value


def _equal(expected: Any, tensor: torch.Tensor) -> bool:
    try:
        seen = tensor.resolve_conj().resolve_neg().numpy()
    except TypeError:  # of a dtype that NumPy does not have
        return False
    if expected.shape != seen.shape or expected.dtype != seen.dtype:
        return False
    if expected.dtype.kind not in "fc":
        return bool(np.array_equal(expected, seen))
    tolerance = _TOLERANCE.get(expected.dtype.name, 1e-8)
    return bool(np.allclose(expected, seen, rtol=tolerance, atol=tolerance, equal_nan=True))
