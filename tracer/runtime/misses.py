"""What a miss is answered with instead of a trace: by a stance of the thread, by the seal of a region, by a limit."""

from __future__ import annotations

import logging
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C, config, errors, logs
from tracer.guards import GuardFailure, argument_slots
from tracer.guards.manager import gone
from tracer.runtime import log_texts, stances, time_limit
from tracer.runtime.frame_state import FrameState
from tracer.runtime.guarded_code import entries_of, failures_of
from tracer.runtime.upkeep import has_room
from tracer.sources import ItemSource, LocalSource, Source
from tracer.sources.reading import is_a

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

log = logging.getLogger("tracer")


def is_answered(region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
    """Whether the call of a missed frame is not to be traced: CPython runs it. Raises where a miss is an error.

    `region` is the RegionState.
    """
    stance = stances.current()
    if stance == "fail_on_recompile":
        existing = entries_of(region.region, function.__code__, function.__globals__)
        raise errors.RecompileError(log_texts.recompile(function.__code__, reasons(region, function, args, existing)))
    if stance == "eager_then_compile" and function.__code__ in region.roots:
        state = region.frame_state(function)
        if not state.shown:
            state.shown = True
            _show(state, function, args)
            return True
    if region.at_miss is not None:
        region.at_miss(function, args)
        return True
    return _is_past_limit(region, function)


def _is_past_limit(region: RegionState, function: types.FunctionType) -> bool:
    """Whether it was said already that such calls run uncompiled: they wait for no trace of another thread then."""
    told_elsewhere = region.guard_fail_fn or logs.is_on("recompiles") or config.error_on_recompile
    if not region.frame_state(function).warned_of_limit or told_elsewhere or config.fail_on_recompile_limit_hit:
        return False
    if region.shapes is not None or has_room(region, entries_of(region.region, function.__code__, function.__globals__)):
        return False
    region.happened("limit", function)
    return True


def _show(state: FrameState, function: types.FunctionType, args: tuple[Any, ...]) -> None:
    """Notes the sizes and ints of a call that is not traced, so that what differs in the next is seen to vary."""
    state.history.begin()
    for name, value in zip(argument_slots(function.__code__), args):
        for source, leaf in _leaves(LocalSource(name), value):
            state.history.observe(source.name, tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else (leaf,))


def _leaves(source: Source, value: Any) -> Iterator[tuple[Source, Any]]:
    if type(value) in (list, tuple):
        for index, item in enumerate(value):
            yield from _leaves(ItemSource(source, index), item)
    elif type(value) is dict:
        for key, item in value.items():
            if type(key) in (str, int):
                yield from _leaves(ItemSource(source, key), item)
    elif is_a(value, torch.Tensor) or type(value) is int:
        yield source, value


def reasons(
    region: RegionState, function: types.FunctionType, args: tuple[Any, ...], existing: list[_C.Entry]
) -> list[GuardFailure]:
    """Why no entry serves a call: what ended those that there were since the last trace, and what fails in the others."""
    return [*map(gone, region.frame_state(function).died), *failures_of(existing, function, args)]


def report_recompile(region: RegionState, function: types.FunctionType, args: tuple[Any, ...], existing: list[_C.Entry]) -> None:
    """Says why no entry served a call that is about to be traced; RecompileError where the settings forbid it."""
    if not (logs.is_on("recompiles") or region.guard_fail_fn or config.error_on_recompile):
        return
    failures = reasons(region, function, args, existing)
    text = log_texts.recompile(function.__code__, failures)
    logs.emit("recompiles", lambda: text)
    if region.guard_fail_fn is not None and failures:
        region.guard_fail_fn(failures[0])
    if config.error_on_recompile:
        raise errors.RecompileError(text)


def out_of_time(region: RegionState, function: types.FunctionType) -> bool:
    """Whether nothing is to be traced because a compile of this frame took too long, or one that was given up still runs."""
    if region.frame_state(function).timed_out or time_limit.is_compiling():
        region.happened("limit", function, "compile_timeout")
        return True
    return False


def timed_out(region: RegionState, function: types.FunctionType, error: errors.CompileTimeout) -> None:
    """Says that the frame runs in CPython from now on where no entry serves it."""
    code = function.__code__
    region.frame_state(function).timed_out = True
    text = (
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}): {error.message}. Calls that no entry serves run "
        f"uncompiled, until tracer.reset(). Hint: {error.hint}"
    )
    region.happened("timeout", function, text)
    warnings.warn(text, stacklevel=3)


def limit_hit(region: RegionState, function: types.FunctionType, args: tuple[Any, ...], existing: list[_C.Entry]) -> None:
    """Says once that calls that no entry serves run in CPython from now on."""
    state = region.frame_state(function)
    if state.warned_of_limit and not config.fail_on_recompile_limit_hit:
        region.happened("limit", function)
        return
    code = function.__code__
    failures = "\n".join(f"    - {failure}" for failure in failures_of(existing, function, args))
    limit, more = f"recompile_limit ({region.limit()}) reached", "raise config.recompile_limit"
    if has_room(region, existing):
        limit = f"accumulated_recompile_limit ({config.accumulated_recompile_limit}) over all compiled objects reached"
        more = "raise config.accumulated_recompile_limit"
    elif region.capacity is not None:
        limit, more = f"capacity ({region.capacity}) used up by pinned entries", "unpin some"
    text = (
        f"{limit} for {code.co_qualname} ({code.co_filename}:"
        f"{code.co_firstlineno}); calls that none of its entries serves run uncompiled. Guards that fail:\n"
        f"{failures}\n  Try: mark what varies with tracer.mark_dynamic, or {more}."
    )
    region.happened("limit", function, text)
    if config.fail_on_recompile_limit_hit:
        raise errors.FailOnRecompileLimitHit(text)
    state.warned_of_limit = True
    if config.convert_every_frame:  # the program under trial is not to be shown a warning of ours
        log.debug(text)
    else:
        warnings.warn(text, stacklevel=3)
