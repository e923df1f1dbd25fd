"""Models of torch's higher-order operators, which take functions: `cond`, `while_loop`, `scan`, `map`, `wrap`, `flex_attention`.

torch's wrappers of them (`torch.cond` and so on) are traced through. The functions become graphs. The operator gets these graphs
and the values that they read from the surrounding graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from tracer.errors import TraceAnew, Unsupported
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.guards.identity import IdMatch
from tracer.library.structures import containers_of, tracked
from tracer.library.subgraphs import Subgraph, argument_of_function, rearranged, recording, refuse_new_symbols
from tracer.operators.results import fresh, result_of
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.variables.builders.builder import VariableBuilder, tracks_subclasses
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.symbolic import SymNodeVariable, is_number

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_Argument = TensorVariable | SymNodeVariable
_OPERATORS: Any = torch.ops.higher_order


@tracks_subclasses(torch._ops.HigherOrderOperator)
def _operator(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> Value:
    builder.guard(IdMatch(source, value))
    return CallableVariable(value, source)


class _Body(NamedTuple):
    """A function as a graph, and what it returned."""

    subgraph: Subgraph
    leaves: list[Value]
    output_spec: pytree.TreeSpec

    @property
    def tensors(self) -> list[TensorVariable]:
        return [leaf for leaf in self.leaves if isinstance(leaf, TensorVariable)]

    @property
    def fakes(self) -> list[torch.Tensor]:
        return [tensor.fake for tensor in self.tensors]


class HigherOrderCall:
    """A call of a higher-order operator."""

    def __init__(self, tx: Tracer, operator: Any) -> None:
        self.tx = tx
        self.operator = operator
        self.name = f"a function given to {operator.__name__}"

    def refuse(self, why: str) -> Any:
        unsupported("effect-in-subgraph", name=self.name, value=why)

    def tensors(self, value: Value) -> list[TensorVariable]:
        """The items of a sequence, all of them tensors."""
        items = value.unpack(self.tx)
        tensors = [item for item in items if isinstance(item, TensorVariable)]
        if len(tensors) != len(items):
            self.refuse("it is called with values that are not tensors")
        return tensors

    def argument(self, like: torch.Tensor) -> TensorVariable:
        """A tensor that a function is called with while it is traced. It stands for all tensors of its kind."""
        tx = self.tx
        example = tx.output.run_fake(fresh, (like,), {}, self.name)
        example.requires_grad_(like.requires_grad and torch.is_grad_enabled())
        node = tx.output.create_node("call_function", argument_of_function, (), {}, example)
        tensor = TensorVariable(node, example)
        tx.output.track(example, tensor)
        return tensor

    def number(self) -> SymNodeVariable:
        """An int that a function is called with while it is traced. It stands for all ints."""
        output = self.tx.output
        example = output.world.torch_env.create_unbacked_symint()
        return SymNodeVariable(output.create_node("call_function", argument_of_function, (), {}, example), example)

    def body(
        self,
        function: Value,
        args: Sequence[Value],
        arguments: Sequence[_Argument] = (),
        *,
        makes: bool = True,
        numbers: bool = False,
    ) -> _Body:
        """`function(*args)` as a graph, with `arguments` as its first inputs. With `makes` it must return new tensors only. With
        `numbers` it may also return numbers, and the graph returns everything that the function returns."""
        tx = self.tx
        with recording(tx, self.name, args) as part:
            result = function.call(tx, list(args), {})
            leaves, output_spec = pytree.tree_flatten(containers_of(tx, result))
        tensors = [leaf for leaf in leaves if isinstance(leaf, TensorVariable)]
        if not all(isinstance(leaf, TensorVariable) or leaf.is_constant() or numbers and is_number(leaf) for leaf in leaves):
            self.refuse("it returns values that are neither tensors nor constants")
        if makes:
            self._check_new(part.nodes(), tensors)
        given = leaves if numbers else tensors
        subgraph = part.cut([leaf.graph_arg() for leaf in given], [argument.node for argument in arguments])
        refuse_new_symbols(subgraph, self.name)
        return _Body(subgraph, leaves, output_spec)

    def _check_new(self, made: list[fx.Node], tensors: list[TensorVariable]) -> None:
        nodes, inside = {tensor.node for tensor in tensors}, set(made)
        examples = (node.meta.get(EXAMPLE) for node in self.tx.output.graph.nodes if node not in inside)
        before = {storage_of(example) for example in examples if isinstance(example, torch.Tensor)}
        storages = {storage_of(tensor.fake) for tensor in tensors}
        if len(nodes) != len(tensors) or len(storages) != len(tensors) or not nodes <= inside or storages & before:
            self.refuse("it returns one of its inputs, or shares memory with one")

    def captured(self, bodies: Iterable[_Body], count: int = 0) -> list[fx.Node]:
        """What the functions read besides their first `count` inputs."""
        return list(dict.fromkeys(node for body in bodies for node in body.subgraph.read[count:]))

    def module(
        self,
        name: str,
        body: _Body,
        captured: Sequence[fx.Node],
        arguments: Sequence[_Argument] = (),
        *,
        single: bool = False,
    ) -> fx.Node:
        """The node of a function's graph, which takes `arguments`, then all of `captured`. It returns a tuple or, with `single`,
        one value."""
        if single and len(body.leaves) != 1:
            self.refuse("it does not return one value")
        read = [*(argument.node for argument in arguments), *captured]
        module = rearranged(body.subgraph, read, single=single)
        _note_operator(module, (self.operator.__name__, self.operator))
        return self.tx.output.add_module(name, module)

    def forget(self, arguments: Sequence[_Argument]) -> None:
        self.tx.output.forget_symbol_nodes({argument.node for argument in arguments})
        for argument in reversed(arguments):
            self.tx.output.graph.erase_node(argument.node)

    def result(
        self,
        operator: Any,
        args: tuple[Any, ...],
        likes: Sequence[Any],
        read: Iterable[fx.Node],
        differentiable: int | None = None,
    ) -> list[Value]:
        """Adds the operator's node and returns its results. The first `differentiable` of them, or all, depend on the tensors in
        `read`. A result that is like `int` is a new symbol."""
        tx = self.tx
        fakes = [node.meta[EXAMPLE] for node in read]
        tensors = [fake for fake in fakes if isinstance(fake, torch.Tensor)]
        sources = [tensors if differentiable is None or index < differentiable else [] for index in range(len(likes))]
        examples = tuple(self._result_like(*pair) for pair in zip(likes, sources))
        node = tx.output.create_node("call_function", operator, args, {}, examples)
        return [tx.output.wrap(tx.output.item(node, index, example), example) for index, example in enumerate(examples)]

    def _result_like(self, like: Any, sources: list[torch.Tensor]) -> Any:
        if like is int:
            return self.tx.output.world.torch_env.create_unbacked_symint()
        return self.tx.output.run_fake(result_of, (like, sources), {}, self.name)

    def like(self, body: _Body, results: Iterable[Value]) -> Value:
        """What the function returned, with `results` in place of its tensors."""
        given = iter(results)
        leaves = [next(given) if isinstance(leaf, TensorVariable) else leaf for leaf in body.leaves]
        return tracked(self.tx, pytree.tree_unflatten(leaves, body.output_spec), lambda leaf: leaf)

    def check_alike(self, fakes: Sequence[torch.Tensor], others: Sequence[torch.Tensor], what: str) -> None:
        if list(map(_kind, fakes)) != list(map(_kind, others)):
            self.refuse(f"it returns other kinds of tensors than {what}")


def _note_operator(module: fx.GraphModule, operator: tuple[str, Any]) -> None:
    """Puts the operator first in the `source_fn_stack` of each node, which lists the operators whose functions hold the node."""
    for inner in module.modules():
        for node in inner.graph.nodes if isinstance(inner, fx.GraphModule) else ():
            if "source_fn_stack" in node.meta:
                node.meta["source_fn_stack"] = [operator, *node.meta["source_fn_stack"]]


def _kind(fake: torch.Tensor) -> tuple[Any, ...]:
    """What has to be equal in corresponding results of the functions that an operator is given."""
    return fake.dtype, fake.device, fake.layout, *fake.shape, *fake.stride()


@models.of_plain_tensors(_OPERATORS.cond)
def _cond(tx: Tracer, pred: Value, true_fn: Value, false_fn: Value, operands: Value) -> Value:
    if isinstance(pred, TensorVariable):
        return _cond_in_graph(tx, pred, true_fn, false_fn, operands.unpack(tx))
    if not _is_open(pred) or not tx.trace.options.keeps_branches:
        return (true_fn if pred.truth(tx) else false_fn).call(tx, operands.unpack(tx), {})
    try:
        return _cond_in_graph(tx, pred, true_fn, false_fn, operands.unpack(tx))
    except Unsupported:  # the branch that this call takes may be captured by itself
        raise TraceAnew from None


def _cond_in_graph(tx: Tracer, pred: Value, true_fn: Value, false_fn: Value, args: list[Value]) -> Value:
    call = HigherOrderCall(tx, _OPERATORS.cond)
    if isinstance(pred, TensorVariable) and pred.fake.numel() != 1:
        call.refuse("the condition has more than one element")
    bodies = [call.body(function, args) for function in (true_fn, false_fn)]
    call.check_alike(bodies[0].fakes, bodies[1].fakes, "the other branch")
    if bodies[0].output_spec != bodies[1].output_spec or _constants(bodies[0]) != _constants(bodies[1]):
        call.refuse("its two branches return different structures")
    read, condition = call.captured(bodies), tx.as_graph_arg(pred)
    modules = [call.module(name, body, read) for name, body in zip(("cond_true", "cond_false"), bodies)]
    results = call.result(_OPERATORS.cond, (condition, *modules, tuple(read)), bodies[0].fakes, [condition, *read])
    return call.like(bodies[0], results)


def _is_open(pred: Value) -> TypeGuard[SymNodeVariable]:
    """Whether a condition on sizes has no answer that holds for all of them."""
    if not isinstance(pred, SymNodeVariable) or not isinstance(pred.example, torch.SymBool):
        return False
    node: Any = pred.example.node
    return node.shape_env.env.statically_known(node.value) is None


def _constants(body: _Body) -> list[Any]:
    return [None if isinstance(leaf, TensorVariable) else (type(leaf.constant()), leaf.constant()) for leaf in body.leaves]


@models.of_plain_tensors(_OPERATORS.while_loop)
def _while_loop(tx: Tracer, cond_fn: Value, body_fn: Value, carried: Value, additional: Value) -> Value:
    """Ints that the loop carries are symbols inside it, and new symbols after it."""
    call = HigherOrderCall(tx, _OPERATORS.while_loop)
    before, others = carried.unpack(tx), additional.unpack(tx)
    arguments = [_loop_argument(call, value) for value in before]
    bodies = [call.body(function, [*arguments, *others], arguments, numbers=True) for function in (cond_fn, body_fn)]
    if len(bodies[0].leaves) != 1 or not _is_condition(bodies[0].leaves[0]):
        call.refuse("its condition is neither a bool nor a tensor of one bool")
    if list(map(_kind_of, bodies[1].leaves)) != list(map(_kind_of, before)):
        call.refuse("it returns values of other kinds than its arguments")
    given = tuple(value.graph_arg() for value in before)
    nodes = [node for node in given if isinstance(node, fx.Node)]
    read = call.captured(bodies, len(arguments))
    cond_module = call.module("cond_fn", bodies[0], read, arguments, single=True)
    body_module = call.module("body_fn", bodies[1], read, arguments)
    call.forget(arguments)
    likes = [_example(leaf) for leaf in bodies[1].leaves]
    results = call.result(_OPERATORS.while_loop, (cond_module, body_module, given, tuple(read)), likes, [*nodes, *read])
    return tracked(tx, pytree.tree_unflatten(results, bodies[1].output_spec), lambda leaf: leaf)


def _loop_argument(call: HigherOrderCall, value: Value) -> _Argument:
    """What the functions of a loop are traced with for a value that each turn passes to the next."""
    if isinstance(value, TensorVariable):
        return call.argument(value.fake)
    if value.python_type() is not int or not is_number(value):
        call.refuse("it is called with values that are neither tensors nor ints")
    if call.tx.output.options.loops_carry_only_tensors:
        call.refuse("it is called with an int, which the backend cannot compile")
    return call.number()


def _is_condition(value: Value) -> bool:
    if isinstance(value, TensorVariable):
        return value.fake.dtype is torch.bool and not value.fake.dim()
    return isinstance(value, SymNodeVariable) and value.python_type() is bool


def _kind_of(value: Value) -> Any:
    return _kind(value.fake) if isinstance(value, TensorVariable) else value.python_type()


def _example(value: Value) -> Any:
    return value.fake if isinstance(value, TensorVariable) else int


@models.of_plain_tensors(_OPERATORS.scan)
def _scan(tx: Tracer, combine_fn: Value, init: Value, xs: Value, additional_inputs: Value) -> Value:
    call = HigherOrderCall(tx, _OPERATORS.scan)
    carry, stacked, others = call.tensors(init), call.tensors(xs), additional_inputs.unpack(tx)
    arguments = [*map(call.argument, (tensor.fake for tensor in carry)), *_slices(call, stacked)]
    body = call.body(combine_fn, [*arguments, *others], arguments)
    if len(body.tensors) != len(body.leaves):
        call.refuse("it returns values that are not tensors")
    last, steps = body.fakes[: len(carry)], body.fakes[len(carry) :]
    call.check_alike(last, [tensor.fake for tensor in carry], "it carries")
    read = call.captured([body], len(arguments))
    module = call.module("combine_fn", body, read, arguments)
    call.forget(arguments)
    nodes = [tuple(tensor.node for tensor in tensors) for tensors in (carry, stacked)]
    likes = [*last, *(_stacked(call, step, stacked[0].fake.shape[0]) for step in steps)]
    return call.like(body, call.result(_OPERATORS.scan, (module, *nodes, tuple(read)), likes, [*nodes[0], *nodes[1], *read]))


@models.of_plain_tensors(_OPERATORS.associative_scan)
def _associative_scan(tx: Tracer, combine_fn: Value, xs: Value, additional_inputs: Value) -> Value:
    """The operator calls its function with many pairs of slices at once: it may only compute element by element."""
    call = HigherOrderCall(tx, _OPERATORS.associative_scan)
    stacked, others = call.tensors(xs), additional_inputs.unpack(tx)
    arguments = [*_slices(call, stacked, copied=True), *_slices(call, stacked, copied=True)]
    body = call.body(combine_fn, [*arguments, *others], arguments)
    call.check_alike(body.fakes, [argument.fake for argument in arguments[: len(stacked)]], "it combines")
    read = call.captured([body], len(arguments))
    module = call.module("combine_fn", body, read, arguments)
    call.forget(arguments)
    nodes = [tensor.node for tensor in stacked]
    likes = [_stacked(call, step, stacked[0].fake.shape[0]) for step in body.fakes]
    return call.like(body, call.result(_OPERATORS.associative_scan, (module, nodes, tuple(read)), likes, [*nodes, *read]))


@models.of_plain_tensors(_OPERATORS.map_impl)
def _map(tx: Tracer, function: Value, xs: Value, pos_args: Value) -> Value:
    call = HigherOrderCall(tx, _OPERATORS.map_impl)
    stacked, others = call.tensors(xs), pos_args.unpack(tx)
    arguments = _slices(call, stacked)
    body = call.body(function, [*arguments, *others], arguments)
    read = call.captured([body], len(arguments))
    module = call.module("map_body", body, read, arguments)
    call.forget(arguments)
    nodes = tuple(tensor.node for tensor in stacked)
    likes = [_stacked(call, step, stacked[0].fake.shape[0]) for step in body.fakes]
    return call.like(body, call.result(_OPERATORS.map_impl, (module, nodes, tuple(read)), likes, [*nodes, *read]))


def _slices(call: HigherOrderCall, stacked: Iterable[TensorVariable], copied: bool = False) -> list[TensorVariable]:
    def first(tensor: torch.Tensor) -> torch.Tensor:
        chosen = tensor.select(0, 0)
        return chosen.contiguous() if copied else chosen

    run = call.tx.output.run_fake
    return [call.argument(run(first, (tensor.fake,), {}, call.name)) for tensor in stacked]


def _stacked(call: HigherOrderCall, step: torch.Tensor, length: Any) -> torch.Tensor:
    def stack(step: torch.Tensor) -> torch.Tensor:
        return step.new_empty((length, *step.shape))

    return call.tx.output.run_fake(stack, (step,), {}, call.name)


@models.of_plain_tensors(_OPERATORS.out_dtype)
def _out_dtype(tx: Tracer, operator: Value, dtype: Value, *args: Value) -> Value:
    """Runs an ATen operator with another dtype for its result: the graph gets the operator and the dtype as they are."""
    given = operator.identity(), dtype.constant(), *(tx.as_graph_arg(arg) for arg in args)
    example = tx.output.run_fake(_converted, map_arg(given, lambda node: node.meta[EXAMPLE]), {}, _OPERATORS.out_dtype)
    return tx.output.wrap(tx.output.create_node("call_function", _OPERATORS.out_dtype, given, {}, example), example)


def _converted(operator: Any, dtype: torch.dtype, *args: Any) -> torch.Tensor:
    return operator(*args).to(dtype)


@models.of_plain_tensors(_OPERATORS.wrap)
def _wrap(tx: Tracer, function: Value, *args: Value, **kwargs: Value) -> Value:
    call = HigherOrderCall(tx, _OPERATORS.wrap)
    bound = _Bound(function, kwargs)
    body = call.body(bound, args, makes=False)
    read = call.captured([body])
    module = call.module("wrap_body", body, read)
    node = tx.output.create_node("call_function", _OPERATORS.wrap, (module, *read), {}, tuple(body.fakes))
    outer = set(read)
    return call.like(
        body,
        [
            tensor if tensor.node in outer else _replaced(tx, tx.output.item(node, index, tensor.fake), tensor)
            for index, tensor in enumerate(body.tensors)
        ],
    )


def _replaced(tx: Tracer, node: fx.Node, tensor: TensorVariable) -> TensorVariable:
    """A tensor that a part made, now as the result of another node."""
    made = TensorVariable(node, tensor.fake, None, tensor.cls)
    tx.output.track(tensor.fake, made)
    return made


class _Bound(VariableTracker):
    """A function with its keyword arguments."""

    def __init__(self, function: Value, kwargs: dict[str, Value]) -> None:
        self.function = function
        self.kwargs = kwargs

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call(tx, args, {**self.kwargs, **kwargs})
