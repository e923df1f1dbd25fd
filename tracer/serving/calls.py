"""Hypothetical calls: the example call with other sizes, to trace it and to run check functions on it.

The tensors are new and uninitialised: their memory is reserved but not written.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import sympy
import torch

from shapes.domain import Domain, Point
from shapes.evaluation import evaluate
from shapes.solver.bounds import Bounds
from shapes.sympy_functions import Max
from tracer.bytecode.slots import argument_slots
from tracer.errors import UserError
from tracer.runtime.argument_paths import Attribute, Path, path_from_slot, path_text, replaced_at
from tracer.runtime.shape_spec import Declared, DeclaredTensor, ShapeSpec
from tracer.runtime.spec_choice import SpecChoice
from tracer.sources.base import Source

LARGEST = 1 << 32  # bytes; the largest tensor that is made only to run a check function


class TooLarge(UserError):
    """A call needs more memory than can be reserved."""


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """A declared tensor of the example: size and stride of each dim as expressions over the domain's variables."""

    tensor: DeclaredTensor
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any = sympy.Integer(0)  # in its storage

    def new(self, point: Point) -> torch.Tensor:
        """A tensor like that of the example, with the sizes at a point."""
        like = self.tensor.value
        sizes = [int(evaluate(size, point)) for size in self.sizes]
        strides = [int(evaluate(stride, point)) for stride in self.strides]
        try:
            with torch.inference_mode(like.is_inference()):
                about = {"dtype": like.dtype, "device": like.device}
                return torch.empty_strided(sizes, strides, requires_grad=like.requires_grad, **about)
        except RuntimeError as error:
            raise TooLarge(f"there is no {path_text(self.tensor.path)} of shape {sizes} here: {error}") from None

    def bytes_at(self, point: Point) -> int:
        reach = 1  # elements from the first to the last
        for size, stride in zip(self.sizes, self.strides):
            reach += (int(evaluate(size, point)) - 1) * int(evaluate(stride, point))
        return max(0, reach) * int(self.tensor.value.element_size())


class Family(Protocol):
    """Calls of one function that differ in sizes only, each named by a point of a domain: `Calls`, and `HandedCalls` of a resume
    function."""

    @property
    def function(self) -> Any: ...
    @property
    def slots(self) -> tuple[Any, ...]:
        """The arguments of one of these calls."""

    @property
    def domain(self) -> Domain: ...
    @property
    def example(self) -> Point: ...
    @property
    def layouts(self) -> Mapping[Any, Layout]: ...
    @property
    def ints(self) -> Mapping[Source, Any]: ...
    @property
    def copies_objects(self) -> bool: ...
    def at(self, point: Point) -> tuple[Any, ...]: ...
    def positional(self, point: Point | None = None) -> tuple[Any, ...]: ...
    def is_small(self, point: Point) -> bool: ...


class Calls:
    """The calls of a function that differ from an example in declared sizes only."""

    def __init__(self, spec: ShapeSpec | SpecChoice, function: types.FunctionType, slots: Sequence[Any]) -> None:
        self.function = function
        self.slots = tuple(slots)
        self.declared: Declared = spec.bind(function, self.slots)
        self.domain: Domain = self.declared.domain
        self.example = self.declared.point()
        if not self.declared.tensors and not self.declared.ints:
            raise UserError("no shapes are declared for this call", hint="declare the dims of its tensors: ShapeSpec('x: B, S').")
        self.layouts = {path: _layout(tensor, self) for path, tensor in self.declared.tensors.items()}
        self.ints = {each.source: each.expr for each in self.declared.ints.values()}

    @property
    def copies_objects(self) -> bool:
        """Whether other calls need copies of the example's objects, because sizes of their attributes are declared."""
        return any(isinstance(key, Attribute) for path in (*self.layouts, *self.declared.ints) for key in path)

    def at(self, point: Point) -> tuple[Any, ...]:
        """The argument slots of the call at a point of the domain."""
        slots = list(self.slots)
        for path, layout in self.layouts.items():
            self._replace_value(slots, path, layout.new(point))
        for path, each in self.declared.ints.items():
            self._replace_value(slots, path, int(evaluate(each.expr, point)))
        return tuple(slots)

    def _replace_value(self, slots: list[Any], path: Path, value: Any) -> None:
        names = argument_slots(self.function.__code__)
        name, *keys = path_from_slot(self.function, dict(zip(names, slots, strict=True)), path)
        index = names.index(name)
        slots[index] = replaced_at(slots[index], tuple(keys), value, path)

    def is_small(self, point: Point) -> bool:
        """Whether the tensors of the call are small enough to make it just for a check."""
        return all(layout.bytes_at(point) <= LARGEST for layout in self.layouts.values())

    def positional(self, point: Point | None = None) -> tuple[Any, ...]:
        """The arguments of a check_fn: for the call at a point, or for the example itself."""
        slots = self.slots if point is None else self.at(point)
        return (*slots, self.function.__closure__) if self.function.__code__.co_freevars else slots


def _layout(tensor: DeclaredTensor, calls: Calls) -> Layout:
    value = tensor.value
    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        kind = f"{type(value).__name__} with layout {value.layout}"
        raise UserError(f"{path_text(tensor.path)} is {kind}, whose sizes cannot be declared")
    sizes = tuple([tensor.dims.get(dim, sympy.Integer(size)) for dim, size in enumerate(value.shape)])
    if tensor.strides:
        return Layout(tensor, sizes, tensor.strides)
    bounds = Bounds(calls.domain.conditions())
    strides: list[Any] = [None] * value.dim()
    step: Any = sympy.Integer(1)
    for dim in sorted(range(value.dim()), key=lambda dim: (value.stride(dim), -dim)):
        strides[dim] = step
        step = step * (sizes[dim] if bounds.interval(sizes[dim])[0] >= 1 else Max(sizes[dim], 1))
    layout = Layout(tensor, sizes, tuple(strides))
    seen = [int(evaluate(stride, calls.example)) for stride in strides]
    if any(size > 1 and a != b for size, a, b in zip(value.shape, seen, value.stride())) and value.numel():
        raise UserError(
            f"{path_text(tensor.path)} of the example is not contiguous: its strides are {value.stride()}",
            hint="make the example contiguous if the calls are; else declare the strides, as 'x: B, S strided'.",
        )
    return layout
