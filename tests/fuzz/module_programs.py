"""Programs of models whose blocks are equal, or differ in one detail, with effects within and between them: what a replay of
blocks has to notice (docs/decisions/replay.md)."""

from __future__ import annotations

import random
from collections import Counter

from tests.fuzz.programs import Program

PRELUDE = """\
import functools, types
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

LOG, KEPT, SHARED = [], [], [1]
STATE = {"n": 1}
torch.manual_seed(3)


class Config:
    def __init__(self):
        self.alpha, self.act = 0.5, F.gelu


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.flag = nn.Parameter(torch.randn(4)), False

    def forward(self, h, scale=1.0):
        if self.flag:
            h = h.sin()
        return h * self.w * scale


class OtherPart(Part):
    def forward(self, h, scale=1.0):
        return super().forward(h) + 2


def adding(n):
    def add(h):
        return h + n

    return add


def doubling(module, args, out):
    return out * 2


class Described:
    def __get__(self, instance, owner=None):
        return 3 if instance is None else instance.n + 1


CONFIG, PART = Config(), Part()
TABLE = {"b": 1, **{f"b{i}": i for i in range(6)}, "z": 7}


class BlockBase(nn.Module):
    K = 2
    described = Described()

    def __init__(self, name):
        super().__init__()
        self.name, self.scale, self.flag, self.n, self.p, self.config = name, 2.0, False, 2, 0.0, CONFIG
        self.linear, self.norm, self.part, self.parts = nn.Linear(4, 4), nn.LayerNorm(4), Part(), nn.ModuleList([Part()])
        self.register_buffer("buffer", torch.ones(4))
        self.count, self.items, self.table, self.call, self.shared, self.extra = 0, [1], {"k": 2}, adding(1), PART, None
        self.mask, self.zero, self.names, self.memo = torch.tensor([True, True, False, False]), torch.zeros(()), TABLE, {}

    @property
    def doubled(self):
        return self.n * 2

    @functools.cached_property
    def cached(self):
        return self.n * 3

    def number(self):
        return self.n


"""


def _lines(text: str) -> tuple[str, ...]:
    return tuple(part for line in text.strip().splitlines() for part in line.split(" | "))


_PURE = _lines("""
h = self.linear(h) | h = self.norm(h) | h = F.gelu(h) | h = h * self.scale | h = h.view(-1, 4).reshape(x.shape) | h = h.cos()
h = F.dropout(h, self.p, self.training) | h = h + self.config.alpha | h = self.config.act(h)
h = h + getattr(self, "more", 1) | h = torch.cat([h, x])[:x.shape[0]] | h = self.part(h) | h = self.part(h, scale=self.scale)
h = self.call(h) | h = h + self.buffer | h = h + len(self._modules) | h = h + sum(p.sum() for p in self.parameters())
h = h + self.items[0] | h = h + self.table["k"] | h = h + self.items[-1] | h = h * type(self).K
h = h + (5 if hasattr(self, "more") else 6) | h = h + self.doubled | h = h + self.cached | h = h + self.described
h = h + self.shared.w | h = torch.where(self.mask, h, self.zero) | h = h * given.get("s", 2)
h = h + (1 if x is first else 2) | h = h[:, :2].repeat(1, 2) | h = h.t().contiguous().t() | h = h - h[1:].sum()
h = h.sort()[0] | h = h + torch.ones_like(h) * x.shape[0] | h = checkpoint(self.part, h, use_reentrant=False)
h = h + self.count | h = h * STATE["n"] | h = h + self.names[self.name] | h = h + (3 if self.items is SHARED else 4)
h = sum([part(h) for part in self.parts], h) | h = (lambda t: t + self.n)(h) | h = h.masked_fill(h > self.scale, 0)
h = h + torch.tensor(self.scale) | h = h + self.number() | h = F.linear(h, self.linear.weight, self.linear.bias)
h = h + max(self.items[0], self.n) | h = h + (self.name == "b1") | h = h + len(LOG) | h = h.unsqueeze(0).expand(2, -1, -1)[1]
h = F.scaled_dot_product_attention(h[None], h[None], h[None])[0] | h = h + 1 if self.flag else h - 1
h = h + (given["m"] if given.get("m") is not None else 0) | h = h * 3 if h.requires_grad else h
h = h - 3 if isinstance(self.part, OtherPart) else h | h = h + self.extra if self.extra is not None else h
h = h + len(self.memo) | h = h * 2 if h.shape[0] > 2 else h | h = h + int(self.scale)
h = h + sum(v + len(k) for k, v in self.table.items()) | h = h.clone().add_(1)
""")
_EFFECTS = _lines("""
self.buffer.add_(1) | self.count += 1 | x.mul_(1.5) | self.memo[self.name] = self.n | self.last = h | self.items.append(1)
LOG.append(self.name) | STATE["n"] += 1 | h = h + torch.rand(4) | h = h + (id(self) > 0) | LOG.append(h)
""")
_BETWEEN = _lines("""
x = x + 1 | STATE["n"] += 1 | CONFIG.alpha = CONFIG.alpha + 1 | x = x.detach() | BLOCK.flag = not BLOCK.flag | BLOCK.n += 1
outs.append(x) | x = x + len(outs) | BLOCK.buffer.mul_(2) | LOG.append("between") | SHARED.append(2) | first = x
x = x * BLOCK.scale | x = x.clone() | BLOCK.more = 7 | x = x + BLOCK.linear.weight.sum() | BLOCK.table["k"] = 4
x = x[:2] if x.shape[0] > 3 else x | BLOCK.items = list(BLOCK.items) + [3] | x = x + STATE.setdefault("z", 2)
x = x.double().float() | type(self.blocks[0]).K += 1
""")
_CALLS = _lines("""
x = b(x, first) | x = b(x, first, s=2) | x = b(x, first, m=outs[-1] if outs else None) | x = b(x, x)
x = b(x, first, s=NUMBER) | x = b.forward(x, first) | x = x + b(x, first) | x = b(b(x, first), x)
x = b(x, first, **{"s": 3}) | x = b(first=first, x=x)
""")
_DETAILS = _lines("""
b.flag = True | b.scale = SCALE | b.n = NUMBER | b.config = Config() | b._forward_hooks[0] = doubling | b.eval()
b.part.eval() | b.requires_grad_(False) | b.linear.bias.requires_grad_(False) | b.part = OtherPart() | b.part.flag = True
b.more = 5 | b.items = SHARED | b.items = [NUMBER, 2] | b.call = adding(NUMBER) | b.__class__ = OtherBlock | b.name = "z"
blocks[i] = blocks[0] | b.shared = b.part | b.mask = torch.tensor([True, False, False, True]) | b.linear = blocks[0].linear
b.linear.weight = blocks[0].linear.weight | b.table = {"k": NUMBER, "z": 1} | b.cached = NUMBER
b.extra = nn.Parameter(torch.ones(4)) | b.parts.append(Part()) | b.p = 0.5 | b.norm = nn.Identity() | b.norm.eps = 0.1
b.forward = types.MethodType(lambda self, x, first, **given: x * 2, b) | b.count = 4 | b.buffer = torch.ones(8)[::2]
b.part._forward_pre_hooks[0] = lambda module, args: (args[0] + 1,) | b.number = lambda: 8
""")
_SCALES = ("3.0", "2", "-1.0", "float('inf')", "True", "torch.tensor(2.0)")


class _Writer:
    """One program under way."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"modules {seed}")
        self.count = self.rng.randint(3, 6)
        self.used: Counter[str] = Counter()

    def between(self) -> str:
        self.used["between"] += 1
        return self.rng.choice(_BETWEEN).replace("BLOCK", f"self.blocks[{self.rng.randrange(self.count)}]")

    def block(self) -> list[str]:
        lines = self.rng.sample(_PURE, self.rng.randint(2, 6))
        if self.rng.random() < 0.25:
            self.used["effect"] += 1
            lines.insert(self.rng.randint(0, len(lines)), self.rng.choice(_EFFECTS))
        result = self.rng.choice(("h", "h", "h + x", "(h, x)[0]"))
        return ["h = x", *lines, f"return {result}"]

    def call(self) -> str:
        return self.rng.choice(_CALLS).replace("NUMBER", str(self.rng.randint(1, 4)))

    def model(self) -> list[str]:
        lines, call = ["outs, first = [], x"], self.call()
        if self.rng.random() < 0.6:
            lines += ["for i, b in enumerate(self.blocks):", f"    {call}"]
            if self.rng.random() < 0.5:
                lines.append(f"    if i == {self.rng.randrange(self.count)}: {self.between()}")
        else:
            for index in range(self.count):
                lines += [f"b = self.blocks[{index}]", self.rng.choice((call, self.call()))]
                if self.rng.random() < 0.3:
                    lines.append(self.between())
        return [*lines, "return outs, x"]

    def details(self) -> list[str]:
        lines = ["pass"]
        for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3))):
            self.used["detail"] += 1
            detail = self.rng.choice(_DETAILS).replace("NUMBER", str(self.rng.randint(1, 4)))
            lines += [
                f"i = {self.rng.randrange(self.count)}",
                "b = blocks[i]",
                detail.replace("SCALE", self.rng.choice(_SCALES)),
            ]
        return lines


def generate(seed: int) -> Program:
    """The program of a seed; the same in every process."""
    w = _Writer(seed)
    block, model, details = ("\n        ".join(lines) for lines in (w.block(), w.model(), w.details()))
    name = w.rng.choice(("'b'", "f'b{i}'"))
    training = w.rng.choice(("", ".eval()"))
    sizes, gradients = w.rng.choice(((3, 4, 3), (2, 2, 5), (3, 3, 3))), w.rng.random() < 0.4
    dynamic = w.rng.choice((None, True, False))
    frozen, within = w.rng.choice((("", ""), (".requires_grad_(False)", ""), ("", "with torch.no_grad(): ")))
    if gradients:
        frozen = within = ""
    source = f"""{PRELUDE}\
class Block(BlockBase):
    def forward(self, x, first, **given):
        {block}


class OtherBlock(Block):
    K = 5


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = [Block({name}) for i in range({w.count})]
        {details}
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        {model}


MODEL = Model(){training}{frozen}


def main(x):
    {within}return MODEL(x)


def arguments(call):
    return (torch.randn({list(sizes)}[call], 4),), {{}}
"""
    return Program(seed, source, w.used, len(sizes), dynamic, gradients, PRELUDE)
