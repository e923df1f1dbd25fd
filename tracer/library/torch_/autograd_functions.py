"""A model of `autograd.Function.apply`: forward is traced through, and, where gradients flow, backward is traced with it."""

from __future__ import annotations

import builtins
import contextlib
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch import fx

from tracer import user_marks
from tracer.compat_torch.facts import apply_of_autograd_functions
from tracer.forwarding import parameters_of
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.operations.autograd_function import Backward, Layout, run_traced_function, run_traced_function_, untraced_apply
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.library.subgraphs import Part, reachable_from, recording, refuse_new_symbols
from tracer.library.torch_.jvp_of_functions import Jvp, without_tangents
from tracer.protocol.models import models
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.functions.autograd_context import FunctionContextVariable
from tracer.variables.tensors.tensor import TensorVariable, writing
from tracer.variables.values.constant import NONE, boolean
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_NO_SETUP = torch.autograd.Function.setup_context
_MOST_UNKNOWN = 3  # gradients that may come or not: backward is traced for each combination


@models.of_plain_tensors(apply_of_autograd_functions())
def _apply(tx: Tracer, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-call", value=cls.describe())
    _refuse_own_rules(cls.value)
    if user_marks.is_allowed(cls.value) and not kwargs:
        return tx.call_in_graph(untraced_apply(cls.value), list(args), {})
    call = _Call(tx, cls, args, kwargs)
    records = torch.is_grad_enabled() and call.needs_gradients
    return call.with_derivatives(records) if records or call.jvp.is_run else call.forward_only()


def _refuse_own_rules(function: Any) -> None:
    """Under transforms of torch.func, refuses a class that has no setup_context, or has a rule of its own for a transform."""
    levels = torch._C._functorch.get_interpreter_stack() or []
    if not levels:
        return
    name = f"{function.__qualname__}.apply under a transform of torch.func"
    if function.setup_context is _NO_SETUP or user_marks.is_allowed(function):
        unsupported("autograd-in-trace", name=f"{name}, without a setup_context,")
    own_rule = not function.generate_vmap_rule or function.vmap is not torch.autograd.Function.vmap
    kinds = [level.key().name for level in levels]  # the outermost one first
    for index, kind in enumerate(kinds):
        is_own = kind == "Vmap" and (own_rule or "Jvp" in kinds[:index])  # torch makes a jvp for the batch, which errs
        if is_own or kind not in ("Vmap", "Grad", "Jvp"):
            unsupported("autograd-in-trace", name=f"{name}, with a rule of its own for {kind},")


def _requires_grad(tensor: torch.Tensor) -> bool:
    """Whether a tensor requires a gradient at any of the levels for which transforms of torch.func have wrapped it."""
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
        needed = TupleVariable([boolean(need) for need in needs])
        self.context = FunctionContextVariable(function._backward_cls, {"needs_input_grad": needed})
        self.jvp = Jvp(tx, cls, self.context, self.inputs)

    def forward_only(self) -> Value:
        with _no_grad(self.tx):
            output = self._forward()
        values, dirty = self._check_outputs(output), self._tensors_kept_as("dirty_tensors")
        self._check_context([value.node if isinstance(value, TensorVariable) else None for value in values])
        if dirty and self.needs_gradients:
            self._refuse("which changes an input that requires a gradient, without grad mode")
        results = [value if getattr(value, "node", None) in dirty else self._as_returned(value) for value in values]
        return TupleVariable(results) if isinstance(output, TupleVariable) else results[0]

    def _as_returned(self, output: Value) -> Value:
        """An output of forward as the call returns it. For an input that is returned, this is a new tensor that shares its
        memory and takes no part in autograd."""
        if not isinstance(output, TensorVariable) or not self._is_input(output):
            return output
        if output.fake.requires_grad:
            return output.call_method(self.tx, "detach", [], {})
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
        """The outputs of forward. Refuses any for which torch's C code would do more than hand it on."""
        outputs = output.unpack(self.tx) if isinstance(output, TupleVariable) else [output]
        for tensor in outputs:
            if isinstance(tensor, TensorVariable) and tensor.fake.requires_grad and not self._is_of_inputs(tensor):
                self._refuse("which returns a tensor that requires a gradient and is neither new nor an input")
        return outputs

    def _is_of_inputs(self, output: TensorVariable) -> bool:
        """Whether an output is an input, or a view of one."""
        return self._is_input(output) or storage_of(output.fake) in set(map(storage_of, self._fakes()))

    def _fakes(self) -> list[torch.Tensor]:
        return [tensor.fake for tensor in self.tensors]

    def _refuse(self, why: str) -> NoReturn:
        unsupported("autograd-in-trace", name=f"{self.name}, {why},")

    # -- where gradients flow ------------------------------------------------------------------------------------

    def with_derivatives(self, records: bool) -> Value:
        """Makes graphs of forward, of backward where autograd `records` the call, and of jvp where an input has a tangent. What
        they read from the program's objects is read now, while tracing."""
        tx, before = self.tx, list(map(_layout_of, self._fakes()))
        with recording(tx, self.name, writable=self._fakes()) as part, torch.no_grad(), without_tangents():  # as in PyTorch
            output = self._forward()
        if before != list(map(_layout_of, self._fakes())):
            self._refuse("which changes the size of an input")
        values = self._check_outputs(output)
        outputs = self._outputs(values, set(part.nodes()))
        jvp = self.jvp.traced(outputs, self._materializes_gradients()) if self.jvp.is_run else None
        backwards = [self._backward(outputs, gradients) for gradients in (self._gradients(outputs) if records else ())]
        saved = self._tensors_kept_as("to_save")
        inside, inputs = set(part.nodes()), _nodes(self.tensors)
        read = [node for each in (*backwards, *([jvp] if jvp else ())) for node in each.read if isinstance(node, fx.Node)]
        needed = dict.fromkeys(node for node in (*saved, *read) if node not in {*inputs, *outputs})
        results = [*outputs, *(node for node in needed if node in inside)]
        forward = part.cut(results, [*inputs, *(node for node in needed if node not in inside)])
        refuse_new_symbols(forward, self.name)
        numbers = {node: index for index, node in reversed(list(enumerate((*forward.read, *results))))}  # inputs come first
        layout = Layout(
            name=self.cls.value.__name__,
            outputs=len(outputs),
            is_tuple=isinstance(output, TupleVariable),
            saved=tuple(numbers[node] for node in saved),
            not_differentiable=tuple(
                outputs.index(node) for node in outputs if node in self._tensors_kept_as("non_differentiable")
            ),
            dirty=tuple(inputs.index(node) for node in self._tensors_kept_as("dirty_tensors")),
            materializes=self._materializes_gradients(),
            backwards=tuple(backward.fields(numbers) for backward in backwards),
            jvp=None if jvp is None else jvp.numbers(numbers),
        )
        written = [tensor for tensor in self.tensors if storage_of(tensor.fake) in part.writes]
        if layout.dirty and not tx.output.runs_as_written:
            self._refuse_inputs_of_the_graph(written)
        if torch._C._are_functorch_transforms_active():
            self._refuse_under_transforms(results, layout, bool(written))
        modules = tuple(tx.output.add_module("backward", backward.module) for backward in backwards)
        captured = tuple(forward.read[len(inputs) :])
        arguments = (tx.output.add_module("forward", forward.module), modules, tuple(layout), captured, tuple(inputs))
        options = {} if jvp is None else {"jvp": tx.output.add_module("jvp", jvp.module)}
        with writing(tx, *written):
            made = tx.output.call_function(run_traced_function_ if written else run_traced_function, arguments, options)
        results = made.unpack(tx) if isinstance(made, TupleVariable) else [made]
        fakes = [result.fake for result in results if isinstance(result, TensorVariable)]
        tx.output.function_views.note(fakes, self._fakes(), tx.break_step())
        if not isinstance(made, TupleVariable):
            return made
        return TupleVariable([value if node is None else new for value, node, new in zip(values, outputs, results)])

    def _outputs(self, values: list[Value], inside: set[fx.Node]) -> list[fx.Node | None]:
        """The nodes of forward's results; None for a result that the graph does not compute, which is returned as it is."""
        outputs: list[fx.Node | None] = []
        for value in values:
            if isinstance(value, TensorVariable):
                if value.node not in inside and not self._is_input(value):
                    self._refuse("which returns a tensor that it has not made")
                outputs.append(value.node)
            elif isinstance(value, SymNodeVariable) and value.node in inside:
                outputs.append(value.node)
            elif any(getattr(held, "node", None) in inside for held in reachable_from(self.tx, [value])):
                self._refuse("which returns computed tensors inside a container")
            else:
                outputs.append(None)
        if not any(isinstance(value, TensorVariable) for value in values):
            self._refuse("which returns no tensor")
        self._check_context(outputs)
        return outputs

    def _check_context(self, outputs: list[fx.Node | None]) -> None:
        """Refuses uses of the context that torch's C code rejects or warns of, so that it can do so."""
        saved = self.context.attributes.get("to_save")
        if saved is not None and not all(isinstance(item, TensorVariable) or item.is_none() for item in saved.unpack(self.tx)):
            self._refuse("which saves values that are not tensors")
        inputs = _nodes(self.tensors)
        saved_nodes = [*self._tensors_kept_as("to_save"), *self._tensors_kept_as("saved_for_forward")]
        if self.separate and any(node in inputs and node in outputs for node in saved_nodes):
            self._refuse("which saves an input that it returns, in setup_context")
        if any(node not in inputs or node not in outputs for node in self._tensors_kept_as("dirty_tensors")):
            self._refuse("which marks a tensor as dirty that is not both an input and an output")

    def _refuse_inputs_of_the_graph(self, written: list[TensorVariable]) -> None:
        """Refuses writes to inputs of the graph: a compiler makes them after it, without the autograd history that the function
        gives the tensors."""
        known = {storage_of(tensor.fake) for tensor in self.tx.trace.input_tensors}
        if any(storage_of(tensor.fake) in known for tensor in written):
            self._refuse("which marks an input of the graph as dirty")

    def _refuse_under_transforms(self, results: list[fx.Node | None], layout: Layout, writes: bool) -> None:
        if not all(node is not None and isinstance(node.meta[EXAMPLE], torch.Tensor) for node in results):
            self._refuse("which keeps a size under a transform of torch.func")
        if writes or layout.dirty or not layout.materializes or any(error for _, _, error in layout.backwards):
            self._refuse("with written inputs or missing gradients under a transform of torch.func")

    def _materializes_gradients(self) -> bool:
        chosen = self.context.attributes.get("materialize_grads")
        return chosen is None or chosen.truth(self.tx)

    def _gradients(self, outputs: list[fx.Node | None]) -> list[tuple[bool, ...]]:
        """The possible sets of outputs for which backward gets gradients, as one flag for each output. There is one set where
        zeros are materialised for missing gradients."""
        tensors = [node is not None and isinstance(node.meta[EXAMPLE], torch.Tensor) for node in outputs]
        if self._materializes_gradients():
            return [tuple(tensors)]
        fixed = self._tensors_kept_as("non_differentiable")
        may_come = [
            (True, False) if is_tensor and node not in fixed and _is_differentiable(node) else (False,)
            for node, is_tensor in zip(outputs, tensors)
        ]
        free = sum(len(choices) - 1 for choices in may_come)
        if free > (_MOST_UNKNOWN if self.tx.output.runs_as_written else 1):  # compilers fill in zeros
            self._refuse("with several results of which any may get no gradient")
        return list(itertools.product(*may_come))

    def _backward(self, outputs: list[fx.Node | None], gradients: tuple[bool, ...]) -> _TracedBackward:
        """Traces backward for one set of `gradients`. Its graph returns the gradient of each input that is a tensor."""
        tx, what = self.tx, f"the backward of {self.name}"
        nodes = {index: self._gradient(node) for index, node in enumerate(outputs) if node is not None and gradients[index]}
        arguments = [TensorVariable(nodes[n], nodes[n].meta[EXAMPLE]) if n in nodes else NONE for n in range(len(outputs))]
        error = None
        for_kernels = [node.meta[EXAMPLE] for node in (*nodes.values(), *self._overwritable())]
        with recording(tx, what, [self.context, *self.inputs], for_kernels=for_kernels) as part, torch.no_grad():
            try:
                with self._context_of_backward(part, what):
                    result = self.cls.get_attr(tx, "backward").call(tx, [self.context, *arguments], {})
            except ObservedException as raised:
                if not tx.output.runs_as_written and gradients == self._gradients(outputs)[0]:  # compilers run it now
                    raise
                result, error = NONE, _error(what, raised.value)
        wanted = [] if error else self._gradients_of_tensors(what, result)
        subgraph = part.cut([None if value.is_none() else value.graph_arg() for value in wanted])
        numbers = {node: -1 - index for index, node in nodes.items()}
        read = tuple(numbers.get(node, node) for node in subgraph.read)
        for node in reversed(nodes.values()):
            tx.output.graph.erase_node(node)
        return _TracedBackward(gradients, read, subgraph.module, error)

    @contextlib.contextmanager
    def _context_of_backward(self, part: Part, what: str) -> Iterator[None]:
        """Within, backward may change its context, unless forward has stored that elsewhere: nothing but another pass can read it
        then. Such a pass runs the same graph, so what backward finds there has to be the same: it may drop an attribute or set
        it to None, to free memory, and add others."""
        before = dict(self.context.attributes)
        try:
            yield
        finally:
            after, self.context.attributes = self.context.attributes, before
        if any(name in before and value is not before[name] and not value.is_none() for name, value in after.items()):
            unsupported("effect-in-subgraph", name=what, value="it changes an attribute of its context")
        others = [value for value in (*self.inputs, *part.known) if value is not self.context]
        if self.context in part.changed and self.context not in reachable_from(self.tx, others):
            del part.changed[self.context]

    def _overwritable(self) -> list[fx.Node]:
        """The saved tensors to which kernels may write in backward, as if they were its own. An input of the graph is none of
        them where that is compiled: AOTAutograd refuses it."""
        saved = self._tensors_kept_as("to_save")
        if self.tx.output.runs_as_written:
            return saved
        known = {storage_of(tensor.fake) for tensor in self.tx.trace.input_tensors}
        return [node for node in saved if storage_of(node.meta[EXAMPLE]) not in known]

    def _gradients_of_tensors(self, what: str, result: Value) -> list[Value]:
        """The gradients of those inputs that are tensors, out of the result of backward. The others must be None."""
        given = result.unpack(self.tx) if isinstance(result, TupleVariable) else [result]
        wrong = [value for value in given[len(self.inputs) :] if not value.is_none()]
        wrong += [v for v, arg in zip(given, self.inputs) if not isinstance(arg, TensorVariable) and not v.is_none()]
        wanted = [value for value, arg in zip(given, self.inputs) if isinstance(arg, TensorVariable)]
        wrong += [value for value in wanted if not isinstance(value, TensorVariable) and not value.is_none()]
        if wrong or len(given) < len(self.inputs):
            unsupported("autograd-in-trace", name=f"{what}, which gives gradients for other inputs,")
        return wanted

    def _gradient(self, result: fx.Node) -> fx.Node:
        """A node that stands for the gradient of a result."""
        example = self.tx.output.run_fake(_like, (result.meta[EXAMPLE],), {}, _like)
        return self.tx.output.create_node("call_function", _like, (result,), {}, example)

    def _tensors_kept_as(self, name: str) -> list[fx.Node]:
        """The tensors that forward gave to its context, by the attribute in which that keeps them: "to_save" for those of
        `save_for_backward`, "dirty_tensors" for those of `mark_dirty`, ..."""
        tensors = self.context.attributes.get(name)
        return [] if tensors is None else _nodes(tensors.unpack(self.tx))


def _like(result: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(result, memory_format=torch.contiguous_format)


def _nodes(values: Iterable[Value]) -> list[fx.Node]:
    """The nodes of tensors; other values, which have none, are left out."""
    return [value.node for value in values if isinstance(value, TensorVariable)]


class _TracedBackward(NamedTuple):
    """The graph of backward for one set of gradients. `read`: the nodes that it reads, and negative numbers for gradients."""

    gradients: tuple[bool, ...]
    read: tuple[fx.Node | int, ...]
    module: fx.GraphModule
    error: tuple[str, str] | None

    def fields(self, numbers: dict[Any, int]) -> tuple[Any, ...]:
        read = tuple(number if isinstance(number, int) else numbers[number] for number in self.read)
        return tuple(Backward(self.gradients, read, self.error))


def _error(what: str, raised: Value) -> tuple[str, str]:
    """The name of the class and the message of an exception; refuses one that a graph cannot raise."""
    cls = raised.python_type()
    args = raised.storage.children() if isinstance(raised, ExceptionVariable) and raised.storage is not None else ()
    args = list(args)
    if getattr(builtins, cls.__name__, None) is not cls or len(args) != 1 or args[0].python_type() is not str:
        unsupported("effect-in-subgraph", name=what, value="it raises")
    return cls.__name__, args[0].constant()


def _layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tuple(tensor.stride())


def _is_differentiable(node: fx.Node) -> bool:
    dtype = node.meta[EXAMPLE].dtype
    return bool(dtype.is_floating_point or dtype.is_complex)


@contextlib.contextmanager
def _no_grad(tx: Tracer) -> Iterator[None]:
    """Within, the program runs without grad mode. An exception of the program restores it; a graph break ends the trace."""
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
    """The arguments of a call of forward in order, with defaults filled in."""
    signature = parameters_of(forward)
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
