"""Levels of forward-mode differentiation that the traced program enters.

The trace really enters them, so that fakes have tangents. Leaving a level clears all tangents of it: a graph cannot end inside
of one, and breaks before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.autograd import forward_ad

from tracer.effects.torch_state import ContextKind, OpenContext, TorchState
from tracer.graph.operations.forward_ad import enter_dual_level, exit_dual_level
from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from tracer.interpreter.trace import Trace

DUAL_LEVEL = ContextKind(forward_ad.dual_level.__enter__, forward_ad.dual_level.__exit__, enter_dual_level, exit_dual_level, ())


def innermost_level(state: TorchState) -> OpenContext | None:
    """The innermost level that the trace has entered; None outside of all."""
    return next((context for context in reversed(state.open) if context.kind is DUAL_LEVEL), None)


def level_of(state: TorchState) -> int:
    """The number of the innermost level that the trace has entered; -1 outside of all."""
    innermost = innermost_level(state)
    return -1 if innermost is None else innermost.real.number


def step_of_level(trace: Trace) -> int | None:
    """Where a graph has to break that cannot end where the trace is, or has ended: at the entry of the outermost level."""
    state = trace.torch_state
    return next((context.step for context in state.open or state.left_open if context.kind is DUAL_LEVEL), None)


def refuse_open_level(trace: Trace) -> None:
    """Refuses a frame that ends inside of a level."""
    step = step_of_level(trace)
    if step is not None:
        unsupported("open-dual-level", break_step=step)


def tangent_of(fake: torch.Tensor, level: int) -> torch.Tensor | None:
    tangent: torch.Tensor | None = forward_ad.unpack_dual(fake, level=level).tangent
    return tangent
