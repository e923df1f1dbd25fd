"""Models of what drives autograd: checkpointing is traced through, backward passes are operations of the graph."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import checkpoint

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.backward import backward, gradients
from tracer.variables.base import VariableTracker
from tracer.variables.constant import NONE, TRUE

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker


@models(checkpoint.checkpoint, inspect.unwrap(checkpoint.checkpoint))
def _checkpoint(
    tx: Tracer,
    function: Value,
    *args: Value,
    use_reentrant: Value = NONE,
    preserve_rng_state: Value = TRUE,
    determinism_check: Value = NONE,
    early_stop: Value = TRUE,
    **kwargs: Value,
) -> Value:
    """A checkpointed function gives what the function gives; only when tensors are computed again differs."""
    if use_reentrant.constant() is None or "context_fn" in kwargs or "debug" in kwargs:
        unsupported("autograd-in-trace", name="torch.utils.checkpoint with these options")
    if torch.is_grad_enabled() and (use_reentrant.truth(tx) or not preserve_rng_state.truth(tx)):
        unsupported("autograd-in-trace", name="torch.utils.checkpoint of the reentrant kind")
    before = _effects(tx)
    result = function.call(tx, list(args), kwargs)
    if torch.is_grad_enabled() and _effects(tx) != before:
        unsupported("autograd-in-trace", name="torch.utils.checkpoint of a function with effects, which happen twice,")
    return result


def _effects(tx: Tracer) -> tuple[Any, ...]:
    written = tx.output.world.fake_mode.written_storages
    inputs = [tensor.fake.untyped_storage()._cdata for tensor in tx.trace.input_tensors]
    return {storage for storage in inputs if storage in written}, len(tx.effects.mutated)


models(torch.autograd.grad)(gradients)


@models(torch.autograd.backward)
def _backward(
    tx: Tracer,
    tensors: Value,
    grad_tensors: Value = NONE,
    retain_graph: Value = NONE,
    create_graph: Value = NONE,
    grad_variables: Value = NONE,
    inputs: Value = NONE,
) -> Value:
    if grad_variables is not NONE:
        unsupported("autograd-in-trace", name="torch.autograd.backward with grad_variables")
    return backward(tx, tensors, grad_tensors, retain_graph, create_graph, inputs)
