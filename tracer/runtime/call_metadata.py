"""What is kept of a call when it is over: the metadata of its tensors and the plain values beside them, no data of tensors.

Arguments with the same metadata can be made of it again, so that guards can be explained later. Objects of the program are not
kept alive. What cannot be made again is `NOT_KEPT`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from tracer import _C
from tracer.guards.constants import constant_key, is_guardable_constant
from tracer.guards.references import weak_reference
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.sources.roots import LocalSource
from tracer.user_marks import dim_marks, set_dim_marks

MOST = 256  # values of one call that are kept
DEEPEST = 6  # nested containers
LONGEST = 200  # characters of a text


class NotKept:
    """Stands for a value of which nothing is known any more."""

    def __repr__(self) -> str:
        return "<not kept>"


NOT_KEPT = NotKept()


class TensorMetadata(NamedTuple):
    """What guards ask of a tensor. Two places with one tensor have one TensorMetadata."""

    cls: type
    dtype: torch.dtype
    device: torch.device
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool
    is_leaf: bool
    is_inference: bool
    keys: int  # of dispatch
    marks: tuple[tuple[int, Any], ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorMetadata:
        requires_grad = tensor.requires_grad
        return cls(
            type(tensor),
            tensor.dtype,
            tensor.device,
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
            requires_grad,
            not requires_grad or tensor.is_leaf,
            tensor.is_inference(),
            _C.dispatch_keys(tensor),
            tuple(dim_marks(tensor).items()),
        )

    def new(self) -> Any:
        """A tensor with this metadata; its memory is not written to. NOT_KEPT where there is none."""
        try:
            with torch.inference_mode(self.is_inference), torch.enable_grad():
                made = self._new()
        except RuntimeError:  # no such memory
            return NOT_KEPT
        if self.marks:
            set_dim_marks(made, dict(self.marks))
        return made if _C.dispatch_keys(made) == self.keys else NOT_KEPT

    def _new(self) -> torch.Tensor:
        made = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)
        if self.offset:
            extent = 1 + self.offset + sum((size - 1) * step for size, step in zip(self.shape, self.stride))
            whole = torch.empty(max(0, extent), dtype=self.dtype, device=self.device)
            made = whole.as_strided(self.shape, self.stride, self.offset)
        if self.cls is torch.nn.Parameter:
            made = torch.nn.Parameter(made, requires_grad=self.requires_grad)
        elif self.requires_grad:
            made.requires_grad_()
        return made if self.is_leaf else made.view_as(made)


class _Container(NamedTuple):
    make: Callable[[Any], Any]
    kind: type
    keys: tuple[Any, ...] | None  # of a dict
    items: tuple[Any, ...]


class _Object(NamedTuple):
    address: int
    reference: Callable[[], Any]


class CallMetadata:
    """The argument slots of a call, as metadata."""

    __slots__ = ("values",)

    def __init__(self, slots: Iterable[Any]) -> None:
        reading = _Reading()
        with torch._C.DisableTorchFunction():
            self.values = tuple([reading.read(value, 0) for value in slots])

    def slots(self) -> tuple[Any, ...]:
        """Arguments with the same metadata. To be asked under the state of torch that the call was made in."""
        made: dict[int, Any] = {}
        with torch._C.DisableTorchFunction():
            return tuple([_value_again(value, made) for value in self.values])

    def is_whole(self, slots: tuple[Any, ...]) -> bool:
        """Whether nothing of these slots, as `slots()` gave them, is missing."""
        return not any(map(_lacks, slots))

    def key(self) -> Any:
        """Equal, and hashable, for calls with the same metadata and objects."""
        numbers: dict[int, int] = {}
        return tuple([_key(value, numbers) for value in self.values])

    def leaves(self, names: Iterable[str]) -> dict[Source, Any]:
        """source -> TensorMetadata or plain value, of what was kept. `names`: those of the slots."""
        return {source: leaf for name, value in zip(names, self.values) for source, leaf in _leaves(LocalSource(name), value)}


class _Reading:
    """Reads the values of one call."""

    def __init__(self) -> None:
        self.left = MOST
        self.tensors: dict[int, TensorMetadata] = {}

    def read(self, value: Any, depth: int) -> Any:
        cls = type(value)
        if cls is torch.Tensor or cls is torch.nn.Parameter:
            return self._tensor(value)
        if cls is str or cls is bytes:
            return value if len(value) <= LONGEST else NOT_KEPT
        if is_guardable_constant(value):
            return value
        if cls is list or cls is tuple or (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            make = cls if cls is list or cls is tuple else functools.partial(tuple.__new__, cls)
            return _Container(make, cls, None, self._items(value, depth))
        if cls is dict:
            keys = tuple(value)
            if not all(map(is_guardable_constant, keys)):
                return NOT_KEPT
            return _Container(functools.partial(_dict_of, keys), cls, keys, self._items(value.values(), depth))
        try:
            return _Object(id(value), weak_reference(value))
        except TypeError:
            return NOT_KEPT

    def _tensor(self, value: Any) -> Any:
        if value.layout is not torch.strided or value.is_nested:
            return NOT_KEPT
        known = self.tensors.get(id(value))
        if known is None:
            known = self.tensors[id(value)] = TensorMetadata.of(value)
        return known

    def _items(self, values: Any, depth: int) -> tuple[Any, ...]:
        """The items, of which those beyond MOST are not kept."""
        count = len(values)
        if depth >= DEEPEST or self.left <= 0:
            return (NOT_KEPT,) * count
        self.left, room = self.left - count, self.left
        kept = [self.read(item, depth + 1) for item, _ in zip(values, range(room))]
        return (*kept, *(NOT_KEPT,) * (count - len(kept)))


def _dict_of(keys: tuple[Any, ...], items: Iterable[Any]) -> dict[Any, Any]:
    return dict(zip(keys, items))


def _value_again(value: Any, made: dict[int, Any]) -> Any:
    if type(value) is TensorMetadata:
        if id(value) not in made:
            made[id(value)] = value.new()
        return made[id(value)]
    if type(value) is _Container:
        return value.make([_value_again(item, made) for item in value.items])
    if type(value) is _Object:
        found = value.reference()
        return NOT_KEPT if found is None else found
    return value


def _lacks(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(map(_lacks, value))
    return any(map(_lacks, value.values())) if type(value) is dict else value is NOT_KEPT


def _key(value: Any, numbers: dict[int, int]) -> Any:
    if type(value) is TensorMetadata:
        return value, numbers.setdefault(id(value), len(numbers))
    if type(value) is _Container:
        keys = None if value.keys is None else tuple(map(constant_key, value.keys))
        return value.kind, keys, *[_key(item, numbers) for item in value.items]
    if type(value) is _Object:
        return _Object, value.address
    return NotKept if value is NOT_KEPT else constant_key(value)


def _leaves(source: Source, value: Any) -> Iterator[tuple[Source, Any]]:
    if type(value) is not _Container:
        if type(value) is not _Object and value is not NOT_KEPT:
            yield source, value
        return
    for key, item in zip(range(len(value.items)) if value.keys is None else value.keys, value.items):
        yield from _leaves(ItemSource(source, key), item)
