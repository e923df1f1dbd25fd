"""Kernels of Triton, and what `kernel[grid]` gives. Their launches are modelled in `tracer.library.triton_`."""

from __future__ import annotations

import operator
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.objects.objects import UserObjectVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


def launch(kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> None:
    """`kernel[grid](*args, **kwargs)`: its model is that of all launches."""
    kernel[grid](*args, **kwargs)


class KernelVariable(UserObjectVariable):
    """A function under `triton.jit`, perhaps with `triton.autotune` and `triton.heuristics` around it. It is known by its
    identity: what its code refers to, Triton itself compares at each launch."""

    value: Any

    def describe(self) -> str:
        return f"KernelVariable({self.cls.__qualname__})"

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return LaunchableVariable(self, key)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return RunVariable(self) if name == "run" else super().get_attr(tx, name)


class RunVariable(VariableTracker):
    """`kernel.run`, a method that launches the kernel, and takes the grid as a keyword."""

    cls = types.MethodType

    def __init__(self, kernel: KernelVariable) -> None:
        self.kernel = kernel

    def children(self) -> Iterable[VariableTracker]:
        return (self.kernel,)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        warmup = kwargs.get("warmup")
        if "grid" not in kwargs or warmup is not None and not (warmup.is_constant() and warmup.constant() is False):
            unsupported("unsupported-method", value=self.kernel.describe(), name="run")
        given = {key: value for key, value in kwargs.items() if key not in ("grid", "warmup")}
        return launched(tx, self.kernel, kwargs["grid"], args, given)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(getattr, lambda: cg.load(self.kernel), lambda: cg.asm.load_const("run"))


class LaunchableVariable(VariableTracker):
    """`kernel[grid]`, a function that launches the kernel."""

    cls = types.FunctionType

    def __init__(self, kernel: KernelVariable, grid: VariableTracker) -> None:
        self.kernel = kernel
        self.grid = grid

    def children(self) -> Iterable[VariableTracker]:
        return (self.kernel, self.grid)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return launched(tx, self.kernel, self.grid, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(operator.getitem, lambda: cg.load(self.kernel), lambda: cg.load(self.grid))


class CompiledKernelVariable(VariableTracker):
    """What a launch gives: the kernel as Triton has compiled it, which there is once the graph runs."""


def launched(
    tx: Tracer, kernel: KernelVariable, grid: VariableTracker, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """`kernel[grid](*args, **kwargs)`"""
    model = models.get(launch)
    assert model is not None
    return model(tx, kernel, grid, *args, **kwargs)
