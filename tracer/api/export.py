"""`export(fn)(*args)`: one call as one GraphModule that is called as `fn` is, and the guards that it assumes.

The call runs once, as a graph. Each input of that graph has to be a leaf of the arguments, or becomes a parameter, buffer or
constant of the exported module. Each returned value has to be an output of the graph or such an input. Anything else is a
UserError.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from tracer.api.callables import compiled, original_of
from tracer.api.settings import Settings
from tracer.backends.registry import RUNS_AS_WRITTEN, LazyCompiler
from tracer.exc import UserError
from tracer.forwarding import parameters_of
from tracer.user_marks import DIMS, DimMark, dim_marks, temporarily_marked

if TYPE_CHECKING:
    from tracer.guards.base import Guard

Lowering = Callable[[fx.GraphModule, list[Any]], Any]
_TO_ATEN = LazyCompiler("aten_operators", "tracer.backends.aten_operators")


@dataclasses.dataclass
class ExportResult:
    """Unpacks to (graph_module, guards)."""

    graph_module: fx.GraphModule
    guards: list[Guard]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.graph_module, self.guards))

    def __getitem__(self, index: int) -> Any:
        return (self.graph_module, self.guards)[index]


def export(
    fn: Callable[..., Any],
    *,
    dynamic_shapes: Any = None,
    dynamic: bool = False,
    aten_graph: bool = False,
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    pre_dispatch: bool = False,
) -> Callable[..., ExportResult]:
    """A function that takes fn's arguments, runs it once, and returns an `ExportResult`.

    `dynamic_shapes` names the dims that vary, per parameter of fn: {"x": {0: Dim("batch")}}, nested as the arguments are.
    `Dim.AUTO` may vary, `Dim.DYNAMIC` has to, `Dim.STATIC` and numbers stay; with `dynamic`, each that is not named may
    vary. The result's guards are all that it assumes. With `aten_graph` the graph consists of ATen's operators: those of
    `decomposition_table` are written as it says, and with `pre_dispatch` they are the ones above autograd. The values of
    tensors that the call writes to are put back.
    Raises Unsupported where the graph would break, and UserError for what one graph cannot hold: a change of the program's
    objects, and inputs and outputs that are neither arguments, parameters nor results of the graph.

    ```python
    module, guards = tracer.export(lambda x: x.sum(0), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})(torch.ones(3, 4))
    assert torch.equal(module(torch.ones(5, 4)), torch.full((4,), 5.0))
    ```
    """
    if (decomposition_table or pre_dispatch) and not aten_graph:
        raise UserError(
            "decomposition_table and pre_dispatch are for graphs of ATen operators", hint="pass aten_graph=True, too."
        )
    lowering = functools.partial(_TO_ATEN, decompositions=decomposition_table, pre_dispatch=pre_dispatch)

    def exported(*args: Any, **kwargs: Any) -> ExportResult:
        call = _Call(original_of(fn), args, kwargs, lowering if aten_graph else None)
        with call.marked(dynamic_shapes, dynamic):
            result = call.run()
        return ExportResult(_Assembly(call).module(result), call.guards)

    return exported


class _Call:
    """One call, and the inputs and outputs of its graph."""

    def __init__(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], lowering: Lowering | None) -> None:
        self.fn = fn
        self.lowering = lowering
        self.args = args
        self.kwargs = kwargs
        self.leaves, self.in_spec = pytree.tree_flatten((args, kwargs))
        self.graph: fx.GraphModule | None = None
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.sources: list[str] = []
        self.guards: list[Guard] = []
        signature = parameters_of(fn.forward if isinstance(fn, torch.nn.Module) else fn)
        self.bound: Mapping[str, Any] = signature.bind(*args, **kwargs).arguments
        self.names = _argument_names(signature, len(args), kwargs)

    @contextlib.contextmanager
    def marked(self, dynamic_shapes: Any, dynamic: bool) -> Iterator[None]:
        """Within, the dims named by `dynamic_shapes` are marked so; with `dynamic`, all other dims as maybe dynamic."""
        named = {} if dynamic_shapes is None else dynamic_shapes
        if not isinstance(named, Mapping):
            named = dict(zip(self.bound, named, strict=True))
        unknown = [name for name in named if name not in self.bound]
        if unknown:
            raise UserError(
                f"dynamic_shapes names {unknown[0]!r}, which is not an argument", hint=f"the arguments are {list(self.bound)}."
            )
        with contextlib.ExitStack() as marks:
            for tensor in self._tensors() if dynamic else ():
                any_size = dict.fromkeys(range(tensor.dim()), DimMark("maybe_dynamic"))
                marks.enter_context(temporarily_marked(tensor, {**any_size, **dim_marks(tensor)}))
            for name, dims in named.items():
                for tensor, found in _marks(self.bound[name], dims):
                    marks.enter_context(temporarily_marked(tensor, found))
            yield

    def _tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments, each once."""
        return list({id(leaf): leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)}.values())

    def run(self) -> Any:
        def keep(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
            self.graph = graph = gm if self.lowering is None else self.lowering(gm, example_inputs)
            written = [_is_written(example) for example in example_inputs]

            def run_graph(*inputs: Any) -> Any:
                self.inputs = list(inputs)
                before = [(value, value.detach().clone()) for value, changes in zip(inputs, written) if changes]
                self.outputs = list(graph.forward(*inputs))
                with torch.no_grad():
                    for tensor, copy in before:
                        tensor.copy_(copy)
                return self.outputs

            return run_graph

        setattr(keep, RUNS_AS_WRITTEN, True)
        hooks: dict[str, Callable[..., Any]] = {
            "on_guards": lambda manager: self.guards.extend(manager.guards),
            "on_inputs": self._note_inputs,
            "on_not_traced": _refuse,
        }
        settings = Settings(backend=keep, fullgraph=True, name="export", hooks=hooks)
        return compiled(self.fn, settings)(*self.args, **self.kwargs)

    def _note_inputs(self, sources: list[str], changed: list[str]) -> None:
        if changed:
            raise UserError(
                f"the call changes {changed[0]}, and an exported graph has no side effects",
                hint="return the new value in place of that, or leave the line out of the exported function.",
            )
        self.sources = sources


def _is_written(example: Any) -> bool:
    """Whether the call writes to the memory of an input of its graph."""
    if not isinstance(example, torch.Tensor) or example.layout is not torch.strided:
        return False
    mode = getattr(example, "fake_mode", None)  # a wrapper around other tensors has none
    return mode is not None and example.untyped_storage()._cdata in mode.written_storages


def _refuse() -> None:
    hint = "call export outside of dispatch modes, torch-function modes and transforms of torch.func."
    raise UserError("the call cannot be traced here", hint=hint)


def _argument_names(signature: inspect.Signature, positional: int, keywords: Iterable[str]) -> list[str]:
    """The names of the exported module's parameters: those that the function has for the arguments of the call."""
    parameters = signature.parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "arg")
    names = [names[i] if i < len(names) else f"{rest}_{i - len(names)}" for i in range(positional)]
    return [*names, *keywords]


def _marks(value: Any, dims: Any) -> Iterator[tuple[torch.Tensor, dict[int, DimMark]]]:
    """The tensors in an argument, each with the marks that `dims`, nested as the argument is, asks for."""
    if dims is None:
        return
    if isinstance(value, torch.Tensor):
        pairs = dims.items() if isinstance(dims, Mapping) else enumerate(dims)
        found = {dim % value.dim(): _mark_of(chosen) for dim, chosen in pairs if chosen is not None}
        yield value, found
        return
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    inner = dims if isinstance(dims, Mapping) else dict(enumerate(dims))
    for key, item in items:
        yield from _marks(item, inner.get(key))


def _mark_of(chosen: Any) -> DimMark:
    """The mark for a number (static), a hint (`Dim.AUTO`, `Dim.DYNAMIC`, `Dim.STATIC`) or a `Dim`."""
    kind = getattr(getattr(chosen, "type", None), "name", None)
    if isinstance(chosen, int) or kind == "STATIC":
        return DimMark("static")
    if kind == "AUTO":
        return DimMark("maybe_dynamic")
    low, high = getattr(chosen, "min", None), getattr(chosen, "max", None)
    return DimMark("dynamic", low, high if isinstance(high, int) and high < 2**62 else None)


class _Assembly:
    """Builds the exported module: a graph from the leaves of the arguments to the leaves of the result."""

    def __init__(self, call: _Call) -> None:
        self.call = call
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self.placeholders = [self.graph.placeholder(f"leaf{index}") for index in range(len(call.leaves))]
        self._of_leaf = {id(leaf): node for leaf, node in zip(call.leaves, self.placeholders) if not _is_number(leaf)}
        self._of_path = dict(self._paths())
        self._attributes: dict[int, fx.Node] = {}
        self._made: dict[str, torch.Tensor] = {}
        self.module_of_call = module = call.fn if isinstance(call.fn, torch.nn.Module) else getattr(call.fn, "__self__", None)
        named = [] if not isinstance(module, torch.nn.Module) else [*module.named_parameters(), *module.named_buffers()]
        self._names = {id(tensor): name for name, tensor in named}

    def module(self, result: Any) -> fx.GraphModule:
        values: dict[fx.Node, Any] = {}
        outputs: list[Any] = []
        gm = self.call.graph
        if gm is not None and self.call.sources:
            self._bind_inputs(gm, values)
        if gm is not None:
            for node in gm.graph.nodes:
                if node.op == "output":
                    outputs = [values[item] if isinstance(item, fx.Node) else item for item in node.args[0]]
                elif node.op != "placeholder":
                    values[node] = self.graph.node_copy(node, lambda item: values[item])
                    values[node].meta = _meta(node)
                    if node.op == "get_attr":
                        self._adopt(gm, str(node.target))
        leaves, out_spec = pytree.tree_flatten(result)
        self.graph.output([self._output(leaf, outputs) for leaf in leaves])
        info = fx.graph._PyTreeInfo(self.call.names, self.call.in_spec, out_spec)
        self.graph.set_codegen(fx.graph._PyTreeCodeGen(info))
        return fx.GraphModule(self.root, self.graph, class_name="ExportedModule")

    # -- inputs --------------------------------------------------------------------------------------------------

    def _paths(self) -> Iterator[tuple[str, fx.Node]]:
        """The name that the tracer has for the source of each leaf, and the placeholder of the leaf."""
        by_leaf = iter(self.placeholders)
        of_call: dict[int, Any] = {}
        for leaf, node in zip(self.call.leaves, by_leaf):
            of_call.setdefault(id(leaf), node)
        for name, value in self.call.bound.items():
            yield from _leaf_paths(f"L[{name!r}]", value, of_call)

    def _bind_inputs(self, gm: fx.GraphModule, values: dict[fx.Node, Any]) -> None:
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        for node, source, value in zip(placeholders, self.call.sources, self.call.inputs, strict=True):
            if not node.users:  # a size that the graph reads from its tensor
                continue
            values[node] = self._tensor(value, source) if isinstance(value, torch.Tensor) else self._number(source)
            values[node].meta.update(_meta(node))
            if isinstance(value, torch.Tensor) and values[node].op == "placeholder":
                values[node].meta["tensor_dict"] = {key: item for key, item in vars(value).items() if key != DIMS}

    def _tensor(self, value: torch.Tensor, source: str) -> fx.Node:
        node = self._of_leaf.get(id(value)) if source.startswith("L[") else None
        node = node or self._attributes.get(id(value))
        if node is not None:
            return node
        name = self._names.get(id(value))
        if name is None and source.startswith("L[") and not source.startswith("L['self']"):
            raise UserError(
                f"the graph reads {source}, which is inside an object that export cannot take apart",
                hint="pass it as an argument of its own.",
            )
        target = name or f"_constant_{len(self._attributes)}"
        self._store(target, value)
        node = self._attributes[id(value)] = self.graph.get_attr(target)
        if name is not None:
            node.meta["nn_module_stack"] = _owners(self.module_of_call, name)
        return node

    def _number(self, source: str) -> fx.Node:
        found = re.fullmatch(r"(.*)\.(size|stride)\(\)\[(\d+)\]", source)
        tensor = self._of_path.get(found[1]) if found else None
        if found and tensor is not None:
            read = torch.ops.aten.sym_size.int if found[2] == "size" else torch.ops.aten.sym_stride.int
            return self.graph.call_function(read, (tensor, int(found[3])))
        node = self._of_path.get(source)
        if node is None:
            raise UserError(
                f"the graph reads {source}, which is inside an object that export cannot take apart",
                hint="pass it as an argument of its own.",
            )
        return node

    def _store(self, target: str, value: Any) -> None:
        *path, name = target.split(".")
        owner = self.root
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, torch.nn.Module())
            owner = getattr(owner, part)
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            owner.register_buffer(name, value)
        else:
            setattr(owner, name, value)

    def _adopt(self, gm: fx.GraphModule, target: str) -> None:
        value: Any = gm
        for part in target.split("."):
            value = getattr(value, part)
        self._store(target, value)

    # -- outputs -------------------------------------------------------------------------------------------------

    def _output(self, leaf: Any, outputs: list[Any]) -> Any:
        for value, node in zip(self.call.outputs, outputs):
            if value is leaf and not _is_number(leaf):
                return node
        if isinstance(leaf, torch.Tensor):
            node = self._of_leaf.get(id(leaf)) or self._attributes.get(id(leaf))
            if node is None and id(leaf) not in self._names and not self._arguments_are_plain():
                raise UserError("the call returns a tensor that is neither a result of its graph nor one of its arguments")
            return node or self._tensor(leaf, "")
        if _is_number(leaf):
            return self._number_output(leaf, outputs)
        return leaf

    def _arguments_are_plain(self) -> bool:
        """Whether all leaves are plain values. Then a returned tensor that is no leaf must be a constant of the program; an
        object of an unknown class could hold it."""
        plain = (torch.Tensor, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
        return all(isinstance(leaf, plain) for leaf in self.call.leaves)

    def _number_output(self, leaf: Any, outputs: list[Any]) -> Any:
        equal = [node for value, node in zip(self.call.outputs, outputs) if type(value) is type(leaf) and value == leaf]
        if len({id(node) for node in equal}) > 1:
            raise UserError(
                "the call returns a number that is equal to several numbers of the graph",
                hint="export with inputs whose sizes all differ.",
            )
        return equal[0] if equal else leaf


def _owners(module: Any, name: str) -> dict[str, tuple[str, type]]:
    """The modules around a parameter or buffer of this name, outermost first, in the form of `nn_module_stack` of nodes."""
    source = path = "L['self']"
    found = {source: (path, type(module))}
    for part in name.split(".")[:-1]:
        module, source, path = getattr(module, part), f"{source}._modules[{part!r}]", f"{path}.{part}"
        found[source] = (path, type(module))
    return found


def _meta(node: fx.Node) -> dict[str, Any]:
    """The metadata of a node, with the fake value also under the key `val`, where readers of exported graphs look for it."""
    example = "example_value"
    return {**node.meta, "val": node.meta[example]} if example in node.meta else dict(node.meta)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _leaf_paths(path: str, value: Any, nodes: dict[int, fx.Node]) -> Iterator[tuple[str, fx.Node]]:
    if id(value) in nodes and not isinstance(value, (list, tuple, dict)):
        yield path, nodes[id(value)]
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _leaf_paths(f"{path}[{index}]", item, nodes)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaf_paths(f"{path}[{key!r}]", item, nodes)
