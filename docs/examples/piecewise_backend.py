"""A backend that does with a graph what vLLM's does: it splits the graph at the attention, compiles each piece once for any
number of tokens and again for a list of numbers, and chooses at each call. Attention is an operator of its own
(`torch.library.custom_op`), which no compiler looks into.

It knows torch.compile only. `python -m docs.examples.piecewise_backend` runs it by the tracer, through `tracer.install()`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

Compiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


@torch.library.custom_op("piecewise::attention", mutates_args=())
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Each token attends to those before it. Shapes: tokens x width."""
    out: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    return out.clone()


@attention.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(q)


class Model(torch.nn.Module):
    """Blocks of attention and a feed-forward part. Shapes: tokens x width."""

    def __init__(self, width: int = 16, blocks: int = 3) -> None:
        super().__init__()
        self.projections = torch.nn.ModuleList([torch.nn.Linear(width, 3 * width) for _ in range(blocks)])
        self.feeds = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(blocks)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for project, feed in zip(self.projections, self.feeds):
            q, k, v = project(x).chunk(3, dim=-1)
            x = x + feed(torch.ops.piecewise.attention(q, k, v)).relu()
        return x


class Piece(torch.nn.Module):
    """A part of the graph, compiled for any size, and for each size of a list when a call has it for the first time."""

    def __init__(self, gm: torch.fx.GraphModule, compiler: Compiler, sizes: Sequence[int]) -> None:
        super().__init__()
        inputs = [node.meta["example_value"] for node in gm.graph.nodes if node.op == "placeholder"]
        self.place = _place_of_the_symbol(inputs)
        self.for_any_size = compiler(gm, inputs)
        self.for_size: dict[int, Callable[..., Any] | None] = dict.fromkeys(sizes if self.place is not None else ())
        self.compile_for = lambda args: compiler(gm, args)

    def forward(self, *args: Any) -> Any:
        if self.place is None:
            return self.for_any_size(*args)
        index, dim = self.place
        size = args[index] if dim is None else args[index].shape[dim]
        if size not in self.for_size:
            return self.for_any_size(*args)
        compiled = self.for_size[size]
        if compiled is None:
            compiled = self.for_size[size] = self.compile_for(args)
        return compiled(*args)


def _place_of_the_symbol(inputs: Sequence[Any]) -> tuple[int, int | None] | None:
    """Where the number of tokens is found among the inputs: the index of a number (and None), or of a tensor and its dim."""
    for index, value in enumerate(inputs):
        if isinstance(value, torch.SymInt):
            return index, None
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt):
                return index, dim
    return None


class PiecewiseBackend:
    """For `torch.compile(backend=PiecewiseBackend(...))`. `compiler` is given each piece: with symbolic inputs, later with real
    ones."""

    def __init__(self, compiler: Compiler, sizes: Sequence[int]) -> None:
        self.compiler, self.sizes = compiler, sizes
        self.pieces: list[Piece] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        part_of: dict[torch.fx.Node, int] = {}
        part, apart = 0, set()
        for node in gm.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if node.target in (torch.ops.piecewise.attention, torch.ops.piecewise.attention.default):
                part_of[node] = part + 1
                apart.add(f"submod_{part + 1}")
                part += 2
            else:
                part_of[node] = part
        split = split_module(gm, gm, part_of.__getitem__, keep_original_order=True)
        for name, piece in list(split.named_children()):
            if name not in apart:
                self.pieces.append(Piece(piece, self.compiler, self.sizes))
                setattr(split, name, self.pieces[-1])
        return split.forward


def main() -> None:
    import tracer

    compiled_for: list[str] = []

    def compiler(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        compiled_for.append("one size" if _place_of_the_symbol(inputs) is None else "any size")
        return gm.forward

    with tracer.install(), torch.no_grad():
        model = Model()
        backend = PiecewiseBackend(compiler, sizes=(1, 8))
        options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}  # one graph for good, as in vLLM
        serve = torch.compile(model, backend=backend, fullgraph=True, options=options)
        for tokens in (5, 8, 1, 33, 8, 1):
            x = torch.randn(tokens, 16)
            torch._dynamo.mark_dynamic(x, 0)
            assert torch.equal(serve(x), model(x))
    print(f"{len(tracer.region_of(serve).entries())} entry, {len(backend.pieces)} pieces; compiled:")
    for what in sorted(set(compiled_for)):
        print(f"{compiled_for.count(what):4} for {what}")


if __name__ == "__main__":
    main()
