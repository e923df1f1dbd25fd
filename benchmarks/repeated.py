"""Twelve equal blocks, compiled one by one and called at three batch sizes: how often a backend compiles, and CPU seconds."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measuring import forget, interleaved, own, theirs

BLOCKS, LENGTH, WIDTH, HEADS = 12, 16, 64, 4
BATCHES = (2, 4, 8)
MOST_COMPILES = 2
BAR = 0.5


class Block(torch.nn.Module):
    """A block of a transformer, as models write it: norms before attention and before two layers with a GELU between."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)]
        self.wide, self.narrow = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.heads = HEADS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        h = self.before(x)
        parts = [each(h).view(batch, length, self.heads, -1).transpose(1, 2) for each in (self.query, self.key, self.value)]
        attended = torch.nn.functional.scaled_dot_product_attention(*parts)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.between(x))))


def repeated(rounds: int, blocks: int = BLOCKS) -> dict[str, Any]:
    """A row for the table of `make bench`."""
    compiles: dict[str, int] = {}
    sides = {
        name: functools.partial(_compile_all, name, decorate, blocks, compiles)
        for name, decorate in (("own", own), ("torch", theirs))
    }
    for side in sides.values():  # imports
        side()
    seconds = interleaved(sides, rounds)
    return {
        "kind": "repeated",
        "case": f"{blocks} equal blocks, {len(BATCHES)} batch sizes",
        "own_compiles": compiles["own"],
        "torch_compiles": compiles["torch"],
        "own_s": seconds["own"],
        "torch_s": seconds["torch"],
        "ratio": seconds["own"] / seconds["torch"],
        "bar": BAR if compiles["own"] <= MOST_COMPILES else 0.0,
    }


def _compile_all(name: str, decorate: Callable[..., Any], blocks: int, compiles: dict[str, int]) -> float:
    forget()
    compiles[name] = 0

    def counting(gm: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        compiles[name] += 1
        return gm.forward

    model = [Block() for _ in range(blocks)]
    inputs = [torch.randn(batch, LENGTH, WIDTH) for batch in BATCHES]
    with torch.no_grad():
        start = time.process_time()
        compiled = [decorate(block, backend=counting) for block in model]
        for x in inputs:
            for block in compiled:
                x = block(x)
        return time.process_time() - start
