"""Wrappers as torch's compilers are given them: instances of the program's class, around fakes of torch's mode.

AOTAutograd runs the `__torch_dispatch__` of the class while it traces, and gives the backend a graph of the tensors inside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.backends.result_memory import NotCompilable
from tracer.graph.fakes.fake_tensors import mark_as_parameter
from tracer.graph.fakes.wrapper_fakes import WrapperFake, with_history, wrappers_in
from tracer.graph.output_graph import EXAMPLE


def overrides_for(graph: fx.Graph) -> contextlib.AbstractContextManager[Any]:
    """In which a compiler is called with a graph of the trace: overrides of torch functions by wrappers were traced through."""
    found = any(wrappers_in(node.meta.get(EXAMPLE)) for node in graph.nodes)
    return torch._C.DisableTorchFunctionSubclass() if found else contextlib.nullcontext()


def instance_of(fake: WrapperFake, converted: Callable[[Any], Any]) -> torch.Tensor:
    """An instance of the program's class for the fake of a wrapper; `converted` gives torch's tensors and numbers for those of
    the trace."""
    cls: Any = fake.wrapper
    if fake.flattened is None:
        raise NotCompilable(f"it is not known what a {cls.__qualname__} is made of")
    inner = {name: converted(part) for name, part in fake.flattened.parts.items()}
    context = _converted(fake.flattened.context, converted)
    sizes, strides = torch.Size(map(converted, fake.size())), tuple(map(converted, fake.stride()))

    def make() -> torch.Tensor:
        with torch._C.DisableTorchFunctionSubclass():
            made: torch.Tensor = cls.__tensor_unflatten__(inner, context, sizes, strides)
        return made

    made = make() if fake.is_leaf or not fake.requires_grad else with_history(make)
    if made.is_leaf and made.requires_grad is not fake.requires_grad:
        made.requires_grad_(fake.requires_grad)
    if isinstance(fake, torch.nn.Parameter):
        mark_as_parameter(made)
    return made


def _converted(value: Any, converted: Callable[[Any], Any]) -> Any:
    if type(value) in (list, tuple):
        return type(value)(_converted(item, converted) for item in value)
    if type(value) is torch.Size:
        return torch.Size([_converted(item, converted) for item in value])
    if type(value) is dict:
        return {key: _converted(item, converted) for key, item in value.items()}
    return converted(value)
