"""A model of `autograd.Function.apply`: forward is traced through, and, where gradients flow, backward is traced with it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer import user_marks
from tracer.graph.fake_tensors import storage_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph.traced_function import Layout, applied, run_traced_function
from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.library.subgraphs import Subgraph, recording, refuse_new_symbols
from tracer.variables.base import ObservedException, VariableTracker
from tracer.variables.classes import ClassVariable
from tracer.variables.constant import boolean
from tracer.variables.function_context import FunctionContextVariable
from tracer.variables.tensor import TensorVariable
from tracer.variables.tuples import TupleVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker
_APPLY: Any = torch.autograd.Function.apply
_NO_SETUP = torch.autograd.Function.setup_context


@models(_APPLY.__func__)
def _apply(tx: Tracer, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-call", value=cls.describe())
    _refuse_own_rules(cls.value)
    if user_marks.is_allowed(cls.value) and not kwargs:
        return tx.call_in_graph(applied(cls.value), list(args), {})
    call = _Call(tx, cls, args, kwargs)
    return call.with_backward() if torch.is_grad_enabled() and call.needs_gradients else call.forward_only()


def _refuse_own_rules(function: Any) -> None:
    """Transforms of torch.func take forward and backward apart, unless the class has other rules for them."""
    levels = torch._C._functorch.get_interpreter_stack() or []
    if not levels:
        return
    name = f"{function.__qualname__}.apply under a transform of torch.func"
    if function.setup_context is _NO_SETUP or user_marks.is_allowed(function):
        unsupported("autograd-in-trace", name=f"{name}, without a setup_context,")
    own_rule = not function.generate_vmap_rule or function.vmap is not torch.autograd.Function.vmap
    for kind in {level.key().name for level in levels}:
        if kind == "Vmap" and own_rule or kind not in ("Vmap", "Grad"):
            unsupported("autograd-in-trace", name=f"{name}, with a rule of its own for {kind},")


def _requires_grad(tensor: torch.Tensor) -> bool:
    """At any of the levels that transforms of torch.func have wrapped it for."""
    while not tensor.requires_grad:
        if not torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return False
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return True


class _Call:
    """One call of `apply`."""

    def __init__(self, tx: Tracer, cls: ClassVariable, args: tuple[Value, ...], kwargs: dict[str, Value]) -> None:
        self.tx, self.cls = tx, cls
        function: Any = cls.value
        self.name = f"{function.__qualname__}.apply"
        self.separate = function.setup_context is not _NO_SETUP
        if kwargs and not self.separate:
            unsupported("call-arguments", error=f"{self.name} takes keywords only where setup_context is defined")
        self.inputs = _bound(tx, function.forward, args, kwargs) if self.separate else list(args)
        self.tensors = [arg for arg in self.inputs if isinstance(arg, TensorVariable)]
        needs = [isinstance(arg, TensorVariable) and _requires_grad(arg.fake) for arg in self.inputs]
        self.needs_gradients = any(needs)
        told = TupleVariable([boolean(need) for need in needs])
        self.context = FunctionContextVariable(function._backward_cls, {"needs_input_grad": told})

    def forward_only(self) -> Value:
        with _no_grad(self.tx):
            output = self._forward()
        results = [self._handed_on(value) for value in self._check_outputs(output)]
        return TupleVariable(results) if isinstance(output, TupleVariable) else results[0]

    def _handed_on(self, output: Value) -> Value:
        """An input that forward returns comes out as a view of it, which takes no part in autograd here."""
        if not isinstance(output, TensorVariable) or not self._is_input(output):
            return output
        with _no_grad(self.tx):
            return output.call_method(self.tx, "view_as", [output], {})

    def _is_input(self, output: TensorVariable) -> bool:
        return any(output.fake is known.fake for known in self.tensors)

    def _forward(self) -> Value:
        forward = self.cls.get_attr(self.tx, "forward")
        if not self.separate:
            return forward.call(self.tx, [self.context, *self.inputs], {})
        output = forward.call(self.tx, self.inputs, {})
        setup = self.cls.get_attr(self.tx, "setup_context")
        setup.call(self.tx, [self.context, TupleVariable(self.inputs), output], {})
        return output

    def _check_outputs(self, output: Value) -> list[Value]:
        """What C would do more than hand the result on is left to it."""
        outputs = output.unpack(self.tx) if isinstance(output, TupleVariable) else [output]
        for tensor in outputs:
            if isinstance(tensor, TensorVariable):
                made = tensor.fake.requires_grad and not self._is_input(tensor)
                if made or "dirty_tensors" in self.context.attributes:
                    unsupported("autograd-in-trace", name=f"{self.name}, which returns something special or changes an input,")
        return outputs

    # -- where gradients flow ------------------------------------------------------------------------------------

    def with_backward(self) -> Value:
        """Forward and backward become graphs of their own. What backward reads of the program's objects is read now."""
        tx = self.tx
        with recording(tx, self.name) as part, torch.no_grad():  # as PyTorch runs both; the graphs have no node for it
            output = self._forward()
        outputs = self._differentiable(output)
        gradients = [self._gradient(tensor) for tensor in outputs]
        backward = self._backward(gradients)
        saved = self._told("to_save")
        inside, inputs = set(part.nodes()), _nodes(self.tensors)
        needed = dict.fromkeys(node for node in (*saved, *backward.read) if node not in {*inputs, *outputs, *gradients})
        results = [*outputs, *(node for node in needed if node in inside)]
        forward = part.cut(results, [*inputs, *(node for node in needed if node not in inside)])
        refuse_new_symbols(forward, self.name)
        numbers = {node: index for index, node in reversed(list(enumerate((*forward.read, *results))))}  # inputs come first
        numbers |= {node: -1 - index for index, node in enumerate(gradients)}
        layout = Layout(
            name=self.cls.value.__name__,
            outputs=len(outputs),
            is_tuple=isinstance(output, TupleVariable),
            saved=tuple(numbers[node] for node in saved),
            read=tuple(numbers[node] for node in backward.read),
            not_differentiable=tuple(outputs.index(node) for node in outputs if node in self._told("non_differentiable")),
        )
        if torch._C._are_functorch_transforms_active() and not all(isinstance(n.meta[EXAMPLE], torch.Tensor) for n in results):
            unsupported("autograd-in-trace", name=f"{self.name}, which keeps a size under a transform of torch.func,")
        modules = tx.output.add_module("forward", forward.module), tx.output.add_module("backward", backward.module)
        captured = tuple(forward.read[len(inputs) :])
        return tx.output.call_function(run_traced_function, (*modules, tuple(layout), captured, tuple(inputs)), {})

    def _differentiable(self, output: Value) -> list[fx.Node]:
        """The nodes of forward's results, where they are new tensors or inputs, which PyTorch makes views of."""
        storages = {storage_of(tensor.fake) for tensor in self.tensors}
        tensors = self._check_outputs(output)
        for tensor in tensors:
            if isinstance(tensor, TensorVariable) and self._is_input(tensor):
                continue
            if not isinstance(tensor, TensorVariable) or storage_of(tensor.fake) in storages:
                unsupported("autograd-in-trace", name=f"{self.name}, which returns something else than new tensors,")
        nodes = _nodes(tensors)
        if len(set(nodes)) != len(nodes) or not self._materializes_gradients():
            unsupported("autograd-in-trace", name=f"{self.name} with results or gradients of a special kind")
        return nodes

    def _materializes_gradients(self) -> bool:
        chosen = self.context.attributes.get("materialize_grads")
        return chosen is None or chosen.truth(self.tx)

    def _gradient(self, result: fx.Node) -> fx.Node:
        """A node in place of the gradient of a result."""
        example = self.tx.output.run_fake(_like, (result.meta[EXAMPLE],), {}, _like)
        return self.tx.output.create_node("call_function", _like, (result,), {}, example)

    def _backward(self, gradients: list[fx.Node]) -> Subgraph:
        """The graph of backward, which gives the gradient of each input that is a tensor."""
        tx, what = self.tx, f"the backward of {self.name}"
        arguments = [self.context, *(TensorVariable(node, node.meta[EXAMPLE]) for node in gradients)]
        with recording(tx, what, [self.context, *self.inputs]) as part, torch.no_grad():
            result = self.cls.get_attr(tx, "backward").call(tx, arguments, {})
        given = result.unpack(tx) if isinstance(result, TupleVariable) else [result]
        wrong = [value for value in given[len(self.inputs) :] if not value.is_none()]
        wrong += [v for v, arg in zip(given, self.inputs) if not isinstance(arg, TensorVariable) and not v.is_none()]
        if wrong or len(given) < len(self.inputs):
            unsupported("autograd-in-trace", name=f"{what}, which gives gradients for other inputs,")
        wanted = [value for value, arg in zip(given, self.inputs) if isinstance(arg, TensorVariable)]
        subgraph = part.cut([None if value.is_none() else value.graph_arg() for value in wanted])
        for gradient in reversed(gradients):
            tx.output.graph.erase_node(gradient)
        return subgraph

    def _told(self, name: str) -> list[fx.Node]:
        """The tensors that forward gave to a method of its context, which keeps them under this name."""
        tensors = self.context.attributes.get(name)
        return [] if tensors is None else _nodes(tensors.unpack(self.tx))


def _like(result: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(result, memory_format=torch.contiguous_format)


def _nodes(values: Iterable[Value]) -> list[fx.Node]:
    """The nodes of tensors; other values, which have none, are left out."""
    return [value.node for value in values if isinstance(value, TensorVariable)]


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
