"""A model of `autograd.Function.apply`: where no gradient can flow, forward is traced through; otherwise the graph breaks."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.base import ObservedException, VariableTracker
from tracer.variables.classes import ClassVariable
from tracer.variables.constant import boolean
from tracer.variables.function_context import FunctionContextVariable
from tracer.variables.tuples import TupleVariable
from tracer.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker
_APPLY: Any = torch.autograd.Function.apply
_NO_SETUP = torch.autograd.Function.setup_context


@models(_APPLY.__func__)
def _apply(tx: Tracer, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if not isinstance(cls, ClassVariable) or torch._C._are_functorch_transforms_active():
        unsupported("autograd-in-trace", name="autograd.Function under a function transform")
    name = cls.value.__qualname__
    tensors = [arg for arg in args if isinstance(arg, TensorVariable)]
    if torch.is_grad_enabled() and any(tensor.fake.requires_grad for tensor in tensors):
        unsupported("autograd-in-trace", name=f"{name}.apply of what requires grad")
    separate = cls.value.setup_context is not _NO_SETUP
    forward = cls.get_attr(tx, "forward")
    inputs = _bound(tx, cls.value.forward, args, kwargs) if separate else list(args)
    if kwargs and not separate:
        unsupported("call-arguments", error=f"{name}.apply takes keywords only where setup_context is defined")
    needs = [boolean(isinstance(arg, TensorVariable) and arg.fake.requires_grad) for arg in inputs]
    context = FunctionContextVariable(cls.value._backward_cls, {"needs_input_grad": TupleVariable(needs)})
    with _no_grad(tx):
        if separate:
            output = forward.call(tx, inputs, {})
            cls.get_attr(tx, "setup_context").call(tx, [context, TupleVariable(inputs), output], {})
        else:
            output = forward.call(tx, [context, *inputs], {})
    return _output(tx, name, output, tensors, context)


@contextlib.contextmanager
def _no_grad(tx: Tracer) -> Iterator[None]:
    """Within, the program runs without grad mode; exceptions of the program pass through, a break ends the trace."""
    if not torch.is_grad_enabled():
        yield
        return
    state = tx.trace.torch_state
    state.change(torch._C._set_grad_enabled, False)
    try:
        yield
    except ObservedException:
        state.change(torch._C._set_grad_enabled, True)
        raise
    state.change(torch._C._set_grad_enabled, True)


def _bound(tx: Tracer, forward: Any, args: tuple[Value, ...], kwargs: dict[str, Value]) -> list[Value]:
    """The arguments in order, with defaults."""
    signature = inspect.signature(forward)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        tx.raise_error(TypeError, str(error))
    given = bound.arguments
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            unsupported("call-arguments", error=f"the parameter {parameter} of an autograd.Function")
        if name not in given:
            given[name] = tx.literal(parameter.default)
    return [given[name] for name in signature.parameters]


def _output(
    tx: Tracer, name: str, output: Value, inputs: list[TensorVariable], context: FunctionContextVariable
) -> Value:
    """What C makes of forward's result: a tensor, or a plain tuple of what a tuple holds."""
    outputs = output.unpack(tx) if isinstance(output, TupleVariable) else [output]
    for tensor in outputs:
        if not isinstance(tensor, TensorVariable):
            continue
        is_input = any(tensor is known or tensor.fake is known.fake for known in inputs)
        if is_input or tensor.fake.requires_grad or "dirty_tensors" in context.attributes:
            unsupported("autograd-in-trace", name=f"{name}.apply, which returns an input or changes one,")
    return TupleVariable(outputs) if isinstance(output, TupleVariable) else output
