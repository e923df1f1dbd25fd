"""From nested tensors with the jagged layout that existed before the frame ran to their tracked form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from shapes.policy import DimPolicy
from tracer import _C
from tracer.graph.fakes.fake_tensors import expr_of, is_symbolic
from tracer.graph.fakes.nested_fakes import SEQLENS, NestedTensor, nested_fake, share_ragged_size
from tracer.graph_breaks import unsupported
from tracer.guards.containers import DictContains
from tracer.guards.identity import Distinct, SameObject, TypeMatch
from tracer.guards.tensors import TensorMatch, TensorSpec, tensor_spec
from tracer.guards.values import EqualsMatch
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import AttrSource
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.sources.tensors import TensorSizeSource
from tracer.variables.builders.builder import VariableBuilder, is_plain_tensor, opaque, plain_tensor, tracks
from tracer.variables.tensors.nested_tensors import NestedTensorVariable
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@tracks(NestedTensor)
def _nested_tensor(builder: VariableBuilder, tx: Tracer, value: NestedTensor, source: Source) -> VariableTracker:
    """The tensors that it is made of are inputs of the trace, too, with guards of their own. So two nested tensors whose offsets
    are one tensor have the same ragged size in the trace, and a guard says that they share it."""
    parts = [value._values, value._offsets, *([] if value._lengths is None else [value._lengths])]
    if not all(map(is_plain_tensor, parts)):
        return opaque(builder, value, source)
    output = tx.output
    output.journal.refuse("it has a nested tensor")
    output.world.fake_mode.note_nested()
    builder.guard(TensorMatch(source, _spec_of(value)))
    builder.guard(EqualsMatch(AttrSource(source, "_ragged_idx"), value._ragged_idx))
    values = _part(builder, value._values, AttrSource(source, "_values"), value._ragged_idx - 1)
    offsets = _part(builder, value._offsets, AttrSource(source, "_offsets"))
    if value._lengths is None:
        lengths = None
        builder.guard(EqualsMatch(AttrSource(source, "_lengths"), None))
    else:
        lengths = _part(builder, value._lengths, AttrSource(source, "_lengths"))
    if not share_ragged_size(output.world.fake_mode, value, (lengths or offsets).fake):
        unsupported("unsupported-tensor", value=f"{source.name}, whose ragged size is not that of its offsets,")
    with builder.trace.torch_state.as_at_entry():
        seqlens = _seqlens(builder, value, source)
        fake = nested_fake(value, values.fake, offsets.fake, None if lengths is None else lengths.fake, seqlens)
    if output.memory is not None:
        for part in (values, offsets, *([] if lengths is None else [lengths])):
            output.memory.add_nested(part.node)
    variable = NestedTensorVariable(output.add_input(source, value, fake), fake, source)
    output.track(fake, variable)
    builder.trace.input_tensors.append(variable)
    if fake.requires_grad and not fake.is_leaf:
        builder.trace.computed_inputs.append(variable)
    return builder.remember(value, variable)


def _spec_of(value: NestedTensor) -> TensorSpec:
    """What is guarded of the tensor itself; its parts show the rest."""
    with torch._C.DisableTorchFunction():
        device = value.device
        index = -1 if device.index is None else device.index
        keys = _C.dispatch_keys(value)
        return TensorSpec(NestedTensor, keys, value.dtype, device.type, index, value.requires_grad, None, None)


def _part(builder: VariableBuilder, value: torch.Tensor, source: Source, ragged: int | None = None) -> TensorVariable:
    """A tensor that a nested tensor is made of. The total length, at dim `ragged` of the values, is a symbol."""
    known = builder.known_at(value, source)
    if known is None:
        known = plain_tensor(builder, value, source, TensorVariable, () if ragged is None else (ragged,))
    assert isinstance(known, TensorVariable) and known.source is not None
    if builder.trace.output.inputs[known.source].node is not known.node:
        unsupported("unsupported-tensor", value=f"{source.name}, whose data were exchanged,")
    return known


def _seqlens(builder: VariableBuilder, value: NestedTensor, source: Source) -> dict[str, torch.Tensor]:
    """What a nested tensor remembers of its lengths, of fakes: each is a tensor without elements, whose size is the number.
    Results share the dict with their operand, unless it is empty, so one dict of the program is one dict here. What is in it
    decides sizes: a tensor is padded to the greatest length if that is in the dict, else to the sum of all."""
    kept, output = value._metadata_cache, builder.trace.output
    place = AttrSource(source, "_metadata_cache")
    known = output.world.fake_mode.seqlens
    for other, found, at in known:
        if other is kept:
            builder.guard(SameObject(at, place))
            return found
        builder.guard(Distinct((at, place)))
    builder.guard(TypeMatch(place, dict))
    found = {}
    known.append((kept, found, place))
    for name in SEQLENS:
        tensor = kept.get(name)
        builder.guard(DictContains(place, name, name in kept))
        if tensor is None:
            if name in kept:
                builder.guard(EqualsMatch(ItemSource(place, name), None))
            continue
        at = ItemSource(place, name)
        fake = output.world.fakify(tensor, at, [DimPolicy.DYNAMIC, DimPolicy.STATIC])
        size = fake.shape[0]
        if is_symbolic(size):
            output.add_symbol(expr_of(size), TensorSizeSource(at, 0), tensor.shape[0], size)
        builder.guard(TensorMatch(at, tensor_spec(tensor, {0} if is_symbolic(size) else (), None)))
        found[name] = fake
    return found
