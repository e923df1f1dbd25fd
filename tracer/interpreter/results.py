"""Makes tracked values from the result of an operation on fake tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from tracer.graph.fakes.nested_fakes import is_nested
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.output_graph import OutputGraph
from tracer.graph.symbols.ragged import ragged_of
from tracer.graph_breaks import unsupported
from tracer.operators.proxies import SYM_TYPES
from tracer.operators.sparse_rules import is_sparse
from tracer.protocol.variable import VariableTracker
from tracer.variables.builders.literals import from_python
from tracer.variables.containers.lists import ListVariable, NamedTupleVariable, SizeVariable, TupleVariable
from tracer.variables.tensors.nested_tensors import NestedTensorVariable, RaggedSizeVariable
from tracer.variables.tensors.program_fakes import ProgramFakeVariable
from tracer.variables.tensors.sparse_tensors import SparseVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.wrappers import WrapperVariable
from tracer.variables.values.constant import ConstantVariable, is_constant_value
from tracer.variables.values.symbolic import SymNodeVariable

_QUANTISED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)


def wrap_result(output: OutputGraph, node: fx.Node, example: Any) -> VariableTracker:
    if isinstance(example, torch.Tensor):
        known = output.tracked(example)
        if known is not None:
            return known
        if isinstance(example, WrapperFake):
            _, parts = output.parts.get(id(example), (None, {}))
            wrapper = WrapperVariable(node, example, None, example.wrapper, parts)
            output.track(example, wrapper)
            if not output.traces_wrapper:
                output.wrappers.made(example)
            return wrapper
        if is_nested(example):
            nested = NestedTensorVariable(node, example)
            output.track(example, nested)
            return nested
        if type(example).__name__ not in ("FakeTensor", "Parameter") and not _is_wrapped(example):
            unsupported("tensor-subclass", cls=type(example).__qualname__, source=f"a result of {node.target}")
        if example.dtype in _QUANTISED or example.is_nested:  # fakes lose the quantiser or the nested sizes
            unsupported("unsupported-tensor", value=f"a result of {node.target}")
        is_fake = output.world.program_fakes.come_from(node)
        cls = ProgramFakeVariable if is_fake else SparseVariable if _is_made_of_sparse_input(output, example) else TensorVariable
        variable = cls(node, example)
        output.track(example, variable)
        return variable
    if ragged_of(example) is not None:
        return RaggedSizeVariable(node, example)
    if isinstance(example, SYM_TYPES):
        constant = example.node.constant
        if constant is None and isinstance(example, torch.SymInt):
            constant = example.node.maybe_as_int()
        return SymNodeVariable(node, example) if constant is None else ConstantVariable(constant)
    if isinstance(example, (tuple, list)):
        return _wrap_sequence(output, node, example)
    if is_constant_value(example):
        return from_python(example)
    unsupported("operator-result", operator=str(node.target), cls=type(example).__qualname__)


def _is_made_of_sparse_input(output: OutputGraph, example: torch.Tensor) -> bool:
    return output.chances.met_sparse and is_sparse(example)


def _wrap_sequence(output: OutputGraph, node: fx.Node, example: Any) -> VariableTracker:
    items = []
    for index, item in enumerate(example):
        items.append(wrap_result(output, output.item(node, index, item), item))
    cls = type(example)
    if cls is torch.Size:
        return SizeVariable(items)
    if cls is tuple:
        return TupleVariable(items)
    if issubclass(cls, list):  # also FX's own, which is an argument of the operation
        return ListVariable(items)
    return NamedTupleVariable(items, cls)


_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # by a transform of torch.func
