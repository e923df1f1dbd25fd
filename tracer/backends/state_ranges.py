"""Stretches of a graph in which torch's state is another one: `no_grad`, inference mode, autocast.

A compiler is given such a stretch whole, with the operations at its ends that change the state. Where the graph must be cut
inside, these run as written, and what lies between is compiled in the state that they leave."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.amp import autocast_mode
from torch.autograd import grad_mode

_SET_GRAD = torch._C._set_grad_enabled
_ENTER: tuple[Any, ...] = (autocast_mode._enter_autocast, grad_mode._enter_inference_mode)
_CONTEXTS = (*_ENTER, autocast_mode._exit_autocast, grad_mode._exit_inference_mode)


class StateRange(NamedTuple):
    """The places of the operations that change the state, and change it back."""

    first: int
    last: int


def is_context(node: fx.Node) -> bool:
    """Whether a node enters a context that is no value of the program, or leaves it."""
    return any(node.target is each for each in _CONTEXTS)


def _enters(node: fx.Node) -> bool:
    return any(node.target is each for each in _ENTER)


def changes_state(node: fx.Node) -> bool:
    return node.target is _SET_GRAD or is_context(node)


def state_ranges(nodes: list[fx.Node]) -> Iterator[StateRange]:
    """Those of a list of operations, which ends in the state in which it begins. Contexts may lie one in another."""
    before = enabled = torch.is_grad_enabled()
    since = 0
    places = {node: place for place, node in enumerate(nodes)}
    for place, node in enumerate(nodes):
        if node.target is _SET_GRAD and node.args[0] is not enabled:
            (enabled,) = node.args
            if enabled is not before:
                since = place
            else:
                yield StateRange(since, place)
        elif _enters(node):
            yield StateRange(place, max((places[user] for user in node.users if user in places), default=len(nodes) - 1))
    if enabled is not before:
        yield StateRange(since, len(nodes) - 1)


class StateOfCompiler:
    """The state in which pieces are compiled, while the operations between them are gone through."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._entered: dict[fx.Node, Callable[[], Any]] = {}

    def __enter__(self) -> StateOfCompiler:
        self._stack.enter_context(torch.set_grad_enabled(torch.is_grad_enabled()))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def change(self, node: fx.Node) -> None:
        """Does what an operation does that changes the state. Inference mode itself is for calls alone: compilers are told that
        there are no gradients."""
        if node.target is _SET_GRAD:
            node.target(*node.args)
        elif _enters(node):
            inner = contextlib.ExitStack()
            if node.target is grad_mode._enter_inference_mode:
                inner.enter_context(torch.set_grad_enabled(not node.args[0]))
            else:
                entered = node.target(*node.args)
                inner.callback(autocast_mode._exit_autocast, entered)
            self._stack.callback(inner.close)
            self._entered[node] = inner.close
        else:
            (entered,) = node.args
            self._entered[entered]()
