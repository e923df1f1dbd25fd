"""Levels of forward-mode differentiation (`torch.autograd.forward_ad`) in a graph: entering and leaving one is an operation each.

What is done with dual tensors in between are torch's own operations, which compute tangents when the graph runs as they do in
the program."""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.autograd import forward_ad

from tracer.compat_torch.thread_state import dual_level


class DualLevel:
    """A level that a graph or a trace has entered."""

    def __init__(self) -> None:
        self.number: int = forward_ad.enter_dual_level()
        self._is_open = True

    def __exit__(self, *exception: object) -> None:
        is_open, self._is_open = self._is_open and dual_level() >= self.number, False
        if is_open:
            forward_ad.exit_dual_level(level=self.number)


def enter_dual_level() -> DualLevel:
    return DualLevel()


def exit_dual_level(level: DualLevel) -> None:
    level.__exit__(None, None, None)


def run_linearized(linearized: fx.GraphModule, *inputs: Any) -> tuple[Any, ...]:
    """The operation of the graph for a call of the function that `torch.func.linearize` gives; `inputs` are the primals, the
    tangents, and what else is read."""
    found: tuple[Any, ...] = linearized(*inputs)
    return found
