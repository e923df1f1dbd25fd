"""Backward passes inside a traced function. `torch.autograd.grad` becomes an operation of the graph; `backward()` becomes that
operation and the accumulation of its results into the leaves' gradients.

Both follow the history that autograd records, eagerly and on fakes. A backend that compiles the graph sees no history from
before it, so inputs that a pass reaches have to be leaves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import torch

from tracer.errors import Unsupported
from tracer.graph.fakes.exchanged_data import exchanged_at
from tracer.graph.fakes.fake_tensors import is_leaf
from tracer.graph.operations.gradients import (
    add_to_gradient,
    first_gradient,
    first_gradient_with_history,
    keeps_layout,
    kept_gradient,
    sum_of_gradients,
)
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.guards.tensors import LeafMatch
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.tensors import DrawnTensorSource
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.values.constant import NONE, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.tensors.tensor import TensorVariable


class Retained(NamedTuple):
    """The step from which a tensor has hooks or retains its gradient, and whether it can do so after it leaves the graph."""

    step: int | None
    leaves: bool


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _refuse(name: str, why: str) -> NoReturn:
    unsupported("autograd-in-trace", name=f"{name}, {why},")


@contextlib.contextmanager
def _through_the_inside() -> Iterator[None]:
    """Within, a break leaves the graph before it as it is written. The pass behind the break goes to what the graph has computed,
    or is differentiated itself: the results of a compiled graph allow neither."""
    try:
        yield
    except Unsupported as error:
        error.as_written = True
        raise


def _require_leaves(tx: Tracer, name: str, outputs: VariableTracker, asked: list[Any] | None = None) -> list[TensorVariable]:
    """The inputs that are leaves and require gradients, with a guard that each is one. Breaks the graph if a backward pass from
    `outputs`, to the tensors that are `asked` for if not to all, reaches another input that requires a gradient."""
    if torch._C._are_functorch_transforms_active():
        _refuse(name, "under a transform of torch.func")
    if tx.output.world.fake_mode.met_wrapper:
        _refuse(name, "where a tensor has its own __torch_dispatch__")
    leaves, computed = [], []
    for tensor in tx.trace.input_tensors:
        if tensor.fake.requires_grad and tensor.source is not None:
            leaf = is_leaf(tensor.fake)
            if leaf is None or exchanged_at(tensor.fake) is not None:
                _refuse(name, f"where {tensor.source.name} was given other data, or is a view that autograd forbids to use")
            if leaf:
                tx.guard(LeafMatch(tensor.source, True))
                leaves.append(tensor)
            else:
                computed.append((tensor.source.name, tensor.fake))
    if computed:
        _refuse_to_reach(tx, name, computed, outputs, asked)
    return leaves


def _refuse_to_reach(
    tx: Tracer, name: str, computed: list[tuple[str, torch.Tensor]], outputs: VariableTracker, asked: list[Any] | None
) -> None:
    """Breaks the graph if a backward pass reaches an input that was computed before. The fake of such an input has a history: a
    leaf that is no value of the graph. Autograd goes only where the tensors are that are asked for: what the graph has made is in
    the history of no input, and an input is not in its own."""
    inputs = {id(tensor.fake) for tensor in tx.trace.input_tensors}
    asked_inputs = None if asked is None else {id(tensor.fake) for tensor in asked} & inputs
    if asked_inputs is not None and not asked_inputs:
        return
    of_graph = {id(node.meta[EXAMPLE]) for node in tx.output.graph.nodes if EXAMPLE in node.meta}
    fakes = _fakes(tx, outputs)
    reached = _leaves_behind(fakes if isinstance(fakes, list) else [fakes], of_graph)
    sources = {id(fake): source for source, fake in computed if reached & _leaves_behind([fake], of_graph)}
    if len(sources) > 1 or asked_inputs != sources.keys():
        for source in sources.values():
            _refuse(name, f"where {source} was computed before the traced call")


def _leaves_behind(tensors: list[Any], of_graph: set[int]) -> set[int]:
    """The leaves in the history of tensors that are no values of the graph, by identity."""
    todo = [tensor.grad_fn for tensor in tensors if isinstance(tensor, torch.Tensor)]
    seen, found = set(todo), set()
    while todo:
        node = todo.pop()
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) not in of_graph:
            found.add(id(variable))
        following = {each for each, _ in getattr(node, "next_functions", ())} - seen
        seen |= following
        todo += following
    return found


def _fakes(tx: Tracer, value: VariableTracker) -> Any:
    """The fakes of tensors in a tuple of tuples, and the constants in it."""
    if isinstance(value, TupleVariable):
        return [_fakes(tx, item) for item in value.unpack(tx)]
    return value.constant() if value.is_constant() else cast("TensorVariable", value).fake


def gradients(tx: Tracer, outputs: VariableTracker, inputs: VariableTracker, *args: Any, **kwargs: Any) -> VariableTracker:
    """torch.autograd.grad"""
    with _through_the_inside():
        return _gradients(tx, outputs, inputs, *args, **kwargs)


def _gradients(tx: Tracer, outputs: VariableTracker, inputs: VariableTracker, *args: Any, **kwargs: Any) -> VariableTracker:
    name = "torch.autograd.grad"
    given = [_tuple(tx, outputs), _tuple(tx, inputs), *args]
    asked = given[1].unpack(tx) if isinstance(given[1], TupleVariable) else given[1:2]
    _require_leaves(tx, name, given[0], asked)
    for tensor in asked:
        _refuse_hooks_of_leaf(tx, name, tensor, _HOOKS[:1])
    result = tx.call_in_graph(torch.autograd.grad, given, kwargs)
    if _kept_on_the_way(tx):
        _refuse(name, "which flows through a tensor that retains its gradient")
    return result


def _tuple(tx: Tracer, value: VariableTracker) -> VariableTracker:
    """A tensor as it is, a sequence of tensors as a tuple."""
    return value if issubclass(value.python_type(), torch.Tensor) else TupleVariable(value.unpack(tx))


def backward(
    tx: Tracer,
    tensors: VariableTracker,
    grad_tensors: VariableTracker = NONE,
    retain_graph: VariableTracker = NONE,
    create_graph: VariableTracker = NONE,
    inputs: VariableTracker = NONE,
) -> VariableTracker:
    """torch.autograd.backward"""
    differentiable = create_graph.truth(tx)
    with _through_the_inside() if differentiable else contextlib.nullcontext():
        return _backward(tx, tensors, grad_tensors, retain_graph, differentiable, inputs)


def _backward(
    tx: Tracer,
    tensors: VariableTracker,
    grad_tensors: VariableTracker,
    retain_graph: VariableTracker,
    differentiable: bool,
    inputs: VariableTracker,
) -> VariableTracker:
    tensors, grad_tensors = (each if each.is_constant() else _tuple(tx, each) for each in (tensors, grad_tensors))
    leaves = _leaves(tx, tensors) if inputs is NONE else _tuple_of_leaves(tx, tensors, inputs)
    used, keeping = _used(tx, tensors, grad_tensors, leaves)
    if not used:
        _refuse("backward", "which reaches no leaf that the trace knows")
    for leaf in used:
        _refuse_hooks(tx, leaf)
    options = {"retain_graph": retain_graph, "create_graph": boolean(differentiable)}
    result = tx.call_in_graph(torch.autograd.grad, [tensors, TupleVariable([*used, *keeping]), grad_tensors], options)
    found = result.unpack(tx)
    for leaf, gradient in zip(used, found):
        _accumulate(tx, leaf, gradient, differentiable)
    for tensor, gradient in zip(keeping, found[len(used) :]):
        _retain(tx, tensor, gradient, differentiable)
    _kept_on_the_way(tx)
    return NONE


def retain_gradient(tx: Tracer, tensor: Any) -> None:
    """tensor.retain_grad() for a non-leaf that the graph makes. Backward passes inside the graph keep its gradient, and the
    output code calls retain_grad() on it after the graph. Gradients do not flow through the results of a compiled graph, so
    there the tensor must not leave the graph."""
    if torch._C._are_functorch_transforms_active():
        _refuse("retain_grad", "under a transform of torch.func")
    tx.effects.mutate(tensor)
    step = tx.break_step() if tensor.hooked_at is None else tensor.hooked_at
    tensor.retained = Retained(step, tx.output.runs_as_written)
    tx.output.run_fake(torch.Tensor.retain_grad, (tensor.fake,), {}, "retain_grad")  # autograd finds out which passes reach it
    tx.trace.retaining.append(tensor)


def _kept_on_the_way(tx: Tracer) -> list[Any]:
    """The tensors that retain their gradients and whose fakes have just received one. The fakes' gradients are reset."""
    found = [tensor for tensor in tx.trace.retaining if tensor.fake.grad is not None]
    for tensor in found:
        if tensor.fake.grad.layout is not torch.strided:
            _refuse("backward", "which gives a sparse gradient")
        if tensor.fake._backward_hooks:  # the retained gradient is the one after the hooks
            step = None if tx.output.runs_as_written or tensor.retained is None else tensor.retained.step
            unsupported("autograd-in-trace", break_step=step, name="backward, to a tensor with hooks that retains its gradient,")
        tensor.fake.grad = None
    return found


def _tuple_of_leaves(tx: Tracer, outputs: VariableTracker, inputs: VariableTracker) -> list[Any]:
    _require_leaves(tx, "backward", outputs)
    given = _tuple(tx, inputs)
    tensors: list[Any] = given.unpack(tx) if isinstance(given, TupleVariable) else [given]
    if not all(is_leaf(tensor.fake) or tensor.is_made_parameter for tensor in tensors):
        _refuse("backward", "with inputs that are not leaves")
    return tensors


def _leaves(tx: Tracer, outputs: VariableTracker) -> list[Any]:
    """All leaves that the region knows: inputs, and those that it made itself."""
    leaves: list[Any] = _require_leaves(tx, "backward", outputs)
    behind = {item.node for source, item in tx.output.inputs.items() if isinstance(source, DrawnTensorSource)}  # parameters
    for node in tx.output.graph.nodes:
        example = node.meta.get(EXAMPLE)
        if not isinstance(example, torch.Tensor) or not example.requires_grad:
            continue
        leaf: Any = tx.output.tracked(example)
        if leaf is not None and leaf.is_made_parameter:
            leaves.append(leaf)
        elif is_leaf(example) and node not in behind:
            if leaf is None:
                _refuse("backward", "to a tensor that is no variable")
            leaves.append(leaf)
    return list(dict.fromkeys(leaves))


def _used(tx: Tracer, tensors: VariableTracker, grad_tensors: VariableTracker, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
    """(the leaves that receive gradients, the intermediate tensors that retain theirs)"""

    args = _fakes(tx, tensors), [leaf.fake for leaf in leaves], _fakes(tx, grad_tensors)
    found = tx.output.run_fake(torch.autograd.grad, args, {"retain_graph": True, "allow_unused": True}, "backward")
    for gradient in found:
        if gradient is not None and gradient.layout is not torch.strided:
            _refuse("backward", "which gives a sparse gradient")
    return [leaf for leaf, gradient in zip(leaves, found) if gradient is not None], _kept_on_the_way(tx)


def _refuse_hooks(tx: Tracer, leaf: Any) -> None:
    if not keeps_layout(leaf.fake):
        _refuse("backward", "to a leaf with gaps in its memory")
    _refuse_hooks_of_leaf(tx, "backward", leaf, _HOOKS)


def _refuse_hooks_of_leaf(tx: Tracer, what: str, leaf: Any, kinds: tuple[str, ...]) -> None:
    """Breaks the graph for a leaf with hooks. A compiler does not know of them, and hooks that the trace itself sets are
    registered only after the graph."""
    if leaf.hooked_at is not None and is_leaf_outside(tx, leaf):
        _refuse(what, "to a leaf with hooks")
    if leaf.source is not None:
        for name in kinds:
            hooks = tx.wrap(getattr(leaf.real(tx), name), GenericAttrSource(leaf.source, name))
            if not hooks.is_constant():
                _refuse(what, "to a leaf with hooks")


def is_leaf_outside(tx: Tracer, tensor: Any) -> bool:
    """Whether a tensor is a leaf that requires a gradient outside of the graph, or will be one."""
    if tensor.source is None or not tensor.fake.requires_grad:
        return bool(tensor.is_made_parameter)
    return bool(tensor.get_attr(tx, "is_leaf").constant())


def _accumulate(tx: Tracer, leaf: Any, gradient: VariableTracker, differentiable: bool) -> None:
    """Adds a gradient to the `grad` of a leaf. `differentiable`: it may be differentiated itself (`create_graph=True`)."""
    before: Any = leaf.get_attr(tx, "grad") if leaf.source is not None else tx.effects.attribute(leaf, "grad")
    if before is None or before.is_constant():
        first = first_gradient_with_history if differentiable else first_gradient
        tx.effects.store_attribute(leaf, "grad", tx.output.call_function(first, (leaf.node, gradient.graph_arg()), {}))
        return
    both = before.graph_arg(), gradient.graph_arg()
    if before.source is not None and before.fake.requires_grad:
        _refuse("backward", "to a leaf whose gradient has a history")
    if differentiable:
        tx.effects.store_attribute(leaf, "grad", tx.output.call_function(sum_of_gradients, both, {}))
    elif before.fake.requires_grad:
        tx.output.call_function(add_to_gradient, both, {})
    else:
        before.call_method(tx, "add_", [gradient], {})


def _retain(tx: Tracer, tensor: Any, gradient: VariableTracker, differentiable: bool) -> None:
    """Adds a gradient to the `grad` of a tensor that is no leaf and retains its gradient."""
    before = tx.effects.attribute(tensor, "grad")
    old = None if before is None or before.is_constant() else before.graph_arg()
    kept = tx.output.call_function(kept_gradient, (old, gradient.graph_arg(), differentiable), {})
    tx.effects.store_attribute(tensor, "grad", kept)
