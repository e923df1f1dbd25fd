"""A model of flex attention's operator: `score_mod` and `mask_mod` become graphs of scalars, which the operator maps over."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from tracer.library.torch_.higher_order import HigherOrderCall
from tracer.protocol.models import models, named_models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_FLEX: Any = torch.ops.higher_order.flex_attention


@named_models.of_plain_tensors("torch._dynamo.decorators.mark_static")
def _mark_static(tx: Tracer, tensor: Value, index: Value = NONE) -> Value:
    """Does nothing: torch calls this on its own arguments, only to advise torch.compile."""
    return NONE


@models.of_plain_tensors(_FLEX)
def _flex_attention(
    tx: Tracer, query: Value, key: Value, value: Value, score_mod: Value, block_mask: Value, scale: Value, options: Value
) -> Value:
    call = HigherOrderCall(tx, _FLEX)
    inputs = call.tensors(TupleVariable([query, key, value]))
    *mask, mask_mod = block_mask.unpack(tx)
    mask_arguments = [tx.as_graph_arg(item) for item in mask]
    score, places = _scalar(call, inputs[0]), [_scalar(call, inputs[0], torch.int) for _ in range(4)]
    with tx.output.world.replacing(operator.getitem, _index):
        scores = call.body(score_mod, [score, *places], [score, *places], makes=False)
        masks = call.body(mask_mod, places, places, makes=False)
    read_by_score, read_by_mask = call.captured([scores], 5), call.captured([masks], 4)
    score_module = call.module("score_mod", scores, read_by_score, [score, *places], single=True)
    mask_module = call.module("mask_mod", masks, read_by_mask, places, single=True)
    call.forget([score, *places])
    arguments = (
        *(tensor.node for tensor in inputs),
        score_module,
        (*mask_arguments, mask_module),
        tx.as_graph_arg(scale),
        tx.as_graph_arg(options),
        tuple(read_by_score),
        tuple(read_by_mask),
    )
    likes = tx.output.run_fake(_likes, (inputs[0].fake, inputs[2].fake), {}, call.name)
    read = [*(tensor.node for tensor in inputs), *read_by_score]
    return TupleVariable(call.result(_FLEX, arguments, likes, read, differentiable=2))


def _scalar(call: HigherOrderCall, query: TensorVariable, dtype: torch.dtype | None = None) -> TensorVariable:
    def scalar(query: torch.Tensor) -> torch.Tensor:
        made = query.new_empty((), dtype=dtype)
        return made.requires_grad_(query.requires_grad) if dtype is None else made

    return call.argument(call.tx.output.run_fake(scalar, (query.fake.detach(),), {}, call.name))


def _likes(query: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Tensors like the results of the operator. The first has the memory layout of the query, but its last dim is dense."""
    *outer, _ = query.shape
    shape, last = (*outer, value.shape[-1]), query.dim() - 1
    order = sorted(range(query.dim()), key=lambda dim: (query.stride(dim), -dim))
    strides = _dense_strides(shape, order)
    if strides[last] != 1:
        strides = _dense_strides(shape, [last, *(dim for dim in order if dim != last)])
    statistics = torch.float64 if query.dtype is torch.float64 else torch.float32
    return query.new_empty_strided(shape, strides), *(query.new_empty(outer, dtype=statistics) for _ in range(2))


def _dense_strides(shape: tuple[Any, ...], order: list[int]) -> list[Any]:
    """The strides of a tensor without gaps whose dims are laid out in this order, the innermost first."""
    strides: list[Any] = [1] * len(shape)
    step: Any = 1
    for dim in order:
        strides[dim] = step
        step = step * shape[dim]
    return strides


def _index(tensor: Any, index: Any) -> Any:
    """Indexing inside `score_mod` and `mask_mod`: an index that is a scalar tensor does not become a number."""
    items = index if isinstance(index, tuple) else (index,)
    if isinstance(tensor, torch.Tensor) and all(isinstance(item, torch.Tensor) for item in items):
        return torch.ops.aten.index(tensor, list(items))
    return tensor[index]
