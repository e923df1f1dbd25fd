"""The values of tensors that are made of constants alone, such as the steps of a schedule. They are computed while tracing, when
the program asks for one: a branch depends on it, or an index."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as outside_of_modes

from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.inputs import EXAMPLE
from tracer.operators.facts import leaves
from tracer.operators.graph_functions import graph_operations

_LARGEST = 4096  # elements of a tensor that is computed
_MOST = 2000  # nodes that are looked at
_OPERATORS = frozenset(map(id, vars(operator).values()))
_UNSET = frozenset("empty new_empty empty_like empty_strided new_empty_strided empty_permuted".split())  # their data is anything

_computed: weakref.WeakKeyDictionary[fx.Graph, dict[fx.Node, Any]] = weakref.WeakKeyDictionary()


class _Undecided(Exception):
    """A value depends on more than constants, or would take long to compute."""


def decided_value(node: fx.Node) -> torch.Tensor | None:
    """The value that the graph computes for a node, the same in every run; None where it depends on an input, random numbers or
    memory that is written to, or is not on the CPU.

    Example: with `steps = torch.linspace(1, 0, 5)` in the program, the node of `steps[1:] > 0`.
    """
    values = _computed.setdefault(node.graph, {})
    try:
        for each in _ancestors(node):
            if each not in values:
                values[each] = _compute(each, values)
    except _Undecided:
        return None
    value = values[node]
    return value if isinstance(value, torch.Tensor) else None


def _ancestors(node: fx.Node) -> list[fx.Node]:
    """A node and all that its value is computed from, the first ones first."""
    found, ahead = {node}, [node]
    while ahead:
        current = ahead.pop()
        _check_node(current)
        for each in current.all_input_nodes:
            if each not in found:
                found.add(each)
                ahead.append(each)
        if len(found) > _MOST:
            raise _Undecided
    return sorted(found)


def _check_node(node: fx.Node) -> None:
    if node.op == "call_function":
        if id(node.target) not in graph_operations() and id(node.target) not in _OPERATORS:
            raise _Undecided
    elif node.op != "call_method":
        raise _Undecided
    fakes = list(_tensors(node.meta.get(EXAMPLE)))
    if not fakes or any(map(_is_unknown, fakes)):
        raise _Undecided


def _is_unknown(fake: torch.Tensor) -> bool:
    if type(fake) is not FakeTensor:
        return True
    mode: Any = fake.fake_mode
    if fake.device.type != "cpu" or fake.layout is not torch.strided:
        return True
    if any(type(size) is not int for size in fake.shape) or fake.numel() > _LARGEST:
        return True
    return storage_of(fake) in mode.written_storages


def _compute(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda each: values[each])
    target: Any = node.target
    try:
        with outside_of_modes(), torch.no_grad(), _Reproducible():
            value = target(*args, **kwargs) if node.op == "call_function" else getattr(args[0], target)(*args[1:], **kwargs)
    except Exception as error:
        raise _Undecided from error
    fakes, made = list(_tensors(node.meta[EXAMPLE])), list(_tensors(value))
    if [_metadata(fake) for fake in fakes] != [_metadata(tensor) for tensor in made]:
        raise _Undecided  # the program's settings were others there
    return value


def _metadata(tensor: torch.Tensor) -> Any:
    return tuple(tensor.shape), tensor.dtype, tensor.device


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in leaves((value,), {}) if isinstance(leaf, torch.Tensor))


class _Reproducible(TorchDispatchMode):
    """Lets operators run that give the same in every run and change nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        random = torch.Tag.nondeterministic_seeded in func.tags
        if random or func.namespace != "aten" or func._schema.is_mutable or func._opname in _UNSET:
            raise _Undecided
        return func(*args, **(kwargs or {}))
