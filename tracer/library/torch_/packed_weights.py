"""The packed weights that torch's dynamically quantised layers hold, and the operators that read them.

Packed weights are an object of C++ (`torch.ScriptObject`). A graph is given it as an input and hands it to the operator.
Compilers are not given these operators, which have no meta functions in torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.operations.streams import RuntimeObject
from tracer.guards.identity import IdMatch
from tracer.operators.kept_from_compilers import keep_from_compilers
from tracer.operators.meta import meta
from tracer.sources.base import Source
from tracer.variables.builders.builder import VariableBuilder, tracks
from tracer.variables.builders.objects import opaque
from tracer.variables.objects.runtime_objects import RuntimeObjectVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker

_LINEAR = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
_CELL = "__torch__.torch.classes.rnn.CellParamsBase"

_quantized: Any = torch.ops.quantized
_PACKETS: tuple[Any, ...] = (
    _quantized.linear_dynamic, _quantized.linear_relu_dynamic, _quantized.linear_dynamic_fp16, _quantized.linear_relu_dynamic_fp16
)  # fmt: skip
_PRODUCTS = (*_PACKETS, *(packet.default for packet in _PACKETS))


class PackedWeights(RuntimeObject):
    """Stands for packed weights in the trace. `shape`: rows and columns of a linear layer's weight; None for others."""

    __slots__ = ("shape",)

    def __init__(self, value: torch.ScriptObject, kind: str) -> None:
        super().__init__(type(value))
        self.shape: torch.Size | None = value.unpack()[0].shape if kind == _LINEAR else None


@tracks(torch.ScriptObject)
def _existing(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    kind = value._type().qualified_name()
    if kind not in (_LINEAR, _CELL):
        return opaque(builder, value, source)
    builder.guard(IdMatch(source, value))
    node = tx.output.add_input(source, value, PackedWeights(value, kind))
    return builder.remember(value, RuntimeObjectVariable(type(value), node, value, source))


# -- what the operators give -----------------------------------------------------------------------------------------------------


@meta(*_PRODUCTS)
def _product(operator: Any, data: torch.Tensor, weights: Any, reduce_range: bool = False) -> torch.Tensor:
    _check(data)
    if type(weights) is not PackedWeights or weights.shape is None:
        raise TypeError("these are no packed weights of a linear layer")
    rows, columns = weights.shape
    if data.dim() < 2 or data.shape[-1] != columns:
        raise ValueError(f"a tensor of {data.dim()} dimensions, or whose last one is not {columns}")
    return data.new_empty((*data.shape[:-1], rows))


@meta(torch.quantized_lstm, has_cells=True)
@meta(torch.quantized_gru, has_cells=False)
def _recurrent(
    function: Any, data: torch.Tensor, hidden: Any, weights: Any, *options: Any, has_cells: bool, **kwargs: Any
) -> tuple[torch.Tensor, ...]:
    if len(options) != 6 or not isinstance(weights, (list, tuple)) or any(type(each) is not PackedWeights for each in weights):
        raise TypeError("a packed sequence, or weights that are not packed")
    _, layers, _, _, bidirectional, batch_first = options
    states = list(hidden) if has_cells else [hidden]
    _check(data, *states)
    directions = 2 if bidirectional else 1
    batch, size = states[0].shape[1:]
    wanted = (layers * directions, batch, size)
    if data.dim() != 3 or data.shape[0 if batch_first else 1] != batch or any(state.shape != wanted for state in states):
        raise ValueError("sizes of the data and of the hidden states do not fit")
    steps = data.transpose(0, 1) if batch_first else data
    out = data.new_empty((*steps.shape[:2], directions * size))
    last = [state.new_empty(wanted) for state in states]
    return out.transpose(0, 1) if batch_first else out, *last


def _check(*tensors: torch.Tensor) -> None:
    """Raises for what the operators refuse, or what they warn of in a backward pass."""
    if any(each.dtype != torch.float32 or each.device.type != "cpu" for each in tensors):
        raise TypeError("an operand that is no tensor of 32-bit floats on the CPU")
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        raise TypeError("an operand that requires a gradient, which these operators do not give")


keep_from_compilers(torch.quantized_lstm, torch.quantized_gru, *_PRODUCTS)
