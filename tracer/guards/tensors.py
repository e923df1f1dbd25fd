"""Guards on tensors: what `_C.TensorMatch` compares, and the marks that the user set on one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple

import torch

from tracer import _C
from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.guards.identity import type_mismatch
from tracer.guards.references import class_name
from tracer.sources import Source


class TensorSpec(NamedTuple):
    """One tensor as `_C.TensorMatch` takes it; a field that is None is not compared, nor is a dim that is None."""

    cls: type
    dispatch_keys: int | None
    dtype: torch.dtype | None
    device_type: str | None
    device_index: int
    requires_grad: bool | None
    sizes: tuple[int | None, ...] | None
    strides: tuple[int | None, ...] | None


def tensor_spec(
    tensor: torch.Tensor, dynamic_sizes: Collection[int] = (), dynamic_strides: Collection[int] | None = ()
) -> TensorSpec:
    """What is guarded of a tensor: sizes and strides but for the dims named; no strides at all for None.

    A tensor without strides (sparse, nested, ...) is guarded by what it has.
    """
    with torch._C.DisableTorchFunction():
        device = tensor.device
        sizes = tuple([None if dim in dynamic_sizes else int(size) for dim, size in enumerate(tensor.size())])
        strides = None
        if dynamic_strides is not None and tensor.layout is torch.strided:
            strides = tuple([None if dim in dynamic_strides else int(s) for dim, s in enumerate(tensor.stride())])
        return TensorSpec(
            type(tensor),
            _C.dispatch_keys(tensor),
            tensor.dtype,
            device.type,
            -1 if device.index is None else device.index,
            tensor.requires_grad,
            sizes,
            strides,
        )


def _dims(dims: tuple[int | None, ...] | None) -> str:
    return "None" if dims is None else f"[{', '.join(map(str, dims))}]"


def _device(spec: TensorSpec) -> str:
    index = None if spec.device_index < 0 else spec.device_index
    if spec.device_type == "cpu":
        return str(index)
    return repr(spec.device_type if index is None else f"{spec.device_type}:{index}")


@guard_kind
class TensorMatch(Guard):
    """Class, dtype, device, requires_grad, dispatch keys, rank, sizes and strides; all tensors in one call."""

    source: Source
    spec: TensorSpec
    kind: ClassVar[str] = "TENSOR_MATCH"
    rank: ClassVar[int] = 0

    def sources(self) -> tuple[Source, ...]:
        return (self.source,)

    def check(self, code: CheckScope) -> str | None:
        raise TypeError("tensors are checked together")

    def lines(self) -> list[str]:
        spec = self.spec
        cls = "" if spec.cls is torch.Tensor else f"{class_name(spec.cls)}, "
        rest = f"size={_dims(spec.sizes)}, stride={_dims(spec.strides)}"
        return [
            f"check_tensor({self.source.name}, {cls}{spec.dtype}, device={_device(spec)}, "
            f"requires_grad={spec.requires_grad}, {rest})"
        ]

    def explain(self, *seen: Any) -> Mismatch:
        if type(seen[0]) is not self.spec.cls:
            return type_mismatch(self.source, class_name(self.spec.cls), seen[0])
        found = _C.TensorMatch((self.spec,)).first_mismatch(seen[0])
        if found is None:
            return Mismatch(self.lines()[0], "", shown(seen[0]))
        return _sentence(self.source, *found[1:])

    def holds(self, seen: Any) -> bool:
        """Whether this one tensor is as it was."""
        return _C.TensorMatch((self.spec,))(seen)


def _sentence(source: Source, what: str, expected: Any, seen: Any) -> Mismatch:
    """The sentence for one field that differs."""
    start = f"tensor '{source.name}'"
    field, _, dim = what.partition("[")
    if field == "ndim":
        return Mismatch(f"{start} rank mismatch. expected {expected}, actual {seen}", str(expected), str(seen))
    if field == "dispatch_keys":
        keys = [_key_names(value) for value in (expected, seen)]
        return Mismatch(f"{start} dispatch key set mismatch. expected {keys[0]}, actual {keys[1]}", *keys)
    if field == "device":
        expected, seen = (_device_name(*value) for value in (expected, seen))
    at = f" at index {dim.rstrip(']')}" if dim else ""
    return Mismatch(f"{start} {field} mismatch{at}. expected {expected}, actual {seen}", str(expected), str(seen))


def _device_name(kind: str, index: int | None) -> str:
    return kind if index is None or index < 0 else f"{kind}:{index}"


def _key_names(keys: int) -> str:
    return str(torch._C.DispatchKeySet.from_raw_repr(keys))


@guard_kind
class MarksMatch(Guard):
    """The marks that the user set on a tensor's dims are among those that the trace took into account.

    They lie in the tensor's own `attribute` as a dict from dim to mark; an unmarked tensor always passes.
    """

    source: Source
    attribute: str
    marks: frozenset[tuple[int, Any]] = frozenset()
    kind: ClassVar[str] = "DYNAMIC_MARKS"
    rank: ClassVar[int] = 6

    def __post_init__(self) -> None:
        if isinstance(self.marks, Mapping):
            object.__setattr__(self, "marks", frozenset(self.marks.items()))

    def sources(self) -> tuple[Source, ...]:
        return (self.source,)

    def check(self, code: CheckScope) -> str | None:
        value = code.read(self.source)
        known = code.const(self.marks, "marks") if self.marks else "()"
        return f"___marks_within({value}, {self.attribute!r}, {known})"

    def lines(self) -> list[str]:
        return [f"marks of {self.source.name} within {_marks_text(self.marks)}"]

    def explain(self, *seen: Any) -> Mismatch:
        own = _C.instance_dict(seen[0]) or {}
        now = _marks_text(frozenset(own.get(self.attribute, {}).items()))
        return Mismatch(f"marks of {self.source.name} changed", _marks_text(self.marks), now)


def _marks_text(marks: frozenset[tuple[int, Any]]) -> str:
    return f"{{{', '.join(f'{dim}: {mark}' for dim, mark in sorted(marks, key=lambda item: item[0]))}}}"


def marks_within(tensor: Any, attribute: str, known: Collection[tuple[int, Any]]) -> bool:
    own = _C.instance_dict(tensor)
    if not own:
        return True
    marks = own.get(attribute)
    return not marks or all(item in known for item in marks.items())
