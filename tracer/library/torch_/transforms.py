"""Models of `torch.func`: vmap, grad, jacrev, jacfwd, hessian, vjp, jvp.

torch's own transform is run on fakes. Where it calls the program's function, that function is traced, with what the transform
passes in, into a graph of its own; the graph around it has one node, which runs the same transform on that graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import func, fx
from torch.utils import _pytree as pytree

from tracer.graph.operations.func_transforms import Cotangents, Transformed, call_transformed, call_vjp, outside_of_modes
from tracer.graph_breaks import unsupported
from tracer.library.structures import argument_of_leaf, containers_of, example_of_leaf, is_value_of_graph, tracked
from tracer.library.subgraphs import Subgraph, argument_of_function, recording, refuse_new_symbols
from tracer.protocol.inlining import transparent
from tracer.protocol.models import code_models, models
from tracer.protocol.variable import VariableTracker
from tracer.sources.functions import CellContentsSource, ClosureCellSource
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.tensors.tensor import TensorVariable, writing

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


class TransformedFunctionVariable(VariableTracker):
    """`torch.vmap(function)` and its like."""

    def __init__(self, transform: str, function: Value, options: dict[str, Any]) -> None:
        self.transform = transform
        self.function = function
        self.options = options

    def describe(self) -> str:
        return f"torch.func.{self.transform}({self.function.describe()})"

    def truth(self, tx: Tracer) -> bool:
        return True

    def children(self) -> tuple[Value, ...]:
        return (self.function,)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name in ("__name__", "__qualname__", "__doc__", "__module__"):
            return self.function.get_attr(tx, name)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return _Application(tx, self).result(args, kwargs)


class _Application:
    """One call of a function under a transform."""

    def __init__(self, tx: Tracer, transformed: TransformedFunctionVariable) -> None:
        self.tx = tx
        self.function = transformed.function
        self.transform = transformed.transform
        self.options = transformed.options
        self.name = f"a function under torch.func.{self.transform}"
        # Of the function: its graph and the structure of its result. There are several calls if vmap works in chunks.
        self.calls: list[tuple[Subgraph, pytree.TreeSpec]] = []
        self.failure: BaseException | None = None  # of tracing the function, where torch may turn it into another error
        self.numbers: dict[int, Value] = {}  # the arguments that are no tensors, by the id of what torch passes for them

    def result(self, args: list[Value], kwargs: dict[str, Value]) -> Value:
        tx = self.tx
        given = tuple(containers_of(tx, arg) for arg in args), {key: containers_of(tx, arg) for key, arg in kwargs.items()}
        leaves, input_spec = pytree.tree_flatten(given)
        examples = [example_of_leaf(leaf) for leaf in leaves]
        self.numbers = {id(example): leaf for example, leaf in zip(examples, leaves) if not isinstance(example, torch.Tensor)}
        transformed = Transformed(self.transform, self.options, input_spec)
        with writing(tx, *[leaf for leaf in leaves if isinstance(leaf, TensorVariable)]):
            structure = self._run(lambda: transformed.apply(self._trace_function, examples))
        if not self.calls:
            unsupported("effect-in-subgraph", name=self.name, value="it is not called")
        for subgraph, _ in self.calls:
            refuse_new_symbols(subgraph, self.name)
        transformed.set_graphs([(subgraph.module, output_spec) for subgraph, output_spec in self.calls])
        module = tx.output.add_module(self.transform, transformed)
        captured = tuple(tuple(subgraph.read) for subgraph, _ in self.calls)
        arguments = (module, captured, *(argument_of_leaf(leaf) for leaf in leaves))
        return self._wrapped(call_transformed, arguments, structure)

    def _wrapped(self, target: Callable[..., Any], arguments: tuple[Any, ...], structure: Any) -> Value:
        """Adds the node of the call, and returns the tracked form of its results."""
        tx = self.tx
        leaves = pytree.tree_leaves(structure)
        node = tx.output.create_node("call_function", target, arguments, {}, leaves)
        items = iter([tx.output.item(node, index, leaf) for index, leaf in enumerate(leaves)])
        result = tracked(tx, structure, lambda leaf: self._leaf(next(items), leaf))
        tx.output.runtime_asserts.place_new()
        return result

    def _leaf(self, item: fx.Node, leaf: Any) -> Value:
        """The tracked form of one leaf of a result; `item` is the node that takes it out of the results."""
        if is_value_of_graph(leaf):
            return self.tx.output.wrap(item, leaf)
        if isinstance(leaf, VariableTracker):
            return leaf
        return _VjpVariable(self, item, leaf) if inspect.isfunction(leaf) else self.tx.literal(leaf)

    def _run(self, call: Callable[[], Any]) -> Any:
        """Runs a call of torch on fakes. It may fail as it would in the program, or because tracing the function failed."""
        try:
            return self.tx.output.world.run(call)
        except Exception as error:
            if self.failure is not None:
                raise self.failure from None
            unsupported("operator-failed-in-trace", operator=self.transform, error=f"{type(error).__name__}: {error}")

    def _trace_function(self, *args: Any, **kwargs: Any) -> Any:
        """The program's function, called by the transform with fakes that it has wrapped."""
        try:
            with outside_of_modes():
                return self._traced(args, kwargs)
        except BaseException as error:
            self.failure = error
            raise

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records the call as a graph of its own and returns its result on fakes.

        Each tensor among the arguments is a node of the surrounding graph until the part is cut out; then it is an input of the
        part, in front of what that reads of the surrounding graph."""
        tx = self.tx
        nodes: list[fx.Node] = []

        def argument(leaf: Any) -> Value:
            if isinstance(leaf, torch.Tensor):
                nodes.append(tx.output.create_node("call_function", argument_of_function, (), {}, leaf))
                return tx.output.wrap(nodes[-1], leaf)
            return leaf if isinstance(leaf, VariableTracker) else self.numbers.get(id(leaf)) or tx.literal(leaf)

        values = tracked(tx, args, argument).unpack(tx)
        by_name = {key: tracked(tx, value, argument) for key, value in kwargs.items()}
        given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        writable = given if self.transform == "vmap" else ()  # other transforms refuse writes to what they are given
        with recording(tx, self.name, [*values, *by_name.values()], writable) as part:
            result = self.function.call(tx, values, by_name)
            structure = containers_of(tx, result)
        leaves, output_spec = pytree.tree_flatten(structure)
        subgraph = part.cut([argument_of_leaf(leaf) for leaf in leaves], nodes)
        del subgraph.read[: len(nodes)]  # the transform passes these itself
        self.calls.append((subgraph, output_spec))
        for node in reversed(nodes):
            tx.output.graph.erase_node(node)
        return pytree.tree_unflatten([example_of_leaf(leaf) for leaf in leaves], output_spec)


class _VjpVariable(VariableTracker):
    """The second result of `torch.func.vjp`: a function of cotangents. `node` is its value in the graph; it exists only while
    the graph runs."""

    def __init__(self, application: _Application, node: fx.Node, function: Callable[..., Any]) -> None:
        self.application = application
        self.node = node
        self.function = function

    def truth(self, tx: Tracer) -> bool:
        return True

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        given = tuple(containers_of(tx, arg) for arg in args), {key: containers_of(tx, arg) for key, arg in kwargs.items()}
        leaves, input_spec = pytree.tree_flatten(given)
        call_args, call_kwargs = pytree.tree_unflatten([example_of_leaf(leaf) for leaf in leaves], input_spec)
        structure = self.application._run(lambda: self.function(*call_args, **call_kwargs))
        cotangents = tx.output.add_module("cotangents", Cotangents(input_spec))
        arguments = (cotangents, self.node, *(argument_of_leaf(leaf) for leaf in leaves))
        return self.application._wrapped(call_vjp, arguments, structure)


transparent(func.functional_call, func.stack_module_state)
transparent(func.stack_module_state.__globals__["construct_stacked_leaf"])  # private to torch


# -- the models ------------------------------------------------------------------------------------------------------------


def _options(tx: Tracer, transform: Callable[..., Any], args: tuple[Value, ...], kwargs: dict[str, Value]) -> dict[str, Any]:
    """The options that the program gave, as plain data."""
    try:
        bound = inspect.signature(transform).bind(None, *args, **kwargs)
    except TypeError as error:
        tx.raise_error(TypeError, str(error))
    chosen = {key: value for key, value in bound.arguments.items() if key != "func"}
    return {key: _plain(tx, value) for key, value in chosen.items()}


def _plain(tx: Tracer, value: Value) -> Any:
    """A structure of constants as plain Python; breaks the graph for other leaves."""
    return pytree.tree_map(lambda leaf: leaf.constant(), containers_of(tx, value))


def _model_of_transform(name: str, transform: Callable[..., Any]) -> Any:
    """The model of a transform that makes a function of a function."""

    def model(tx: Tracer, function: Value, *args: Value, **kwargs: Value) -> Value:
        return TransformedFunctionVariable(name, function, _options(tx, transform, args, kwargs))

    return model


for _name in ("vmap", "grad", "grad_and_value", "jacrev", "jacfwd", "hessian"):
    _transform = getattr(func, _name)
    models.of_plain_tensors(*dict.fromkeys((_transform, getattr(torch, _name, _transform))))(
        _model_of_transform(_name, _transform)
    )


@models.of_plain_tensors(func.vjp)
def _vjp(tx: Tracer, function: Value, *primals: Value, **options: Value) -> Value:
    chosen = {key: _plain(tx, value) for key, value in options.items()}
    return TransformedFunctionVariable("vjp", function, chosen).call(tx, list(primals), {})


@models.of_plain_tensors(func.jvp)
def _jvp(tx: Tracer, function: Value, *args: Value, **kwargs: Value) -> Value:
    bound = inspect.signature(func.jvp).bind(function, *args, **kwargs).arguments
    chosen = {key: _plain(tx, value) for key, value in bound.items() if key in ("strict", "has_aux")}
    return TransformedFunctionVariable("jvp", function, chosen).call(tx, [bound["primals"], bound["tangents"]], {})


@models.of_plain_tensors(func.functionalize)
def _functionalize(tx: Tracer, function: Value, *, remove: Value | None = None) -> Value:
    """The function itself: what it gives, and how it changes its arguments, stays as it is. Without views, results would."""
    if remove is not None and remove.constant() != "mutations":
        unsupported("unsupported-builtin", function="torch.func.functionalize, which removes views,")
    return function


# -- functions that were transformed before the frame ran --------------------------------------------------------------------


def _model_of_transformed(name: str) -> Any:
    """The model of a function that a transform returned before the frame ran. Torch keeps the program's function and the
    options in its cells, under the names of the transform's parameters."""

    def model(tx: Tracer, callee: CallableVariable, *args: Value, **kwargs: Value) -> Value:
        if callee.source is None:
            unsupported("unsupported-call", value=callee.describe())
        cells = {
            cell: tx.wrap(content.cell_contents, CellContentsSource(ClosureCellSource(callee.source, index)))
            for index, (cell, content) in enumerate(zip(callee.value.__code__.co_freevars, callee.value.__closure__))
        }
        chosen = inspect.signature(getattr(func, name)).parameters
        options = {key: _plain(tx, value) for key, value in cells.items() if key in chosen and key != "func"}
        return TransformedFunctionVariable(name, cells["func"], options).call(tx, list(args), kwargs)

    return model


for _name in ("vmap", "grad", "grad_and_value", "jacrev", "jacfwd"):
    code_models(getattr(func, _name)(lambda x: x).__code__)(_model_of_transformed(_name))
