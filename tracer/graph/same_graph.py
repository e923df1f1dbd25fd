"""Compares two graphs: whether they have the same operations on the same inputs in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from tracer.graph.fakes.fake_tensors import expr_of, is_symbolic
from tracer.graph.fakes.nested_fakes import is_nested, parts_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph.symbols.ragged import ragged_of

_PLAIN = (int, bool, str, bytes, type(None), type(...), complex, torch.dtype, torch.device, torch.layout, torch.memory_format)
KINDS = "kinds of the outputs"  # in the meta of a loaded graph, whose nodes have no fake values
Rename = Callable[[Any], Any]  # an expression over the symbols of a trace -> the same over their places


def same_graph(one: fx.GraphModule, other: fx.GraphModule, *, inputs: bool = False) -> bool:
    """Compares node by node. Inputs that no operation reads, such as sizes, are compared only with `inputs`."""
    left, right = _read(one.graph, inputs), _read(other.graph, inputs)
    if len(left) != len(right):
        return False
    pairs: dict[fx.Node, fx.Node] = {}
    for a, b in zip(left, right):
        if a.op != b.op or not _same_target(a, b, one, other) or not _same((a.args, a.kwargs), (b.args, b.kwargs), pairs):
            return False
        pairs[a] = b
    return True


def layout_of(gm: fx.GraphModule, rename: Rename) -> list[Any]:
    """Dtype, device, sizes and strides of the inputs, for which a compiler specialises its code."""
    return [_layout(node.meta.get(EXAMPLE), rename) for node in gm.graph.nodes if node.op == "placeholder"]


def fakes_of(gm: fx.GraphModule, rename: Rename) -> list[Any]:
    """Like `layout_of`, for all nodes, but without strides: the independence of rows and the sizes of outputs follow."""
    return [[_layout(leaf, rename, strides=False) for leaf in tree_leaves(node.meta.get(EXAMPLE))] for node in gm.graph.nodes]


def sizes_of_outputs(gm: fx.GraphModule) -> list[tuple[Any, ...]]:
    """The sizes of each tensor that the graph returns, over the symbols of its trace."""
    return [tuple(map(_size, example.shape)) for example in _outputs(gm)]


def _size(size: Any) -> Any:
    ragged = ragged_of(size)
    if ragged is not None:
        return sympy.Symbol(f"j{ragged.number}", integer=True) * ragged.factor.expr
    return expr_of(size) if is_symbolic(size) else sympy.Integer(int(size))


def kinds_of_outputs(gm: fx.GraphModule) -> list[str]:
    """`float32 on cpu`, for each of these tensors. Of a loaded graph it is what was saved."""
    saved: list[str] | None = gm.meta.get(KINDS)
    return list(map(_kind, _outputs(gm))) if saved is None else saved


def _outputs(gm: fx.GraphModule) -> list[torch.Tensor]:
    examples = [item.meta.get(EXAMPLE) for item in gm.graph.output_node().args[0] if isinstance(item, fx.Node)]
    return [example for example in examples if isinstance(example, torch.Tensor)]


def _kind(example: torch.Tensor) -> str:
    layout = "" if example.layout is torch.strided else f", {example.layout}"
    gradient = ", requires grad" if example.requires_grad else ""
    return f"{example.dtype} on {example.device}{layout}{gradient}".replace("torch.", "")


def _layout(example: Any, rename: Rename, strides: bool = True) -> Any:
    if not isinstance(example, torch.Tensor):
        return _number(example, rename)
    if is_nested(example):
        dims = [_number(number, rename) for number in (*example._size, example._ragged_idx)]
        parts = {name: _layout(part, rename, strides) for name, part in parts_of(example).items()}
        return type(example), example.requires_grad, dims, parts
    dims = [_number(number, rename) for number in (*example.shape, *(example.stride() if strides else ()))]
    return type(example), example.dtype, example.device, example.requires_grad, dims


def _number(value: Any, rename: Rename) -> Any:
    ragged = ragged_of(value)
    if ragged is not None:
        return "ragged", ragged.number, rename(ragged.factor.expr)
    return rename(expr_of(value)) if is_symbolic(value) else value


def _read(graph: fx.Graph, inputs: bool) -> list[fx.Node]:
    return [node for node in graph.nodes if inputs or node.op != "placeholder" or node.users]


def _same_target(a: fx.Node, b: fx.Node, one: fx.GraphModule, other: fx.GraphModule) -> bool:
    if a.op == "placeholder":  # named after its source, or after its symbol if it is a size
        return bool(a.target == b.target)
    if a.op == "get_attr":
        return _same_attribute(getattr(one, str(a.target), None), getattr(other, str(b.target), None))
    return a.target is b.target or (type(a.target) is str and a.target == b.target)


def _same_attribute(a: Any, b: Any) -> bool:
    if isinstance(a, fx.GraphModule) and isinstance(b, fx.GraphModule):
        return same_graph(a, b, inputs=True)
    return a is b and a is not None


def _same(a: Any, b: Any, pairs: dict[fx.Node, fx.Node]) -> bool:
    if isinstance(a, fx.Node):
        return pairs.get(a) is b
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(_same(x, y, pairs) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key], pairs) for key in a)
    if isinstance(a, slice):
        return all(_same(x, y, pairs) for x, y in zip((a.start, a.stop, a.step), (b.start, b.stop, b.step)))
    if type(a) is float:
        return bool(a.hex() == b.hex())
    return bool(a == b) if type(a) in _PLAIN else a is b
