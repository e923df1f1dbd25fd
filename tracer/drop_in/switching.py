"""`set_eval_frame` while the tracer is installed. Torch's decorators call it to switch torch's own tracer on and off.

A function that torch's decorators have disabled, made run-only or compiled calls it at each of its calls, also if it was
decorated before the install. The replacements here switch the tracer of this project instead.
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
    """The state that a call of `set_eval_frame` replaces, to be passed to a later call that restores it."""

    region: _C.Region | None  # the region that was active on the thread
    runs_only: bool  # whether `torch._dynamo.run` held: entries are used, and none is made


class _RunsOnly(threading.local):
    """Whether `torch._dynamo.run` holds on this thread."""

    mode_before: int | None = None


_runs_only = _RunsOnly()
# id of a callback of torch's tracer -> the callback, which is kept alive so that its id stays its own, and what is used instead.
_of_callbacks: dict[int, tuple[Any, Optimizer]] = {}


def set_eval_frame(callback: Any) -> Before:
    """Switches the tracer on this thread, and returns what was switched on before. `callback` is one of:

    None: nothing that is called from now on is traced, except decorated functions.
    False: as None, and decorated functions use their entries but make none.
    A callback of torch's tracer: what is called is compiled by this tracer, with the backend of the callback.
    What an earlier call returned: the state before that call is restored.
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
    """In place of `_maybe_set_eval_frame`. Torch's version does nothing while torch's tracer is switched off as a whole; here
    there is nothing to ask."""
    return set_eval_frame(callback)


def _optimizer_of(callback: Callable[..., Any]) -> Optimizer:
    known = _of_callbacks.get(id(callback))
    if known is None:
        choice = choice_of(eval_frame.innermost_backend(callback))
        known = callback, Optimizer(Settings(**{**choice._asdict(), "name": "compiled before the install"}))
        _of_callbacks[id(callback)] = known
    return known[1]


def count_no_frames(count: int) -> int:
    """In place of `set_fullgraph_compiled_frame_count`. With `fullgraph=True` torch raises if its own tracer has compiled no
    frame during a call, but only if this function returned a negative number before the call. So 0 turns that check off."""
    return 0
