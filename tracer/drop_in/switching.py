"""`set_eval_frame` while the tracer is installed: the one door through which torch's decorators switch its tracer on and off.

Functions that were disabled, made run-only or compiled by torch's decorators call it whenever they were decorated, so here they
switch ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from tracer import _C
from tracer.api.entry import Optimizer
from tracer.api.settings import Settings
from tracer.drop_in.backends import choice_of
from tracer.drop_in.torchs import eval_frame
from tracer.runtime.stances import RUN_ONLY


class Before(NamedTuple):
    """What was switched on: the active region, and whether entries were only used."""

    region: _C.Region | None
    runs_only: bool


class _RunsOnly(threading.local):
    """Whether `torch._dynamo.run` holds on this thread."""

    mode_before: int | None = None


_runs_only = _RunsOnly()
_of_callbacks: dict[int, tuple[Any, Optimizer]] = {}  # of functions that torch compiled before: id of the callback -> ours


def set_eval_frame(callback: Any) -> Before:
    """None: nothing that is called from now on is traced, but for decorated functions. False: entries are used and none is made.
    A callback of torch's tracer: what is called is compiled, by ours, with its backend. What an earlier call returned: as it was.
    """
    was = _runs_only.mode_before is not None
    if isinstance(callback, Before):
        _run_only(callback.runs_only)
        return Before(_C.swap_active(callback.region), was)
    _run_only(callback is False)
    if callback is None or callback is False:
        return Before(_C.swap_active(None), was)
    return Before(_optimizer_of(callback).switch(), was)


def _run_only(wanted: bool) -> None:
    if wanted and _runs_only.mode_before is None:
        _runs_only.mode_before = _C.set_stance_c(RUN_ONLY)
    elif not wanted and _runs_only.mode_before is not None:
        _C.set_stance_c(_runs_only.mode_before)
        _runs_only.mode_before = None


def maybe_set_eval_frame(callback: Any) -> Before:
    """The same; torch's asks first whether its tracer is switched off from outside."""
    return set_eval_frame(callback)


def _optimizer_of(callback: Callable[..., Any]) -> Optimizer:
    known = _of_callbacks.get(id(callback))
    if known is None:
        choice = choice_of(eval_frame.innermost_backend(callback))
        known = callback, Optimizer(Settings(**{**choice._asdict(), "name": "compiled before the install"}))
        _of_callbacks[id(callback)] = known
    return known[1]


def count_no_frames(count: int) -> int:
    """In place of the count of frames that torch's tracer compiled, by which `fullgraph=True` asks whether there was any."""
    return 0
