"""The text of a graph does not depend on the process: neither on hashes, nor on addresses, nor on what was traced before."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

import tracer

ENV = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleDict({name: torch.nn.Linear(8, 8) for name in ("query", "key", "value")})
        self.register_buffer("scale", torch.ones(8))
        self.hooked = torch.nn.LayerNorm(8)
        self.hooked.register_forward_hook(lambda module, args, result: result * 2)
        self.names = {"query", "key", "value"}  # whose order changes with the seed of hashes

    def forward(self, batch, *, seen=frozenset({"a", "b"})):
        x, mask = batch["x"], batch.get("mask")
        query, key, value = (self.parts[name](x) for name in sorted(self.names))
        if mask is not None and "a" in seen:
            value = value * mask[:, :, None]
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value) * self.scale
        self.scale.add_(1)
        return self.hooked(out).view(x.shape[0] * x.shape[1], -1), [each.sum() for each in {"u": query, "v": key}.values()]


def broken(x, others):
    total = sum(other.sum() for other in others)
    tracer.graph_break()
    return torch.cond(x.shape[0] > 3, lambda y: y + total, lambda y: y - 1, (x,))


def texts():
    """The text of all graphs of these programs, with the metadata of their nodes."""
    found = []

    def keep(gm, example_inputs):
        found.append(gm.print_readable(print_output=False, include_stride=True) + "\n".join(map(str, gm.graph.nodes)))
        return gm.forward

    torch.manual_seed(0)
    model = tracer.compile(Block(), backend=keep, dynamic=True)
    model({"x": torch.randn(2, 5, 8), "mask": torch.ones(2, 5)})
    model({"x": torch.randn(3, 4, 8)})
    tracer.compile(broken, backend=keep, dynamic=True)(torch.ones(4, 2), (torch.ones(3), torch.ones(4, 2)))
    return found


def test_the_text_of_a_graph_is_the_same_in_every_process():
    program = "import sys; from tests.graph.test_graph_text import texts; sys.stdout.write('\\0'.join(texts()))"

    def run(seed, before=""):
        environment = {"PYTHONHASHSEED": seed, **ENV}
        command = [sys.executable, "-c", before + program]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split("\0")

    runs = run("1"), run("2", "import torch, tracer; tracer.compile(lambda x: x + 1)(torch.ones(2)); ")
    assert runs[0] == runs[1] and len(runs[0]) > 3 and all("placeholder" in text or "def forward" in text for text in runs[0])
