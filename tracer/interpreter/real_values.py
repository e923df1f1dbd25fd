"""The real values that tracked values have in the traced call. Functions that are called while tracing get them as arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import fx
from torch.fx.node import map_arg

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.graph.output_graph import OutputGraph
    from tracer.protocol.tracer import Tracer


def real_value(tx: Tracer, value: VariableTracker, what: str) -> Any:
    """The real value; tensors that the graph computes are computed now. `what` describes it in the error if there is none yet."""
    tx.output.journal.refuse("it calls a function while tracing")
    if value.is_constant():
        return value.constant()
    if isinstance(value, TensorVariable):
        return _tensor(tx, value, what)
    if type(value) in (ListVariable, TupleVariable):
        items = [real_value(tx, item, what) for item in value.unpack(tx)]
        return tuple(items) if isinstance(value, TupleVariable) else items
    if isinstance(value, DictVariable) and value.cls is dict:
        return {real_value(tx, key, what): real_value(tx, item, what) for key, item in value.pairs(tx)}
    if isinstance(value, ClassVariable) and type(value).reconstruct is ClassVariable.reconstruct:
        return value.value
    if isinstance(value, UserObjectVariable) and value.value is not None and value not in tx.effects.mutated:
        return value.value
    unsupported("not-a-constant", value=what)


def _tensor(tx: Tracer, value: TensorVariable, what: str) -> Any:
    output = tx.output
    drawn = output.draws_random_numbers or tx.effects.draws
    if output.world.fake_mode.written_storages or drawn or tx.trace.torch_state.in_graph():
        unsupported("not-a-constant", value=f"{what}, after writes, random numbers or another autocast mode,")
    return value.real(tx) if value.source is not None else _computed(output, value.node, {})


def _computed(output: OutputGraph, node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    """The value of a node; the values of its inputs are computed first."""
    if not known:
        known.update({item.node: item.real for item in output.inputs.values()})
    todo = [node]
    while todo:
        last = todo[-1]
        missing = [needed for needed in last.all_input_nodes if needed not in known]
        if last in known or not missing:
            todo.pop()
            if last not in known:
                known[last] = _run(last, known)
        todo.extend(missing if last not in known else [])
    return known[node]


def _run(node: fx.Node, known: dict[fx.Node, Any]) -> Any:
    args, kwargs = map_arg((node.args, node.kwargs), known.__getitem__)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    if node.op != "call_function":
        unsupported("not-a-constant", value=f"what {node} computes")
    function: Callable[..., Any] = node.target
    return function(*args, **kwargs)
