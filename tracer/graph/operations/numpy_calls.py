"""Calls of NumPy itself as nodes of a graph, for functions that torch lacks or computes otherwise.

`shapetracer::numpy` is one operator of torch, so that every backend can hold it: the kernel hands the tensors' memory to NumPy.
What the results are like is known from trials while tracing. Where a call gives anything else, the operator raises, and the
cached code leaves the call to CPython.
"""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from tracer.graph.operations.array_operations import real_function

_LIBRARY = torch.library.Library("shapetracer", "FRAGMENT")
_LIBRARY.define("numpy(Tensor[] arrays, str call) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))


class SizeOf(NamedTuple):
    """A size that varies with those of the arguments: the product of some of them (index of the tensor, dim), times and plus a
    constant."""

    dims: tuple[tuple[int, int], ...]
    times: int = 1
    plus: int = 0

    def among(self, tensors: list[torch.Tensor]) -> Any:
        return math.prod(tensors[index].shape[dim] for index, dim in self.dims) * self.times + self.plus


class Form(NamedTuple):
    """What a result is like. A size of None depends on data; `strides` count elements."""

    cls: type
    dtype: str
    shape: tuple[Any, ...]  # int, None or SizeOf
    strides: tuple[Any, ...] | None  # int or SizeOf; None: as C lays out the shape

    @classmethod
    def of(cls, result: Any) -> Form:
        """The form of an array or scalar of NumPy."""
        contiguous = isinstance(result, np.generic) or result.flags.c_contiguous
        strides = None if contiguous else tuple([step // result.itemsize for step in result.strides])
        return cls(type(result), result.dtype.name, result.shape, strides)

    def joined(self, other: Form) -> Form | None:
        """The form of both results, or None if they differ in more than sizes."""
        if (self.cls, self.dtype, len(self.shape)) != (other.cls, other.dtype, len(other.shape)):
            return None
        kept = other if self._lies_as(other) else self if other._lies_as(self) else None
        if kept is None:
            return None
        shape = tuple([a if a == b else None for a, b in zip(self.shape, other.shape)])
        return self._replace(shape=shape, strides=kept.strides)

    def _lies_as(self, other: Form) -> bool:
        """Whether results of this form have the strides of another. Those of dims of one element say nothing."""
        if self.strides == other.strides:
            return True
        if None in self.shape:
            return False
        mine = _steps(self.shape) if self.strides is None else self.strides
        others = _steps(self.shape) if other.strides is None else other.strides
        return 0 in self.shape or all(size == 1 or a == b for size, a, b in zip(self.shape, mine, others))

    def among(self, tensors: list[torch.Tensor]) -> Form:
        """The form for these very arguments."""

        def known(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple([size.among(tensors) if isinstance(size, SizeOf) else size for size in sizes])

        return self._replace(shape=known(self.shape), strides=None if self.strides is None else known(self.strides))

    def has(self, result: Any) -> bool:
        """Whether a result is of this form."""
        joined = self.joined(Form.of(result))
        return joined is not None and joined.shape == self.shape

    def empty(self) -> torch.Tensor:
        """A tensor of this form, in the fake mode that is active."""
        dtype = torch.from_numpy(np.empty((), self.dtype)).dtype
        shape = [torch.library.get_ctx().new_dynamic_size() if size is None else size for size in self.shape]
        if self.strides is None:
            return torch.empty(shape, dtype=dtype, device="cpu")
        return torch.empty_strided(shape, self.strides, dtype=dtype, device="cpu")


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array as C lays it out, in elements."""
    return tuple([math.prod(shape[dim + 1 :]) for dim in range(len(shape))])


class _Place(NamedTuple):
    """Stands for the array with this index."""

    place: int
    is_scalar: bool
    reversed_dims: tuple[int, ...] = ()  # the dims along which its strides are to be negative

    def fill(self, view: np.ndarray[Any, Any]) -> Any:
        """What NumPy is given for a tensor's memory."""
        if self.reversed_dims:
            return np.flip(np.flip(view, self.reversed_dims).copy(), self.reversed_dims)
        return view[()] if self.is_scalar else view


class NumpyCall:
    """A function from tensors to a list of tensors that calls NumPy. `name` is as of an `ArrayOperation`; `scalars` says which
    tensors stand for scalars of NumPy, in the order of the arguments, and `reversed_dims` which for arrays with negative
    strides, along which dims; `forms` what the results are like, and `errors` which settings of `np.seterr` hold."""

    def __init__(
        self,
        name: str,
        scalars: tuple[bool, ...],
        forms: tuple[Form, ...],
        errors: tuple[Any, ...] = (),
        reversed_dims: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self.name = name
        self.scalars = scalars
        self.reversed_dims = reversed_dims or ((),) * len(scalars)
        self.forms = forms
        self.errors = errors
        self.__name__ = f"numpy_{name.partition(':')[2].replace('.', '_')}"
        self.__qualname__ = self.__name__

    def __repr__(self) -> str:
        return f"<{self.name} of NumPy on tensors>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[torch.Tensor] = []

        def placed(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                tensors.append(value)
                place = len(tensors) - 1
                return _Place(place, self.scalars[place], self.reversed_dims[place])
            return _mapped(value, placed)

        given = placed(list(args)), {key: placed(value) for key, value in kwargs.items()}
        call = pickle.dumps((self.name, *given, self.forms, self.errors)).hex()
        return torch.ops.shapetracer.numpy(tensors, call)


def _mapped(value: Any, change: Any) -> Any:
    """Lists, tuples and slices with changed parts."""
    if isinstance(value, list):  # FX's own class of lists, too
        return list(map(change, value))
    if type(value) is tuple:
        return tuple(map(change, value))
    if type(value) is slice:
        return slice(change(value.start), change(value.stop), change(value.step))
    return value


@functools.lru_cache(1024)
def _read(call: str) -> tuple[str, list[Any], dict[str, Any], tuple[Form, ...], tuple[Any, ...]]:
    """What the text that `NumpyCall` made says. The text stands in the graph, which is code itself."""
    read: tuple[str, list[Any], dict[str, Any], tuple[Form, ...], tuple[Any, ...]] = pickle.loads(bytes.fromhex(call))
    return read


def leaves(result: Any) -> Iterator[Any]:
    """The results of a call, in order: items of lists and tuples, and of named tuples."""
    if isinstance(result, (list, tuple)):
        for item in result:
            yield from leaves(item)
    else:
        yield result


def _compute(arrays: list[torch.Tensor], call: str) -> list[torch.Tensor]:
    name, args, kwargs, general, errors = _read(call)
    forms = [form.among(arrays) for form in general]
    views = [tensor.detach().numpy() for tensor in arrays]

    def filled(value: Any) -> Any:
        if type(value) is _Place:
            return value.fill(views[value.place])
        return _mapped(value, filled)

    kind, _, path = name.partition(":")
    given = {key: filled(value) for key, value in kwargs.items()}
    with np.errstate(**dict(errors)):
        results = list(leaves(real_function(kind, path)(*filled(args), **given)))
    if len(results) != len(forms) or not all(form.has(each) for form, each in zip(forms, results)):
        raise RuntimeError(f"{path} gave another kind of result than while tracing")
    if any(np.may_share_memory(result, view) for result in results for view in views):
        raise RuntimeError(f"{path} gave the memory of an argument")
    return [torch.from_numpy(np.asarray(result)) for result in results]


def _compute_fake(arrays: list[torch.Tensor], call: str) -> list[torch.Tensor]:
    return [form.among(arrays).empty() for form in _read(call)[3]]


_LIBRARY.impl("numpy", _compute, "CPU")
torch.library.register_fake("shapetracer::numpy", _compute_fake, lib=_LIBRARY)
