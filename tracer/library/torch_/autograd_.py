"""Models of checkpointing, which is traced through, and of backward passes, which are operations of the graph."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, NoReturn

import torch
from torch.utils import checkpoint

from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph_breaks import unsupported
from tracer.library.subgraphs import recording
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.tensors.backward import backward, gradients
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE, TRUE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


@models.of_plain_tensors(checkpoint.checkpoint, inspect.unwrap(checkpoint.checkpoint))
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
    """The result is that of the function itself: checkpointing only changes when tensors are computed."""
    if use_reentrant.constant() is None or "context_fn" in kwargs or "debug" in kwargs:
        unsupported("autograd-in-trace", name="torch.utils.checkpoint with these options")
    if torch.is_grad_enabled() and not preserve_rng_state.truth(tx):
        unsupported("autograd-in-trace", name="torch.utils.checkpoint that draws other random numbers again")
    reentrant = torch.is_grad_enabled() and use_reentrant.truth(tx)
    if reentrant and (kwargs or not any(map(_requires_grad, args))):
        _refuse_reentrant("with keywords, or of nothing that requires gradients,")
    if not torch.is_grad_enabled():
        return function.call(tx, list(args), kwargs)
    with recording(tx, "torch.utils.checkpoint, which calls its function twice,", [function, *args]) as part:
        result = function.call(tx, list(args), kwargs)
    part.leave()
    if reentrant:
        _check_reentrant(tx, args, result)
    return result


def _refuse_reentrant(why: str) -> NoReturn:
    unsupported("autograd-in-trace", name=f"torch.utils.checkpoint of the reentrant kind, {why}")


def _requires_grad(value: Value) -> bool:
    return isinstance(value, TensorVariable) and bool(value.fake.requires_grad)


def _check_reentrant(tx: Tracer, args: tuple[Value, ...], result: Value) -> None:
    """Reentrant checkpointing makes an autograd.Function of the call: all its results are new, and take part in autograd. Results
    that do so anyway have the same gradients; others are refused. `torch.autograd.grad` refuses to go through such a call, which
    is not imitated."""
    inputs = [storage_of(tensor.fake) for tensor in tx.trace.input_tensors]
    inputs += [storage_of(arg.fake) for arg in args if isinstance(arg, TensorVariable)]
    for item in result.unpack(tx) if isinstance(result, TupleVariable) else [result]:
        if not isinstance(item, TensorVariable):
            if not item.is_constant():
                _refuse_reentrant("which returns a container,")
        elif storage_of(item.fake) in inputs or not (item.fake.requires_grad or not item.fake.is_floating_point()):
            _refuse_reentrant("which returns what it was given, or takes no part in autograd,")


models.of_plain_tensors(torch.autograd.grad)(gradients)


@models.of_plain_tensors(torch.autograd.backward)
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
