"""Guards on tensors: what `_C.TensorMatch` compares, and the marks that the user set on one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import torch

from tracer import _C
from tracer._C import WORD
from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.guards.demands import Counted, Demand, Tensor, word_is
from tracer.guards.identity import type_mismatch
from tracer.guards.references import class_name
from tracer.sources.base import Source
from tracer.user_marks import marks_of_torch

if TYPE_CHECKING:
    from tracer.guards.implication import Known


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

    def is_exact(self) -> bool:
        """Whether it is what `tensor_spec` gives of a strided tensor without symbols."""
        numbers = (self.sizes, self.strides)
        return self[1:6].count(None) == 0 and all(given is not None and None not in given for given in numbers)


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
    """The device as `check_tensor(...)` shows it: on the CPU its index alone, which is nearly always None."""
    index = None if spec.device_index < 0 else spec.device_index
    if spec.device_type == "cpu":
        return str(index)
    return repr(spec.device_type if index is None else f"{spec.device_type}:{index}")


@guard_kind
class TensorMatch(Guard):
    """Class, dtype, device, requires_grad, dispatch keys, rank, sizes and strides of one tensor. `guards.checklist` puts all
    tensors of an entry into one `_C.TensorMatch`, so that C compares them in one call."""

    source: Source
    spec: TensorSpec
    kind: ClassVar[str] = "TENSOR_MATCH"
    of_tensor: ClassVar[bool] = True
    rank: ClassVar[int] = 0
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Tensor(self.source, self.spec),)

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
        # Most differences show in the dispatch keys too, but say more by themselves.
        without_keys = _C.TensorMatch((self.spec._replace(dispatch_keys=None),))
        found = without_keys.first_mismatch(seen[0]) or _C.TensorMatch((self.spec,)).first_mismatch(seen[0])
        if found is None:
            return Mismatch(self.lines()[0], "", shown(seen[0]))
        return _sentence(self.source, *found[1:])

    def shows_data(self) -> bool:
        return False

    def holds(self, seen: Any) -> bool:
        """Whether the guard holds for this tensor."""
        return _C.TensorMatch((self.spec,))(seen)

    def follows_from(self, known: Known) -> bool:
        return any(type(each) is TensorMatch and _alike(each.spec, self.spec) for each in known.on(self.source))


def _alike(stronger: TensorSpec, weaker: TensorSpec) -> bool:
    """Whether all but the numbers in sizes and strides is equal; the solver compares those. Where `weaker` compares the rank,
    `stronger` has to compare it, too."""
    for known, asked in ((stronger.sizes, weaker.sizes), (stronger.strides, weaker.strides)):
        if asked is not None and (known is None or len(known) != len(asked)):
            return False
    return stronger._replace(sizes=None, strides=None) == weaker._replace(sizes=None, strides=None)


def _sentence(source: Source, what: str, expected: Any, seen: Any) -> Mismatch:
    """The sentence for one field that differs."""
    start = f"tensor '{source.name}'"
    field, _, dim = what.partition("[")
    if field == "ndim":
        return Mismatch(f"{start} rank mismatch. expected {expected}, actual {seen}", str(expected), str(seen))
    if field == "dispatch_keys":
        keys = [str(torch._C.DispatchKeySet.from_raw_repr(value)) for value in (expected, seen)]
        return Mismatch(f"{start} dispatch key set mismatch. expected {keys[0]}, actual {keys[1]}", *keys)
    if field == "device":
        expected, seen = (_device_name(*value) for value in (expected, seen))
    at = f" at index {dim.rstrip(']')}" if dim else ""
    return Mismatch(f"{start} {field} mismatch{at}. expected {expected}, actual {seen}", str(expected), str(seen))


def _device_name(kind: str, index: int | None) -> str:
    return kind if index is None or index < 0 else f"{kind}:{index}"


class Changes(Protocol):
    """Counts the marks that were set in this process."""

    @property
    def count(self) -> int: ...


ALWAYS = -1  # a count of changes that there never is
Marks = frozenset[tuple[int, Any]]  # the marks of one tensor: (dim, mark)


@guard_kind
class LeafMatch(Guard):
    """A tensor that requires a gradient is a leaf of the autograd graph, or is not."""

    source: Source
    is_leaf: bool
    kind: ClassVar[str] = "LEAF_MATCH"
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (word_is(self.source, WORD.LEAF, int(self.is_leaf)),)

    def check(self, code: CheckScope) -> str | None:
        return f"{code.read(self.source)}.is_leaf is {self.is_leaf}"

    def lines(self) -> list[str]:
        return [f"{self.source.name}.is_leaf is {self.is_leaf}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"{self.source.name}.is_leaf changed", str(self.is_leaf), str(seen[0].is_leaf))


@guard_kind
class MarksMatch(Guard):
    """The marks that the user set on the dims of tensors are among those that the trace took into account.

    They lie in the tensor's own `attribute` as a dict from dim to mark; an unmarked tensor always passes. They are
    looked at only if marks were set since the trace, when `changes.count` was `count`; at each call if that is `ALWAYS`.
    """

    group: tuple[Source, ...]
    attribute: str
    marks: tuple[Marks, ...]
    changes: Changes
    count: int
    kind: ClassVar[str] = "DYNAMIC_MARKS"
    told: ClassVar[bool] = True

    @classmethod
    def of(cls, attribute: str, marks: Mapping[Source, Mapping[int, Any]], changes: Changes, count: int) -> MarksMatch:
        """From the marks that each tensor had in the trace."""
        known = tuple([frozenset(of_dim.items()) for of_dim in marks.values()])
        return cls(tuple(marks), attribute, known, changes, count)

    def demands(self) -> tuple[Demand, ...]:
        return (Counted(self.changes, self.count),)

    def check(self, code: CheckScope) -> str | None:
        values = ", ".join(code.read(source) for source in self.group)
        known = code.const(self.marks, "marks")
        changes = code.const(self.changes, "changes")
        return f"{changes}.count == {self.count} or ___marks_within({self.attribute!r}, {known}, {values})"

    def lines(self) -> list[str]:
        marked = [(source.name, known) for source, known in zip(self.group, self.marks, strict=True) if known]
        return [f"marks of {name} within {_marks_text(known)}" for name, known in marked]

    def explain(self, *seen: Any) -> Mismatch:
        for source, known, tensor in zip(self.group, self.marks, seen, strict=True):
            if not marks_within(self.attribute, (known,), tensor):
                now = frozenset(own_marks(tensor, self.attribute).items())
                return Mismatch(f"marks of {source.name} changed", _marks_text(known), _marks_text(now))
        return Mismatch("marks changed", "", "")

    def log_name(self) -> str:
        return self.kind

    def follows_from(self, known: Known) -> bool:
        mine = self.group, self.attribute, self.marks
        others = [each for each in known.of(MarksMatch) if (each.group, each.attribute, each.marks) == mine]
        return any(self._looks_less(each) for each in others)

    def _looks_less(self, other: MarksMatch) -> bool:
        """Whether from now on `other` looks at marks at every call at which this guard does. A guard looks once marks have been
        set since its trace, and the count of marks only grows."""
        now = self.changes.count
        return other.count <= self.count or (other.count < now and self.count < now)

    def _fields(self) -> tuple[Any, ...]:
        return self.group, self.attribute, self.marks, self.count


def _marks_text(marks: Marks) -> str:
    return f"{{{', '.join(f'{dim}: {mark}' for dim, mark in sorted(marks, key=lambda item: item[0]))}}}"


def own_marks(tensor: Any, attribute: str) -> Mapping[int, Any]:
    """dim -> mark, read without code of the tensor's class; empty for a tensor without marks."""
    try:
        found = object.__getattribute__(tensor, "__dict__")
    except AttributeError:
        return {}
    own = found.get(attribute)
    return {**marks_of_torch(found, tensor), **(own if type(own) is dict else {})}


def marks_within(attribute: str, known: tuple[Marks, ...], *tensors: Any) -> bool:
    """Whether each tensor has only marks that are among the known ones of its place."""
    return all(own_marks(tensor, attribute).items() <= marks for marks, tensor in zip(known, tensors, strict=True))
