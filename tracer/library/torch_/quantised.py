"""Models of the functions that quantise a tensor, and give its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.operators.kept_from_compilers import keep_from_compilers
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.tensors.quantised_tensors import INTEGERS, QuantisedVariable, make_node
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
keep_from_compilers(torch.quantize_per_tensor, torch.quantize_per_channel, torch.quantize_per_tensor_dynamic)


def _checked(function: Any, input: Value, dtype: Value) -> TensorVariable:
    """The tensor to be quantised, if its numbers lie without gaps, in order: so do those of the result."""
    if isinstance(input, TensorVariable) and input.python_type() is torch.Tensor and dtype.constant() in INTEGERS:
        fake = input.fake
        has_gradient = fake.requires_grad and torch.is_grad_enabled()
        if fake.dtype == torch.float32 and fake.is_contiguous() and not has_gradient:
            return input
    unsupported("unsupported-tensor", value=f"a result of {function.__name__}")


def _argument(value: Value) -> Any:
    return value.node if isinstance(value, TensorVariable) else value.constant()


def _quantised(
    tx: Tracer, function: Any, input: Value, dtype: Value, options: tuple[Value, ...], known: dict[str, Value]
) -> QuantisedVariable:
    """What `function(input, *options)` gives."""
    tensor = _checked(function, input, dtype)
    arguments = (tensor.node, *map(_argument, options))
    return QuantisedVariable(make_node(tx, function, arguments), tensor.fake, dtype.constant(), known)


@models.of_plain_tensors(torch.quantize_per_tensor)
def _per_tensor(tx: Tracer, input: Value, scale: Value, zero_point: Value, dtype: Value) -> Value:
    known: dict[str, Value] = {"qscheme": tx.literal(torch.per_tensor_affine)}
    if scale.is_constant() and zero_point.is_constant():
        numbers = float(scale.constant()), int(zero_point.constant())
        known |= {"q_scale": tx.literal(numbers[0]), "q_zero_point": tx.literal(numbers[1])}
    return _quantised(tx, torch.quantize_per_tensor, input, dtype, (scale, zero_point, dtype), known)


@models.of_plain_tensors(torch.quantize_per_channel)
def _per_channel(tx: Tracer, input: Value, scales: Value, zero_points: Value, axis: Value, dtype: Value) -> Value:
    return _quantised(tx, torch.quantize_per_channel, input, dtype, (scales, zero_points, axis, dtype), {})


@models.of_plain_tensors(torch.quantize_per_tensor_dynamic)
def _dynamic(tx: Tracer, input: Value, dtype: Value, reduce_range: Value) -> Value:
    known: dict[str, Value] = {"qscheme": tx.literal(torch.per_tensor_affine)}
    return _quantised(tx, torch.quantize_per_tensor_dynamic, input, dtype, (dtype, reduce_range), known)


@models.of_plain_tensors(torch.int_repr)
def _int_repr(tx: Tracer, input: Value) -> Value:
    return input.call_method(tx, "int_repr", [], {})


@models.of_plain_tensors(torch.dequantize)
def _dequantize(tx: Tracer, tensor: Value) -> Value:
    if isinstance(tensor, QuantisedVariable):
        return tensor.call_method(tx, "dequantize", [], {})
    return tx.call_in_graph(torch.dequantize, [tensor], {})
