"""Models of torch's switches: grad and inference mode, autocast, default dtype and device.

A query is answered while tracing, because the GLOBAL_STATE guard covers the answer. A setter runs while tracing, so that fakes
are computed under the new setting, and again in the graph (`tracer.effects.torch_state`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._device import DeviceContext

from tracer.effects.torch_state import CONTEXT_KINDS, NUMPY_ERRORS, ContextKind, set_deterministic
from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.tensors.created_leaves import no_leaf_can_be_made
from tracer.variables.values.constant import FALSE, NONE, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

# Their answers are covered by the guard on global state, or never change.
_QUERIES: tuple[Any, ...] = (
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_autocast_enabled,
    torch.is_autocast_cpu_enabled,
    torch.amp.is_autocast_available,
    torch._C._is_autocast_available,
    torch.get_autocast_dtype,
    torch.get_autocast_cpu_dtype,
    torch.get_autocast_gpu_dtype,
    torch.get_default_dtype,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch.get_deterministic_debug_mode,
    torch._C._get_deterministic_algorithms,
    torch._C._get_deterministic_algorithms_warn_only,
    torch._C._get_privateuse1_backend_name,
    torch._C._functorch.peek_interpreter_stack,
    torch._C._are_functorch_transforms_active,
    torch._C._functorch.maybe_current_level,
    torch.cuda.is_available,
    torch.cuda.device_count,
    torch.cuda.is_bf16_supported,
    torch.cuda.get_arch_list,
    torch.backends.mps.is_available,
    torch.backends.mps.is_built,
    torch.xpu.is_available,
    torch.accelerator.is_available,
    torch.accelerator.current_accelerator,
    torch.accelerator.device_count,
    torch.cuda.amp.common.amp_definitely_not_available,
)
_SETTERS: tuple[Any, ...] = (
    torch._C._set_grad_enabled,
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_default_dtype,
)


def _model_of_query(query: Any) -> Any:
    """The model of a query: it is called while tracing. An error of it is one of the program."""

    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        constants = [arg.constant() for arg in args]
        answer = tx.run_now(query, *constants, **{key: arg.constant() for key, arg in kwargs.items()})
        return tx.literal(answer)

    return model


def _model_of_setter(setter: Any) -> Any:
    """The model of a setter: `torch_state` calls it now and records a node that calls it in the graph."""

    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        if kwargs:
            unsupported("side-effect-call", name=setter.__name__, value="keyword arguments")
        values = [arg.constant() for arg in args]
        if setter is torch.set_default_dtype and tx.output.memory is not None:  # compilers drop the node; kernels read the dtype
            unsupported("side-effect-call", name=setter.__name__, value=args[0].describe())
        if setter is torch._C._set_grad_enabled and type(values[0]) is not bool:
            unsupported("side-effect-call", name=setter.__name__, value=args[0].describe())
        try:
            tx.trace.torch_state.change(setter, *values)
        except TypeError as error:
            unsupported("call-arguments", error=str(error))
        return NONE

    return model


for _function in _QUERIES:
    models.of_plain_tensors(_function)(_model_of_query(_function))
for _function in _SETTERS:
    models.of_plain_tensors(_function)(_model_of_setter(_function))


@models.of_plain_tensors(torch.use_deterministic_algorithms)
def _use_deterministic_algorithms(tx: Tracer, mode: Value, *, warn_only: Value = FALSE) -> Value:
    values = mode.constant(), warn_only.constant()
    inside = no_leaf_can_be_made(tx) and not tx.output.runs_as_written  # a graph in the graph, which cannot be cut
    if inside or any(type(value) is not bool for value in values) or not tx.output.chances.take():
        unsupported("side-effect-call", name="torch.use_deterministic_algorithms", value=mode.describe())
    tx.trace.torch_state.change(set_deterministic, *values)
    return NONE


@models.of_plain_tensors(torch.get_default_device)
def _default_device(tx: Tracer) -> Value:
    contexts = _device_contexts(tx)
    if not contexts:
        return tx.literal(torch.get_default_device())
    device = contexts[-1].get_attr(tx, "device")
    if device.constant().index is None and device.constant().type not in ("cpu", "meta"):
        unsupported("unsupported-builtin", function="torch.get_default_device where the index is that of the current device")
    return device


def _device_contexts(tx: Tracer) -> list[Value]:
    """The torch-function modes that only set the default device (`torch.set_default_device`, `with device:`), outermost first."""
    return [mode for mode in tx.trace.overrides.modes if mode.python_type() is DeviceContext]


@models.of_plain_tensors(torch.is_autocast_cache_enabled)
def _is_autocast_cache_enabled(tx: Tracer) -> Value:
    return boolean(tx.trace.torch_state.cache_enabled)


@models.of_plain_tensors(torch.set_autocast_cache_enabled)
def _set_autocast_cache_enabled(tx: Tracer, enabled: Value) -> Value:
    tx.trace.torch_state.set_cache_enabled(enabled.constant())
    return NONE


# -- contexts ------------------------------------------------------------------------------------------------------------


def _model_of_enter(kind: ContextKind) -> Any:
    """The model of a context manager's `__enter__`. Under a torch-function mode of the program it breaks the graph, because the
    mode would see the calls that change the state."""

    def model(tx: Tracer, manager: Value) -> Value:
        if len(_device_contexts(tx)) != len(tx.trace.overrides.modes):
            unsupported("with-block", value=manager.describe())
        args = tuple(manager.get_attr(tx, name).constant() for name in kind.attributes)
        tx.trace.torch_state.enter(kind, manager, args)
        return NONE if kind.manager_enter in _GIVING_NONE else manager

    return model


def _model_of_exit(kind: ContextKind) -> Any:
    """The model of a context manager's `__exit__`, which closes the innermost context that the manager opened."""

    def model(tx: Tracer, manager: Value, *exception: Value) -> Value:
        state = tx.trace.torch_state
        entered = [context for context in state.open if context.manager is manager]
        if not entered:  # entered by a frame that ran before
            unsupported("with-block", value=manager.describe())
        state.leave(entered[-1])
        return boolean(False) if kind.manager_enter is torch.autocast.__enter__ else NONE  # what torch's method returns

    return model


_GIVING_NONE = (torch.inference_mode.__enter__, NUMPY_ERRORS.manager_enter)  # what the real methods return
for _kind in CONTEXT_KINDS:
    models.of_plain_tensors(_kind.manager_enter)(_model_of_enter(_kind))
    models.of_plain_tensors(_kind.manager_exit)(_model_of_exit(_kind))


# -- what breaks the graph -------------------------------------------------------------------------------------------------

_BREAKING: tuple[Any, ...] = (
    torch.set_default_device,
    torch.set_default_tensor_type,
    torch.set_deterministic_debug_mode,
    torch.set_num_threads,
    torch.set_num_interop_threads,
    torch.set_printoptions,
    torch.set_flush_denormal,
    torch.set_warn_always,
    torch.set_anomaly_enabled,
    torch.save,
    torch.load,
)
_RANDOM_STATE: tuple[Any, ...] = (torch.seed, torch.initial_seed, torch.cuda.get_rng_state, torch.cuda.set_rng_state)


def _model_that_breaks(function: Any, reason: str) -> Any:
    """A model that breaks the graph at each call, for this reason of the catalogue."""
    name = f"torch.{function.__name__}"

    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        unsupported(reason, name=name, value="torch's global state")

    return model


for _function in _BREAKING:
    models.of_plain_tensors(_function)(_model_that_breaks(_function, "side-effect-call"))
for _function in _RANDOM_STATE:
    models.of_plain_tensors(_function)(_model_that_breaks(_function, "random-state"))
