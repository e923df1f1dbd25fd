"""Graphs of programs that record warnings, or make errors of them. What operations warn of would come too late, after the block
in which the program hears it. Such a graph must not warn: one that does fails, and CPython runs the program."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from tracer import _C

_warned: set[int] = set()  # graphs that have failed so, by id; those of entries that are gone do no harm


def that_must_not_warn(graph: Callable[..., Any]) -> Callable[..., Any]:
    """Called by output code: a function that calls the graph, and raises its first warning."""
    return functools.partial(_call, graph)


def _call(graph: Callable[..., Any], *inputs: Any) -> Any:
    # What torch warns of once in a process must still be heard in CPython: with this switch a warning does not count.
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(always or id(graph) not in _warned)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return graph(*inputs)
    except Warning:
        _warned.add(id(graph))
        raise
    finally:
        torch.set_warn_always(always)


_C.never_trace(_call.__code__)
_C.never_trace(that_must_not_warn.__code__)
