"""Levels of forward-mode differentiation (`torch.autograd.forward_ad`) in a graph: entering and leaving one is an operation each.

What is done with dual tensors in between are torch's own operations, which compute tangents when the graph runs as they do in
the program."""

from __future__ import annotations

from torch.autograd import forward_ad


class DualLevel:
    """A level that a graph or a trace has entered."""

    def __init__(self) -> None:
        self.number: int = forward_ad.enter_dual_level()
        self._is_open = True

    def __exit__(self, *exception: object) -> None:
        if self._is_open:
            self._is_open = False
            forward_ad.exit_dual_level(level=self.number)


def enter_dual_level() -> DualLevel:
    return DualLevel()


def exit_dual_level(level: DualLevel) -> None:
    level.__exit__(None, None, None)
