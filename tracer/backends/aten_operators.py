"""Lowers a captured graph to operators of ATen, for `export(..., aten_graph=True)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from tracer.backends.printable_operators import PRINTABLE
from tracer.backends.torch_bridge import on_torch_values

Decompositions = Mapping[Any, Callable[..., Any]]


def aten_operators(
    gm: fx.GraphModule, example_inputs: list[Any], decompositions: Decompositions | None, pre_dispatch: bool
) -> fx.GraphModule:
    """A module with the inputs and outputs of gm. Nodes keep their stack traces, modules and functions.

    Operators of `decompositions` are replaced by what it computes of them; with `pre_dispatch`, the operators are those
    that autograd would see, such as `aten.matmul`.
    """

    def lowered(gm: fx.GraphModule, inputs: list[Any]) -> fx.GraphModule:
        trace = make_fx(
            fx.Interpreter(gm).run,
            decomposition_table={**PRINTABLE, **(decompositions or {})},
            pre_dispatch=pre_dispatch,
            _allow_non_fake_inputs=True,  # constants that the graph holds
        )
        with preserve_node_meta():
            return trace(*inputs)

    return on_torch_values(lowered, gm, example_inputs)
