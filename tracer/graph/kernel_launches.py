"""A launch of a Triton kernel as one operation of the graph.

Where nothing looks on, it launches the kernel as the program does. Under modes, such as those of AOTAutograd, it calls torch's
operator for a launch, which compilers see through. That operator alone would not do as a node: it names the kernel by its number
in a table, which `torch._dynamo.reset` empties, and which another process fills in another order.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tracer.compat_torch.triton_kernels import launch_by_operator
from tracer.graph.fakes.fake_mode import FakeMode

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class _Count(threading.local):
    launches = 0


_count = _Count()


def launches() -> int:
    """A number that changes when a graph has launched a kernel on this thread."""
    return _count.launches


class Form(NamedTuple):
    """The arguments of a launch as the program gives them: names of parameters, and of options of the compiler."""

    positional: tuple[str, ...]
    keywords: tuple[str, ...]


class Launch:
    """`kernel[grid](...)`: a function from grids, and the arguments that are no constants, in the order of `names`.

    `lowered` is the kernel as torch's operator takes it: with no heuristics, and with options as a configuration. `constants` are
    the other arguments, defaults among them, and `written` the names of the tensors that the kernel writes to."""

    def __init__(
        self, kernel: Any, lowered: Any, form: Form, names: tuple[str, ...], constants: Mapping[str, Any], written: frozenset[str]
    ) -> None:
        self.kernel = kernel
        self.lowered = lowered
        self.form = form
        self.names = names
        self.constants = constants
        self.written = written
        name = name_of_kernel(kernel).rstrip("_")
        self.__name__ = self.__qualname__ = f"launch_{name}_"  # ends as the names of what writes to its arguments do

    def __repr__(self) -> str:
        return f"<launch of {name_of_kernel(self.kernel)}>"

    def __call__(self, grids: Sequence[tuple[Any, ...]], *values: Any) -> None:
        named = dict(zip(self.names, values))
        mode = _get_current_dispatch_mode()
        if isinstance(mode, FakeMode):
            mode.note_launch([named[name] for name in self.written])
        elif mode is None and all(type(value) in _PLAIN for value in values if isinstance(value, torch.Tensor)):
            self._launch(grids, named)
        else:
            launch_by_operator(self.lowered, self._arguments(), [tuple(grid) for grid in grids], named)

    def _arguments(self) -> dict[str, Any]:
        """The constants that are arguments of `lowered`, and are not set by its configurations."""
        set_by_it = {name for config in getattr(self.lowered, "configs", ()) for name in config.all_kwargs()}
        return {name: value for name, value in self.constants.items() if name in self.lowered.arg_names and name not in set_by_it}

    def _launch(self, grids: Sequence[tuple[Any, ...]], values: Mapping[str, Any]) -> None:
        given = {**self.constants, **values}
        positional = [given[name] for name in self.form.positional]
        keywords = {name: given[name] for name in self.form.keywords}
        grid = self._grid(grids)
        if hasattr(self.kernel, "configs"):  # it may fail after some of them have run
            _count.launches += 1
        self.kernel[grid](*positional, **keywords)
        _count.launches += 1

    def _grid(self, grids: Sequence[tuple[Any, ...]]) -> Any:
        """The grid, or a function that gives that of a configuration of an autotuned kernel."""
        if len(grids) == 1:
            return grids[0]
        told = [(config.kwargs, grid) for config, grid in zip(self.lowered.configs, grids)]
        told.sort(key=lambda each: -len(each[0]))

        def chosen(meta: Mapping[str, Any]) -> tuple[Any, ...]:
            fitting = (grid for kwargs, grid in told if all(meta.get(name, value) == value for name, value in kwargs.items()))
            return next(fitting)

        return chosen


def function_of_kernel(kernel: Any) -> types.FunctionType:
    """The Python function that a kernel was made of."""
    while not isinstance(kernel, types.FunctionType):
        kernel = kernel.fn
    return kernel


def name_of_kernel(kernel: Any) -> str:
    """The name of that function."""
    return function_of_kernel(kernel).__name__
