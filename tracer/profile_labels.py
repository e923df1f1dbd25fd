"""What the tracer shows in a profile of torch's profiler (`torch.profiler.profile`): when it searched for an entry, traced, had a
graph compiled, and which function a compiled call was of. Where none was started, a call looks at one word of memory."""

from __future__ import annotations

import contextlib
import dataclasses

import torch

from tracer import _C


@dataclasses.dataclass(frozen=True)
class Labels:
    """The labels of a lookup, of the call of an entry (the name of the function follows), of a trace, and of the backend's work
    on a graph."""

    lookup: str
    run: str
    trace: str
    compile: str


OWN = Labels("shapetracer lookup", "shapetracer", "shapetracer trace", "shapetracer backend")
_labels = OWN


def set_labels(labels: Labels) -> None:
    """From now on, these are what profiles show."""
    global _labels
    _labels = labels
    _C.set_profile_labels(labels.lookup, labels.run)


def of_trace() -> contextlib.AbstractContextManager[None]:
    """A range around the trace of a frame, with all that belongs to making an entry."""
    return _range(_labels.trace)


def of_compile() -> contextlib.AbstractContextManager[None]:
    """A range around a backend's work on one graph."""
    return _range(_labels.compile)


def _range(label: str) -> contextlib.AbstractContextManager[None]:
    found: contextlib.AbstractContextManager[None] = torch._C._profiler._RecordFunctionFast(label)
    return found


set_labels(OWN)
_C.watch_profiler_flag(vars(torch.autograd.profiler), "_is_profiler_enabled")
