"""Which sizes and ints of a frame become symbols: what the user asked for, and what was seen to vary between calls."""

from __future__ import annotations

import abc
import dataclasses
import math
import weakref
from collections import deque
from collections.abc import Container, Sequence
from typing import Any

import torch

from shapes import DimConstraint, DimPolicy, Past, SizeHistory
from tracer import config
from tracer.sources import AttrSource, ItemSource, Source
from tracer.sources.base import RootSource
from tracer.sources.reading import type_dict
from tracer.sources.tensors import TensorSizeSource
from tracer.user_marks import DimMark, dim_marks

_class_name = type.__dict__["__qualname__"].__get__  # whatever a metaclass defines


@dataclasses.dataclass
class FrameState:
    """What is remembered of one code object in one region, across its traces."""

    history: SizeHistory = dataclasses.field(default_factory=SizeHistory)
    warned_of_limit: bool = False
    timed_out: bool = False  # a compile took too long: no other is tried
    classes: dict[tuple[str, str], weakref.ref[type] | None] = dataclasses.field(default_factory=dict)  # local ones met, by name
    died: deque[str] = dataclasses.field(default_factory=lambda: deque(maxlen=8))  # guarded objects whose death ended an entry
    shown: bool = False  # a call ran in CPython to show its sizes, under the stance "eager_then_compile"

    def past(self, size: TensorSizeSource) -> Past:
        """What was seen of a size in earlier calls."""
        return self.history.past(size.base.name, size.dim)


class DynamismPolicy:
    """Answers for one trace. Asked again about the same source, it gives the same answer."""

    def __init__(
        self,
        history: SizeHistory,
        dynamic: bool | None,
        declared: Container[str] = (),
        classes: dict[tuple[str, str], weakref.ref[type] | None] | None = None,
    ) -> None:
        """`declared`: names of places whose sizes, or ints, the user has declared; they are symbols whatever else holds.
        `classes`: the local classes that earlier traces met, None for those that were others each time."""
        self.history = history
        self.classes = {} if classes is None else classes
        self.dynamic = dynamic
        self.declared = declared
        self._dims: dict[str, tuple[list[DimPolicy], list[DimConstraint | None]]] = {}
        self._ints: dict[str, bool] = {}

    def class_varies(self, cls: type) -> bool:
        """Whether another class of this name was met before, so that a function seems to make them."""
        name = _class_name(cls)
        if "<locals>" not in name or type(cls) not in (type, abc.ABCMeta):
            return False
        key = str(type_dict(cls).get("__module__")), name
        first = self.classes.setdefault(key, weakref.ref(cls))
        if first is not None and first() is not cls:
            first = self.classes[key] = None
        return first is None

    def dims(self, source: Source, tensor: torch.Tensor) -> tuple[list[DimPolicy], list[DimConstraint | None]]:
        """Policy and constraint of each dim of a tensor input."""
        known = self._dims.get(source.name)
        if known is None:
            known = self._dims[source.name] = self._decide(source, tensor)
        return known

    def strides(self, source: Source, tensor: torch.Tensor) -> list[DimPolicy] | None:
        """Where sizes are declared: the stride of a dim of size 1, which no element lies by, is a symbol unless it is in line
        with the others. None: those of the tensor have no symbols of their own."""
        sizes: Sequence[int] = tensor.shape
        if 1 not in sizes or not any(TensorSizeSource(source, dim).name in self.declared for dim in range(len(sizes))):
            return None
        return [DimPolicy.DYNAMIC if size == 1 else DimPolicy.STATIC for size in sizes]

    def _decide(self, source: Source, tensor: torch.Tensor) -> tuple[list[DimPolicy], list[DimConstraint | None]]:
        policies = self._unmarked(source, tensor)
        constraints: list[DimConstraint | None] = [None] * tensor.dim()
        for dim, mark in dim_marks(tensor).items():
            if dim < len(policies):
                policies[dim], constraints[dim] = _of_mark(mark)
        for dim in range(tensor.dim()):
            if TensorSizeSource(source, dim).name in self.declared:
                policies[dim], constraints[dim] = DimPolicy.DYNAMIC, None
        return policies, constraints

    def _unmarked(self, source: Source, tensor: torch.Tensor) -> list[DimPolicy]:
        sizes: Sequence[Any] = tensor.shape
        static = [DimPolicy.STATIC] * len(sizes)
        if self.dynamic is False or (isinstance(tensor, torch.nn.Parameter) and config.force_parameter_static_shapes):
            return static
        varying = self.history.policies(source.name, sizes)
        of_model = config.force_parameter_static_shapes and _is_buffer(source)
        if (self.dynamic or not config.assume_static_by_default) and not of_model:
            return [DimPolicy.DUCK] * len(sizes)
        return varying if config.automatic_dynamic_shapes else static

    def float_is_dynamic(self, source: Source, value: float) -> bool:
        """Whether a float input is a symbol: one that was seen to change is."""
        if config.specialize_float or self.dynamic is False or not (_is_data(source) or _is_state(source)):
            return False
        if value == 0.0 or not math.isfinite(value):
            return False
        known = self._ints.get(source.name)
        if known is None:
            varying = self.history.observe(source.name, (value,))
            known = self._ints[source.name] = bool(varying) and config.automatic_dynamic_shapes
        return known

    def value_is_known(self, source: Source, value: Any) -> bool:
        """Whether a date or time is taken for a constant: what a caller hands in, or was seen to change, comes from a clock."""
        known = self._ints.get(source.name)
        if known is None:
            known = not _is_of_caller(source) and not self.history.observe(source.name, (hash(value),))
            self._ints[source.name] = known
        return known

    def int_is_dynamic(self, source: Source, value: int) -> bool:
        """Whether an int input is a symbol. What the program keeps (attributes, globals, cells) is one if it was seen to
        change, as counters do; until then it is taken for a constant of the model, whatever `dynamic` says."""
        known = self._ints.get(source.name)
        if known is None:
            known = self._ints[source.name] = self._decide_int(source, value)
        return known

    def _decide_int(self, source: Source, value: int) -> bool:
        if source.name in self.declared:
            return True
        data = _is_data(source)
        if config.specialize_int or self.dynamic is False or not (data or _is_state(source)):
            return False
        varying = self.history.observe(source.name, (value,))
        if data and (self.dynamic or not config.assume_static_by_default):
            return value not in (0, 1) or config.specialize_zero_one == "by_need"
        return bool(varying) and config.automatic_dynamic_shapes


def _is_data(source: Source) -> bool:
    """Whether a value is handed in by the caller: an argument, or an item of a container or iterator that is one."""
    while source.is_part and source.base is not None:
        source = source.base
    return isinstance(source, RootSource) and source.root_kind == "local"


def _is_of_caller(source: Source) -> bool:
    """Whether a value was handed in by the caller, and no object keeps it."""
    step: Source | None = source
    while step is not None:
        source, kept, step = step, type(step) is AttrSource, step.base
        if kept:
            return False
    return isinstance(source, RootSource) and source.root_kind == "local"


def _is_state(source: Source) -> bool:
    """Whether a value is kept by the program between calls: in an attribute, a container, a global or a closure."""
    while source.is_kept and source.base is not None:
        source = source.base
    return isinstance(source, RootSource)


def _is_buffer(source: Source) -> bool:
    """Whether a tensor is read from the buffers of a module: a part of the model, as its parameters are."""
    return isinstance(source, ItemSource) and isinstance(source.base, AttrSource) and source.base.attr == "_buffers"


def _of_mark(mark: DimMark) -> tuple[DimPolicy, DimConstraint | None]:
    if mark.kind == "static":
        return DimPolicy.STATIC, None
    if mark.kind == "unbacked":
        return DimPolicy.UNBACKED, None if mark.min is None and mark.max is None else DimConstraint(mark.min, mark.max)
    return DimPolicy.DUCK, DimConstraint(mark.min, mark.max, strict=mark.kind == "dynamic")
