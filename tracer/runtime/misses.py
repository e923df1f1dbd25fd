"""Misses that are not traced, because of the thread's stance, a seal of the region, or a limit; and the reports about misses."""

from __future__ import annotations

import logging
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C, config, errors, logs
from tracer.bytecode import loop_resumed_in
from tracer.bytecode.slots import argument_slots
from tracer.guards.manager import GuardFailure, gone
from tracer.runtime import agreement, log_texts, stances, time_limit
from tracer.runtime.argument_paths import argument_sources
from tracer.runtime.frame_state import FrameState, strides_that_varied
from tracer.runtime.guarded_code import entries_of, guard_failures
from tracer.runtime.missed_calls import MissedCall
from tracer.runtime.upkeep import has_room
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.sources.reading import is_a
from tracer.sources.tensors import TensorStrideSource

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

_MISS_ELSEWHERE = GuardFailure(None, "another rank has no entry for its call", "one on every rank", "none there")
_AGAIN = "the limit was reached before"
log = logging.getLogger("tracer")


def runs_uncompiled(region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
    """Whether CPython runs this missed call and nothing is traced. Raises where a miss is an error.

    `region` is the RegionState.
    """
    stance = stances.current()
    if stance == "fail_on_recompile":
        raise errors.RecompileError(missed=MissedCall(region, function, args))
    if stance == "eager_then_compile" and function.__code__ in region.roots:
        state = region.frame_state(function)
        if not state.ran_uncompiled_once:
            state.ran_uncompiled_once = True
            note_sizes(state, function, args)
            return True
    if region.miss_handler is not None:
        region.miss_handler(function, args)
        return True
    return _is_known_to_exceed_limit(region, function)


def _is_known_to_exceed_limit(region: RegionState, function: types.FunctionType) -> bool:
    """Whether the limit was reached and reported before, and still holds. Such calls need not wait for the tracing lock."""
    reports_each_miss = region.guard_fail_fn or logs.is_on("recompiles") or config.error_on_recompile
    if not region.frame_state(function).warned_of_limit or reports_each_miss or config.fail_on_recompile_limit_hit:
        return False
    if region.shapes is not None or has_room(region, entries_of(region.region, function.__code__, function.__globals__)):
        return False
    region.record_event("limit", function, _AGAIN, reason="recompile_limit", reported=True)
    return True


def note_sizes(state: FrameState, function: types.FunctionType, args: tuple[Any, ...]) -> None:
    """Notes sizes, strides and ints of a call that is not traced, so that those that differ in the next call become symbols."""
    state.history.begin()
    for argument, value in argument_sources(function, dict(zip(argument_slots(function.__code__), args))):
        for source, leaf in _leaves(argument, value):
            state.history.observe(source.name, tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else (leaf,))
            if isinstance(leaf, torch.Tensor):
                strides_that_varied(state.history, source, leaf)


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


def miss_reasons(
    region: RegionState, function: types.FunctionType, args: tuple[Any, ...], existing: list[_C.Entry]
) -> list[GuardFailure]:
    """Why no entry serves a call: the entries invalidated since the last trace, and the guard that fails in each other one."""
    elsewhere = [_MISS_ELSEWHERE] if agreement.is_forced(function.__code__) else []
    return [*elsewhere, *map(gone, region.frame_state(function).dead_objects), *guard_failures(existing, function, args)]


def report_recompile(region: RegionState, function: types.FunctionType, args: tuple[Any, ...], existing: list[_C.Entry]) -> None:
    """Reports why no entry served a call that is about to be traced. RecompileError where the settings forbid recompiles."""
    if not (logs.is_on("recompiles") or region.guard_fail_fn or config.error_on_recompile):
        return
    failures = miss_reasons(region, function, args, existing)
    text = log_texts.recompile(function.__code__, failures)
    logs.emit("recompiles", lambda: text)
    if region.guard_fail_fn is not None and failures:
        region.guard_fail_fn(failures[0])
    if config.error_on_recompile:
        raise errors.RecompileError(text)


def is_out_of_time(region: RegionState, function: types.FunctionType) -> bool:
    """Whether the frame is not traced because a compile of it exceeded its time limit, or an abandoned one still runs."""
    if region.frame_state(function).timed_out or time_limit.is_compiling():
        region.record_event("limit", function, "no compile is begun after compile_timeout", reason="compile_timeout")
        return True
    return False


def report_timeout(region: RegionState, function: types.FunctionType, error: errors.CompileTimeout) -> None:
    """Warns that from now on CPython runs the calls of this frame that no entry serves."""
    code = function.__code__
    region.frame_state(function).timed_out = True
    text = (
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}): {error.message}. Calls that no entry serves run "
        f"uncompiled, until tracer.reset(). Hint: {error.hint}"
    )
    region.record_event("timeout", function, text, reason="compile_timeout")
    warnings.warn(text, stacklevel=3)


def report_limit(region: RegionState, function: types.FunctionType, args: tuple[Any, ...], existing: list[_C.Entry]) -> None:
    """Warns, once, that from now on CPython runs the calls that no entry serves."""
    state = region.frame_state(function)
    if state.warned_of_limit and not config.fail_on_recompile_limit_hit:
        region.record_event("limit", function, _AGAIN, reason="recompile_limit", reported=True)
        return
    code = function.__code__
    failures = guard_failures(existing, function, args)
    limit, more = f"recompile_limit ({region.limit()}) reached", "raise config.recompile_limit"
    if has_room(region, existing):
        limit = f"accumulated_recompile_limit ({config.accumulated_recompile_limit}) over all compiled objects reached"
        more = "raise config.accumulated_recompile_limit"
    elif region.capacity is not None:
        limit, more = f"capacity ({region.capacity}) used up by pinned entries", "unpin some"

    def told(failures: list[GuardFailure]) -> str:
        lines = "\n".join(f"    - {failure}" for failure in failures)
        more_words = _OF_STRIDES if any(map(_is_about_strides, failures)) else ""
        return (
            f"{limit} for {code.co_qualname} ({code.co_filename}:"
            f"{code.co_firstlineno}); calls that none of its entries serves run uncompiled. Guards that fail:\n"
            f"{lines}\n  Try: mark what varies with tracer.mark_dynamic, or {more}.{more_words}"
        )

    text = told(failures)
    without_data = told([failure.without_data() for failure in failures])
    region.record_event("limit", function, without_data, reason="recompile_limit")
    if config.fail_on_recompile_limit_hit:
        raise errors.FailOnRecompileLimitHit(text)
    state.warned_of_limit = True
    if config.convert_every_frame:  # a warning could change what the tested program does
        log.debug(text)
    else:
        warnings.warn(text, stacklevel=3)


def leaves_loop(region: RegionState, function: types.FunctionType) -> bool:
    """Whether a frame for which no more entries are made begins within a loop, and is left to CPython from now on: its turns
    differ too much from one another. What it calls is compiled."""
    if region.shapes is not None or config.fail_on_recompile_limit_hit or loop_resumed_in(function.__code__) is None:
        return False
    region.record_event("skip", function, "the turns of its loop need too many entries", reason="recompile_limit")
    return True


_OF_STRIDES = """
  Inputs differ in their strides, as slices of buffers and transposed tensors do. Declare them, shapes="x: B, S strided", or mark
  them, tracer.mark_dynamic(x, dims, strides=True); where the program asks for one layout, give it x.contiguous()."""


def _is_about_strides(failure: GuardFailure) -> bool:
    if "stride mismatch" in failure.message:
        return True
    return failure.guard is not None and any(isinstance(source, TensorStrideSource) for source in failure.guard.sources())
