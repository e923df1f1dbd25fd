"""What a graph does with streams, events and ranges of a profiler, besides calling their methods.

These operations have an effect and no result that can be computed: compilers are not given them. A graph that raises leaves what
it has entered, so that the program goes on as it began.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer import _C
from tracer.operators.kept_from_compilers import keep_from_compilers


class RuntimeObject:
    """Stands, in the `meta` of a node, for an object that exists only where the graph runs, or that the graph only hands on."""

    __slots__ = ("cls",)

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cls.__qualname__})"


class _Open(threading.local):
    """What graphs have entered on this thread and not left, in order."""

    def __init__(self) -> None:
        self.managers: list[Any] = []


_open = _Open()


class _Range:
    """A range of NVTX that is open."""

    def __exit__(self, *exception: object) -> None:
        torch.cuda.nvtx.range_pop()


def entered(manager: Any) -> Any:
    """Enters a context manager of streams, and gives it."""
    manager.__enter__()
    _open.managers.append(manager)
    return manager


def left(manager: Any) -> None:
    """Leaves what `entered` gave."""
    _forget(manager)
    manager.__exit__(None, None, None)


def _forget(manager: Any) -> None:
    managers = _open.managers
    for place in range(len(managers) - 1, -1, -1):
        if managers[place] is manager:
            del managers[place]
            return


def range_pushed(message: str) -> int:
    """`torch.cuda.nvtx.range_push`"""
    depth: int = torch.cuda.nvtx.range_push(message)
    _open.managers.append(_Range())
    return depth


def range_popped() -> int:
    """`torch.cuda.nvtx.range_pop`, of a range that the same graph has pushed."""
    _forget(next(each for each in reversed(_open.managers) if type(each) is _Range))
    depth: int = torch.cuda.nvtx.range_pop()
    return depth


def leaving_what_is_open(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a graph with such operations: if it raises, it leaves what it has entered, the innermost first. What stays open
    otherwise is left by the code behind."""

    def run_graph(*args: Any) -> Any:
        managers = _open.managers
        count = len(managers)
        try:
            result = compiled(*args)
        except BaseException:
            while len(managers) > count:
                managers.pop().__exit__(None, None, None)
            raise
        del managers[count:]
        return result

    _C.never_trace(run_graph.__code__)
    return run_graph


def used_until_here(*tensors: torch.Tensor) -> None:
    """Does nothing: the tensors, which several streams work on, live until here (`graph.stream_lifetimes`)."""


OPENING: tuple[Any, ...] = (entered, left, range_pushed, range_popped)  # and what ends it


def is_opening(node: fx.Node) -> bool:
    return any(node.target is each for each in OPENING)


for _function in (*OPENING, _forget, _Range.__exit__, used_until_here):
    _C.never_trace(_function.__code__)
keep_from_compilers(*OPENING, used_until_here)
