"""Models of checkpointing, which is traced through, and of backward passes, which are operations of the graph."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, NoReturn

import torch
from torch.utils import checkpoint

from tracer.compat_torch.facts import body_of_checkpoint
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph_breaks import unsupported
from tracer.library.subgraphs import recording
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import as_written
from tracer.variables.tensors.backward import backward, gradients
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE, TRUE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

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
    """The result is that of the function itself: checkpointing only changes when tensors are computed."""
    unchosen = use_reentrant.constant() is None
    if unchosen and _ADVICE is None or not _OTHER_OPTIONS.isdisjoint(kwargs):
        unsupported("autograd-in-trace", name="torch.utils.checkpoint with these options")
    if unchosen:
        tx.call_library(CallableVariable(warnings.warn), [tx.literal(_ADVICE)], {})
        use_reentrant = TRUE
    if torch.is_grad_enabled() and not preserve_rng_state.truth(tx):
        unsupported("autograd-in-trace", name="torch.utils.checkpoint that draws other random numbers again")
    reentrant = torch.is_grad_enabled() and use_reentrant.truth(tx)
    if reentrant and kwargs:
        _refuse_reentrant("with keywords,")
    if reentrant and not any(map(_requires_grad, args)):
        return _without_gradients(tx, function, args)
    if not torch.is_grad_enabled():
        return function.call(tx, list(args), kwargs)
    with recording(tx, "torch.utils.checkpoint, which calls its function twice,", [function, *args]) as part:
        result = function.call(tx, list(args), kwargs)
    part.leave()
    if reentrant:
        _check_reentrant(tx, args, result)
    return result


_OTHER_OPTIONS = frozenset({"context_fn", "debug", "respect_saved_tensors_hooks"})  # the last since torch 2.14
_TEXTS = [const for const in body_of_checkpoint().__code__.co_consts if isinstance(const, str)]
_ADVICE = next((text for text in _TEXTS if text.startswith("torch.utils")), None)  # about a call that chooses no kind
_CHECK = as_written(checkpoint.check_backward_validity)


def _without_gradients(tx: Tracer, function: Value, args: tuple[Value, ...]) -> Value:
    """Reentrant checkpointing of nothing that requires a gradient: torch warns, and the results take no part in autograd."""
    tx.inline(_CHECK, [TupleVariable(list(args))], {})
    state = tx.trace.torch_state
    state.change(torch._C._set_grad_enabled, False)
    try:
        result = function.call(tx, list(args), {})
    finally:
        state.change(torch._C._set_grad_enabled, True)
    _check_reentrant(tx, args, result, without_gradients=True)
    return result


def _refuse_reentrant(why: str) -> NoReturn:
    unsupported("autograd-in-trace", name=f"torch.utils.checkpoint of the reentrant kind, {why}")


def _requires_grad(value: Value) -> bool:
    return isinstance(value, TensorVariable) and bool(value.fake.requires_grad)


def _check_reentrant(tx: Tracer, args: tuple[Value, ...], result: Value, without_gradients: bool = False) -> None:
    """Reentrant checkpointing makes an autograd.Function of the call: all its results are new, and take part in autograd. Results
    that do so anyway have the same gradients; others are refused. `torch.autograd.grad` refuses to go through such a call, which
    is not imitated."""
    inputs = [storage_of(tensor.fake) for tensor in tx.trace.input_tensors]
    inputs += [storage_of(arg.fake) for arg in args if isinstance(arg, TensorVariable)]
    for item in result.unpack(tx) if isinstance(result, TupleVariable) else [result]:
        if not isinstance(item, TensorVariable):
            if not item.is_constant():
                _refuse_reentrant("which returns a container,")
        elif storage_of(item.fake) in inputs:
            _refuse_reentrant("which returns what it was given,")
        elif not without_gradients and not item.fake.requires_grad and item.fake.is_floating_point():
            _refuse_reentrant("which takes no part in autograd,")


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
