"""Models of `torch.autograd.forward_ad`: levels, and dual tensors in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from tracer.compat_torch.thread_state import dual_level
from tracer.effects.dual_levels import DUAL_LEVEL, innermost_level, level_of
from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import NamedTupleVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


@models.of_plain_tensors(forward_ad.enter_dual_level)
def enter_dual_level(tx: Tracer) -> Value:
    state = tx.trace.torch_state
    if level_of(state) >= 0:
        tx.run_now(forward_ad.enter_dual_level)  # raises what the program would see
    if dual_level() >= 0 or tx.trace.overrides.modes:  # another thread's, or that of a transform; a mode would see the calls
        unsupported("with-block", value="forward_ad.dual_level()")
    if not tx.output.chances.take():
        unsupported("with-block", value="forward_ad.dual_level(), with which the backend fails,")
    state.enter(DUAL_LEVEL, NONE, (), tx.break_step())
    return tx.literal(level_of(state))


@models.of_plain_tensors(forward_ad.exit_dual_level)
def exit_dual_level(tx: Tracer, *, level: Value = NONE) -> Value:
    state = tx.trace.torch_state
    number = level.constant()
    if number is not None and number != level_of(state):
        tx.run_now(forward_ad.exit_dual_level, level=number)
    innermost = innermost_level(state)
    if innermost is None:
        unsupported("with-block", value="forward_ad.exit_dual_level()")
    state.leave(innermost)
    return NONE


@models.of_plain_tensors(forward_ad.make_dual)
def make_dual(tx: Tracer, tensor: Value, tangent: Value, *, level: Value = NONE) -> Value:
    number = _number(tx, level)
    for given in (tensor, tangent):
        if not isinstance(given, TensorVariable):
            unsupported("unsupported-call", value=f"forward_ad.make_dual of {given.describe()}")
        if number < 0 or not (given.fake.is_floating_point() or given.fake.is_complex()):
            empty = [torch.empty(0, dtype=each.fake.dtype) for each in (tensor, tangent) if isinstance(each, TensorVariable)]
            tx.run_now(forward_ad.make_dual, *empty, level=number)
    return tx.call_in_graph(forward_ad.make_dual, [tensor, tangent], {"level": tx.literal(number)})


@models.of_plain_tensors(forward_ad.unpack_dual)
def unpack_dual(tx: Tracer, tensor: Value, *, level: Value = NONE) -> Value:
    number = _number(tx, level)
    if number < 0:
        return NamedTupleVariable([tensor, NONE], forward_ad.UnpackedDualTensor)
    return tx.call_in_graph(forward_ad.unpack_dual, [tensor], {"level": tx.literal(number)})


def _number(tx: Tracer, level: Value) -> int:
    """The level that a function works on; by default the innermost one."""
    given: Any = level.constant()
    return level_of(tx.trace.torch_state) if given is None else given
