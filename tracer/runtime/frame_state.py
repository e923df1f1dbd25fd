"""Which sizes and ints of a frame become symbols: those that the user marked, and those that varied between calls."""

from __future__ import annotations

import abc
import dataclasses
import math
import weakref
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

import torch

from shapes import DimConstraint, DimPolicy, Past, SizeHistory
from tracer import config
from tracer.guards.constants import constant_key
from tracer.operators.layout import stride_terms
from tracer.sources.attributes import AttrSource
from tracer.sources.base import RootSource, Source
from tracer.sources.containers import ItemSource
from tracer.sources.functions import CellContentsSource, ClosureCellSource
from tracer.sources.iterators import IteratorPartsSource, UpcomingSource
from tracer.sources.reading import type_dict
from tracer.sources.roots import LocalSource
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource
from tracer.user_marks import DimMark, dim_marks, sizes_by_name

_class_name = type.__dict__["__qualname__"].__get__  # whatever a metaclass defines


@dataclasses.dataclass
class FrameState:
    """What a region remembers of one code object across its traces."""

    history: SizeHistory = dataclasses.field(default_factory=SizeHistory)
    warned_of_limit: bool = False
    timed_out: bool = False  # a compile exceeded its time limit: none is started any more
    classes: dict[tuple[str, str], weakref.ref[type] | None] = dataclasses.field(default_factory=dict)  # local classes, by name
    # Guarded objects whose death invalidated an entry since the last trace.
    dead_objects: deque[str] = dataclasses.field(default_factory=lambda: deque(maxlen=8))
    from_data: Collection[str] = ()  # of a resume function: the arguments that the instruction of the break read out of a tensor
    comes_again: bool = False  # a state for which an entry was taken to serve one call alone (`pipeline.outdated`) came back
    ran_uncompiled_once: bool = False  # under the stance "eager_then_compile": the sizes of a first call are noted

    def past(self, size: TensorSizeSource) -> Past:
        """The values that a size had in earlier calls."""
        return self.history.past(size.base.name, size.dim)


class DynamismPolicy:
    """Decides for one trace which values are symbols. For the same source it always gives the same answer."""

    def __init__(
        self,
        history: SizeHistory,
        dynamic: bool | None,
        declared: Collection[str] = (),
        classes: dict[tuple[str, str], weakref.ref[type] | None] | None = None,
        changed_by_loop: Collection[str] | None = None,
        is_resumed: bool = False,
        from_data: Collection[str] = (),
    ) -> None:
        """`declared`: the names of the sizes and ints that the user declared, which are always symbols.
        `classes`: the local classes that earlier traces met, by name; None if each trace met another one.
        `changed_by_loop`: for a frame that begins inside a loop, the locals that change from turn to turn; they and what
        iterators give are symbols at once, if they are numbers.
        `is_resumed`: the frame goes on with one that has begun, whose nested functions have closed over data of this call.
        `from_data`: arguments that were read out of a tensor: numbers in them are symbols at once."""
        self.history = history
        self.classes = {} if classes is None else classes
        self.dynamic = dynamic
        self.declared = declared
        self._changed_by_loop = changed_by_loop
        self._is_resumed = is_resumed
        self._from_data = from_data
        self._dims: dict[Source, tuple[list[DimPolicy], list[DimConstraint | None]]] = {}
        self._strides: dict[Source, list[DimPolicy]] = {}
        self._scalars: dict[Source, bool] = {}

    def is_declared(self, source: Source) -> bool:
        """Whether the user declared a size or an int at a source or below it."""
        return any(name.startswith(source.name) for name in self.declared)

    def class_varies(self, cls: type) -> bool:
        """Whether an earlier trace met another class of this name: it is probably made anew in each call of a function."""
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
        if self._is_fixed(tensor):
            return [DimPolicy.STATIC] * tensor.dim(), [None] * tensor.dim()
        known = self._dims.get(source)
        if known is None:
            known = self._dims[source] = self._decide_dims(source, tensor)
        return known

    def strides(self, source: Source, tensor: torch.Tensor) -> list[DimPolicy] | None:
        """Policies for the strides of a tensor input: DYNAMIC for a symbol, DUCK for one unless sizes say what the stride is, as
        they do of a contiguous tensor. None: no stride is a symbol."""
        if self._is_fixed(tensor):
            return None
        known = self._strides.get(source)
        if known is None:
            known = self._strides[source] = self._decide_strides(source, tensor)
        return known if any(policy is not DimPolicy.STATIC for policy in known) else None

    def _is_fixed(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a parameter of which nobody said that a size or a stride is a symbol. A model has hundreds."""
        return _is_fixed_parameter(tensor) and not (self.declared or dim_marks(tensor) or any(sizes_by_name.said()))

    def _decide_strides(self, source: Source, tensor: torch.Tensor) -> list[DimPolicy]:
        sizes: Sequence[int] = tensor.shape
        dims = range(len(sizes))
        policies = [DimPolicy.STATIC] * len(sizes)
        if self.declared:
            if any(TensorStrideSource(source, dim).name in self.declared for dim in dims):
                return [DimPolicy.DYNAMIC] * len(sizes)
            if any(TensorSizeSource(source, dim).name in self.declared for dim in dims):
                policies = [DimPolicy.DUCK if size == 1 else DimPolicy.STATIC for size in sizes]
        if not self._never_varies(tensor):
            if self._all_are_dynamic(source):
                policies = [DimPolicy.DUCK] * len(sizes)
            varied = strides_that_varied(self.history, source, tensor)
            for dim in varied if config.automatic_dynamic_shapes else ():
                policies[dim] = DimPolicy.DYNAMIC
        for dim, mark in dim_marks(tensor).items():
            if mark.strides and dim < len(policies):
                policies[dim] = DimPolicy.DYNAMIC
        return policies

    def _decide_dims(self, source: Source, tensor: torch.Tensor) -> tuple[list[DimPolicy], list[DimConstraint | None]]:
        policies = self._policies_without_marks(source, tensor)
        constraints: list[DimConstraint | None] = [None] * tensor.dim()
        for dim, mark in (*sizes_by_name.dims(source.name, tensor.dim()).items(), *dim_marks(tensor).items()):
            if dim < len(policies):
                policies[dim], constraints[dim] = _policy_of_mark(mark, tensor.shape[dim])
        for dim in range(tensor.dim()) if self.declared else ():
            if TensorSizeSource(source, dim).name in self.declared:
                policies[dim], constraints[dim] = DimPolicy.DYNAMIC, None
        return policies, constraints

    def _policies_without_marks(self, source: Source, tensor: torch.Tensor) -> list[DimPolicy]:
        sizes: Sequence[Any] = tensor.shape
        static = [DimPolicy.STATIC] * len(sizes)
        if _is_fixed_parameter(tensor):
            return static
        found = static
        if self.dynamic is not False:
            varying = self.history.policies(source.name, sizes)
            found = varying if config.automatic_dynamic_shapes else static
            if self._all_are_dynamic(source):
                return [DimPolicy.DUCK] * len(sizes)
        return [DimPolicy.DUCK if sizes_by_name.has_value(size) else policy for size, policy in zip(sizes, found)]

    def has_varied(self, source: Source, tensor: torch.Tensor) -> bool:
        """Whether the sizes of a tensor have changed between calls. Of one whose sizes cannot be symbols, a trace would serve few
        calls."""
        varied = self.history.observe(source.name, tuple(tensor.shape))
        return bool(varied) and self.dynamic is not False and config.automatic_dynamic_shapes

    def _never_varies(self, tensor: torch.Tensor) -> bool:
        return self.dynamic is False or _is_fixed_parameter(tensor)

    def _all_are_dynamic(self, source: Source) -> bool:
        is_static = config.force_parameter_static_shapes and _is_in_state(source)
        return bool(self.dynamic or not config.assume_static_by_default) and not is_static

    def float_is_dynamic(self, source: Source, value: float) -> bool:
        """Whether a float input is a symbol: it is once it has changed between calls."""
        if config.specialize_float or self.dynamic is False or not (_is_argument(source) or _is_kept_between_calls(source)):
            return False
        if value == 0.0 or not math.isfinite(value):
            return False
        known = self._scalars.get(source)
        if known is None:
            varying = bool(self.history.observe(source.name, (value,))) or self._is_another_next_time(source)
            known = self._scalars[source] = varying and config.automatic_dynamic_shapes
        return known

    def _is_another_next_time(self, source: Source) -> bool:
        """Whether a number will probably be another one in the next call, though it has not been seen to vary."""
        return self._loop_changes(source) or _argument_of(source) in self._from_data

    def _loop_changes(self, source: Source) -> bool:
        """Whether a number is another one in the next turn of the loop that the frame begins in."""
        if self._changed_by_loop is None:
            return False
        step: Source | None = source
        while step is not None:
            if isinstance(step, (UpcomingSource, IteratorPartsSource)):
                return True
            step = step.base
        return isinstance(source, LocalSource) and source.local_name in self._changed_by_loop

    def value_is_constant(self, source: Source, value: Any) -> bool:
        """Whether a date, time or decimal is a constant of the trace. One that is an argument, or has changed between calls, may
        come from a clock, and is none."""
        known = self._scalars.get(source)
        if known is None:
            known = not _comes_from_caller(source) and not self.history.observe(source.name, (hash(constant_key(value)),))
            self._scalars[source] = known
        return known

    def scalar_is_constant(self, scalar: Source, number: Source, value: Any) -> bool:
        """Whether a scalar of NumPy is a constant of the trace: one that the program keeps is, until it has changed. `number` is
        where the number in it is found, which is `value`."""
        if _comes_from_caller(scalar):
            return False
        if type(value) is float:
            return not self.float_is_dynamic(number, value)
        return type(value) is not int or not self.int_is_dynamic(number, value)

    def int_is_dynamic(self, source: Source, value: int) -> bool:
        """Whether an int input is a symbol. An int that the program keeps between calls (in an attribute, a global, a cell)
        becomes one when it has changed, as counters do; until then it is a constant, whatever `dynamic` says."""
        known = self._scalars.get(source)
        if known is None:
            known = self._scalars[source] = self._decide_int(source, value)
        return known

    def _decide_int(self, source: Source, value: int) -> bool:
        if source.name in self.declared or sizes_by_name.has_int(source.name, value):
            return True
        data = _is_argument(source, self._is_resumed)
        if config.specialize_int or self.dynamic is False or not (data or _is_kept_between_calls(source)):
            return False
        varying = bool(self.history.observe(source.name, (value,))) or self._is_another_next_time(source)
        if data and (self.dynamic or not config.assume_static_by_default):
            return value not in (0, 1) or config.specialize_zero_one == "by_need"
        return varying and config.automatic_dynamic_shapes


def strides_that_varied(history: SizeHistory, source: Source, tensor: torch.Tensor) -> set[int]:
    """Notes the strides of this call; returns the dims at which they are others than before, or computed of other sizes. At a dim
    of size 1 no element lies by the stride, so what was seen there tells nothing of calls in which it is larger."""
    if tensor.layout is not torch.strided or tensor.is_nested or not tensor.numel():
        return set()
    terms, sizes = stride_terms(tensor), tensor.shape
    found: set[int] = set()
    for what, at in ("stride", [size != 1 for size in sizes]), ("stride of one", [size == 1 for size in sizes]):
        varied = history.observe(f"{source.name}.{what}", [term if here else None for term, here in zip(terms, at)])
        found |= {dim for dim in varied if at[dim]}
    return found


def _is_argument(source: Source, is_resumed: bool = False) -> bool:
    """Whether a value is an argument, or an item of a container or iterator that is one. `is_resumed`: so is what lies in the
    cells of the frame, and of functions that are passed to it."""
    cells = (ClosureCellSource, CellContentsSource) if is_resumed else ()
    while source.base is not None and (source.is_part or isinstance(source, cells)):
        source = source.base
    return isinstance(source, RootSource) and source.root_kind in (("local", "cell") if is_resumed else ("local",))


def _argument_of(source: Source) -> str | None:
    """The local variable that a value is, or an item of."""
    while source.base is not None and source.is_part:
        source = source.base
    return source.local_name if isinstance(source, LocalSource) else None


def _comes_from_caller(source: Source) -> bool:
    """Whether a value was passed in by the caller and not read from an attribute."""
    step: Source | None = source
    while step is not None:
        source, kept, step = step, type(step) is AttrSource, step.base
        if kept:
            return False
    return isinstance(source, RootSource) and source.root_kind == "local"


def _is_kept_between_calls(source: Source) -> bool:
    """Whether the program keeps a value between calls: in an attribute, a container, a global or a closure."""
    while source.is_kept and source.base is not None:
        source = source.base
    return isinstance(source, RootSource)


def _is_fixed_parameter(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch.nn.Parameter) and config.force_parameter_static_shapes


def _is_in_state(source: Source) -> bool:
    """Whether a tensor is read from the parameters or buffers of a module: one of them, or what an attribute of one holds."""
    place = source
    while isinstance(place, AttrSource):
        place = place.base
    return isinstance(place, ItemSource) and isinstance(place.base, AttrSource) and place.base.attr in ("_parameters", "_buffers")


def _policy_of_mark(mark: DimMark, size: int) -> tuple[DimPolicy, DimConstraint | None]:
    """`size`: that of the traced call. Where it is one that is to have code of its own, the program may look at it."""
    if mark.kind == "static":
        return DimPolicy.STATIC, None
    special = mark.has_code_of_its_own(size)
    if mark.kind == "unbacked" and not special:
        said = (mark.min, mark.max, mark.shape_id, mark.hint)
        constraint = DimConstraint(mark.min, mark.max, shape_id=mark.shape_id, hint=mark.hint)
        return DimPolicy.UNBACKED, None if said == (None,) * 4 else constraint
    strict = mark.kind == "dynamic" and not special
    return DimPolicy.DUCK, DimConstraint(mark.min, mark.max, strict, hint=None if special else mark.hint)
