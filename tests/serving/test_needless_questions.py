"""What PyTorch asks of sizes for its own sake divides no domain: whether one is 0 or 1, and which kernel is the faster one."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import tracer


class Bags(nn.Module):
    """Embeddings of `count` lists of indices, any of which may be empty."""

    def __init__(self, count, mode):
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(100, 4, mode=mode) for _ in range(count)])
        self.top = nn.Linear(4, 2)

    def forward(self, indices, offsets):
        return self.top(torch.stack([bag(i, o) for bag, i, o in zip(self.bags, indices, offsets)]).sum(0))


def bags(batch, lengths):
    draw = torch.Generator().manual_seed(sum(lengths))
    indices = [torch.randint(0, 100, (length,), generator=draw) for length in lengths]
    offsets = [torch.randint(0, length + 1, (batch,), generator=draw).sort()[0] for length in lengths]
    for each in offsets:
        each[:1] = 0
    return indices, offsets


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_eight_bags_of_no_index_or_more_are_one_entry(mode):
    model = Bags(8, mode).eval()
    names = [f"N{number}" for number in range(8)]
    spec = tracer.ShapeSpec(
        {"indices": [[name] for name in names], "offsets": [["B"]] * 8}, B=(2, 64), **dict.fromkeys(names, (0, 400))
    )
    compiled = tracer.compile(model)
    with torch.no_grad():
        found = tracer.precompile(compiled, spec, bags(3, range(5, 13)))
        assert found.certified and found.regions() == ["every shape"] and compiled.stats()["compiles"] == 1
        compiled.seal()
        for lengths in ([0] * 8, [1] * 8, [400] * 8, [0, 1, 2, 400, 0, 3, 1, 7]):
            call = bags(4, lengths)
            assert torch.equal(compiled(*call), model(*call))


class Residual(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.small, self.wide = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.wide(self.norm(self.small(x)).relu())
        y += x
        return y


def test_which_kernel_a_convolution_takes_divides_no_domain():
    model = Residual().eval()
    compiled = tracer.compile(model)
    with torch.no_grad():
        found = tracer.precompile(compiled, "x: B, _, H, W; B in 1..32; H in 1..96; W in 1..96", torch.randn(3, 4, 5, 7))
        assert found.certified and found.regions() == ["every shape"]
        compiled.seal()
        for batch, height, width in itertools.product((1, 2, 15, 16, 32), (1, 2, 96), (1, 2, 96)):
            x = torch.randn(batch, 4, height, width)
            expected, seen = model(x), compiled(x)
            assert torch.equal(expected, seen) and expected.stride() == seen.stride()


@pytest.mark.parametrize("channels", [1, 4])
def test_strides_that_a_program_reads_are_those_of_the_kernel_for_channels_that_come_last(channels):
    def strides(x):
        return x.stride() + (model(x) * 2).stride()

    model = Residual(channels).eval().to(memory_format=torch.channels_last)
    compiled = tracer.compile(
        strides, shapes="x: B, _, H, W; B in 1..32; H in 1..96; W in 1..96", fullgraph=True, recompile_limit=64
    )
    with torch.no_grad():
        for shape in ((3, 5, 7), (1, 5, 7), (2, 1, 1), (1, 1, 1), (16, 96, 96), (1, 96, 96)):
            x = torch.randn(shape[0], channels, *shape[1:])
            assert compiled(x) == strides(x)
            x = x.to(memory_format=torch.channels_last)
            assert compiled(x) == strides(x)
