"""Programs of what compilers find hard: autograd, views, writes in place, aliases, optimizers, subclasses, random numbers,
branches on sizes. Every tensor is of one of a few kinds, so that most lines are right; some raise, as those of users do.

Kinds: m (n, 3), w (3, 3), v (3,), s (), all float32; b (n, 3) bool; i (n,) int64 below 3. n varies from call to call.
"""

from __future__ import annotations

import random
import re
from collections import Counter

from tests.fuzz.programs import Program

PRELUDE = """\
import torch, types, warnings
import torch.nn.functional as F
import tracer
from torch.utils._pytree import tree_map
from tests.fuzz.opaque import opaque

LOG, KEPT = [], []
STATE = types.SimpleNamespace(last=None, count=0)
torch.manual_seed(3)
NET = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Dropout(0.25))
NORM = torch.nn.BatchNorm1d(3)
W, BUFFER, P = torch.randn(3, 3), torch.zeros(3), torch.nn.Parameter(torch.randn(3))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 + x * 0


class Tagged(torch.Tensor):
    pass


class Two(torch.Tensor):
    @staticmethod
    def __new__(cls, first, second):
        return torch.Tensor._make_wrapper_subclass(cls, first.size(), strides=first.stride(), dtype=first.dtype)

    def __init__(self, first, second):
        self.first, self.second = first, second

    def __tensor_flatten__(self):
        return ["first", "second"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Two(parts["first"], parts["second"])

    @classmethod
    def __torch_dispatch__(cls, func, kinds, args=(), kwargs=None):
        def of(part):
            pick = lambda value: getattr(value, part) if isinstance(value, Two) else value
            return func(*tree_map(pick, args), **tree_map(pick, kwargs or {}))

        return tree_map(lambda a, b: Two(a, b) if isinstance(a, torch.Tensor) else a, of("first"), of("second"))


"""


def _templates(text: str) -> list[str]:
    """Lines of programs with places for expressions, by kind; {d} is an m without a gradient."""
    return re.split(r" \| |\n", text.strip())


_EXPRESSIONS: dict[str, list[str]] = {
    "m": _templates("""
{m} + {m} | {m} * {m} | {m} - {v} | {m} @ {w} | {m}.sin() | torch.relu({m}) | {m} * {s} | {m}.clone() | {m}.flip(0) | {m} * n
torch.where({b}, {m}, {m}) | {w}[{i}] | torch.cat([{m}[:1], {m}[1:]]) | {m}.masked_fill({b}, 0.5) | {m}.cumsum(0)
{m}.softmax(-1) | Doubled.apply({m}) | {m} / f | torch.zeros_like({m}) | torch.ones(n, 3) | {m}.double().float() | {m}.exp().log()
F.linear({m}, {w}, {v}) | {m}.sort(0)[0] | F.layer_norm({m}, (3,)) | {m}.t().contiguous().t() | torch.addmm({v}, {m}, {w})
{m}.gather(1, {i}[:, None].expand(n, 3)) | torch.stack([{m}, {m}]).sum(0) | {m}.roll(1, 0) | {m} ** 2 | torch.lerp({m}, {m}, 0.25)
{v}.expand(n, 3) | {m}.abs().sqrt() | {m}.index_select(0, torch.arange(n)) | torch.clamp({m}, {s}) | {m} % 2 | {m}.where({b}, {s})
"""),
    "modules": _templates("""
NET({m}) | NORM({m}) | F.dropout({m}, 0.5) | torch.rand_like({m}) | torch.randn(n, 3) | {m} * P | {m}.bernoulli(0.5)
"""),
    "views": _templates("""
{m}[:] | {m}.view(-1, 3) | {m}.t().t() | {m}.detach() | {m}.unsqueeze(0).squeeze(0) | {m}.reshape(n, 3) | {m}.view_as({m})
{m}.narrow(1, 0, 3) | {m}.mT.mT | {m}.flatten().view(n, 3) | {m}.contiguous() | {m}.float() | {m}.data
{m}.chunk(1)[0] | torch.split({m}, 3, 1)[0] | {m}.as_strided((n, 3), {m}.stride()) | {m}.real | {m}.to(torch.float32)
{m}.select(1, 0)[:, None].expand(n, 3)
"""),
    "subclasses": _templates("""
{m}.as_subclass(Tagged) * 2 | (Two({d}, {d}) + {m}).first | Two({d}, {d} * f).sin().second | (Two({d}, {d}) @ {w}).first
"""),
    "w": _templates("""
{w}.t() | {w} @ {w} | {m}.t() @ {m} | W | {w}.tril() | torch.outer({v}, {v}) | {w} + {v} | {w}.clone() | torch.eye(3) | {w}[:].T
"""),
    "v": _templates("""
{m}[0] | {m}.sum(0) | {m}.mean(0) | {w}[1] | {w}.diagonal() | {v} * 2 | {m}.max(0).values | {v} + P | {w}[:, 2] | {v}.clone()
BUFFER + 1 | {m}[-1]
"""),
    "s": _templates("""
{m}.sum() | {v}.mean() | {m}.norm() | {s} * {s} | torch.tensor(f) | {m}[0, 1] | {v}[2] | {m}.std() | {s} + k | {w}.trace()
F.mse_loss({m}, {m}) | {s}.detach()
"""),
    "b": _templates("{m} > 0 | {m} < {s} | {m} >= {v} | ~{b} | {b} & {b} | torch.isfinite({m})"),
    "i": _templates("torch.arange(n) % 3 | {m}.argmax(1) | {i}.flip(0) | ({i} + 1) % 3 | {b}.sum(1) % 3"),
}  # fmt: skip

_WRITES = _templates("""
{m}.add_({m}) | {m}.mul_({s}) | {m}.zero_() | {m}[:, 0] = {s} | {m}[0] = {v} | {m}[1:] += 1 | {m}.copy_({m}) | {m}.t().mul_(2)
{m}.view(-1)[::2].zero_() | {m}[{b}] = 0.5 | {m}.index_add_(0, torch.arange(n), {m}) | {m}.clamp_(-1, 1)
{m}[:, 2:].sub_({m}[:, :1])
{m}.masked_fill_({b}, 0.25) | BUFFER.add_({v}.detach()) | {m} += {v} | {v}.mul_(2) | {w}.diagonal().add_(1) | {m}.uniform_()
{m}.fill_({s})
{m}.sigmoid_() | {m}.addcmul_({m}, {m}) | {v}.copy_({m}.sum(0)) | torch.add({m}, 1, out={m}) | {m}.transpose_(0, 1).t_()
{m}[..., -1].exp_()
{s}.add_(1) | {m}.index_put_(({i} % n,), {v}) | {m}.scatter_(1, {i}[:, None], 0.5) | {m}.squeeze_(0).unsqueeze_(0)
torch.mul({m}, {m}, out={m}) | {m}.normal_() | W.mul_(0.5) | {m}.detach().add_(1) | {m}.requires_grad_(False).add_(1)
""")  # fmt: skip

_STATEMENTS = _templates("""
STATE.last = {m} | LOG.append({m}) | STATE.count += n | {m}.data = {m}.detach() * 2 | {m}.requires_grad_() | {m}.detach_()
{m}.retain_grad()
{m}.register_hook(lambda grad: grad * 2) | torch.rand(3) | STATE.last = {v} | LOG.append({m}.shape[0]) | {m}.data = {m}
LOG.append({m}.requires_grad)
LOG.append(torch.autograd.grad({s}, [P], allow_unused=True)) | {s}.backward() | {m}.sum().backward() | LOG.append({w}[k])
{m}.grad = None
LOG.append({m} is {m}) | NET.eval() | {m}, {m2} = {m2}, {m} | {m}.sum().backward(retain_graph=True) | P.grad = None
LOG.append({m}.stride())
LOG.append({m}.is_contiguous()) | {m}.swapaxes_(0, 1).swapaxes_(0, 1)
LOG.append((lambda one, other: one.data_ptr() == other.data_ptr())({m}, {m}))
""")  # fmt: skip

_OPTIMIZERS = (
    "SGD([P, *NET.parameters()], lr=0.1, momentum=0.9)",
    "Adam([P, *NET.parameters()], lr=0.1)",
    "AdamW([P, *NET.parameters()], lr=0.1, amsgrad=True)",
    "RMSprop(NET.parameters(), lr=0.01, centered=True)",
    "Adagrad(NET.parameters(), lr=0.1, lr_decay=0.1)",
    "SGD(NET.parameters(), lr=0.1, nesterov=True, momentum=0.5, maximize=True)",
    "Adam(NET.parameters(), lr=0.1, foreach=False)",
    "NAdam(NET.parameters(), lr=0.1)",
)
_BRANCHES = (
    "n > 3",
    "n == 2",
    "n % 2 == 0",
    "k > 2",
    "x.shape[0] * 2 < 7",
    "flag",
    "x.stride(0) == 3",
    "y.requires_grad",
    "x is y",
    "f > 1",
)
_LOOPS = (
    "for j in range(2):",
    "for j in range(n):",
    "for row in {m}.unbind(0):",
    "for part in ({m}, {m}):",
    "for j in range(k % 4):",
)
_SCOPES = (
    "torch.no_grad()",
    "torch.no_grad()",
    "torch.enable_grad()",
    "torch.inference_mode()",
    "torch.autocast('cpu', torch.bfloat16)",
)
_SIZES = ([2, 3, 5, 7], [2, 2, 3, 4], [3, 1, 2, 5], [4, 4, 4, 4], [3, 0, 2, 1], [6, 2, 8, 4])
_INPUTS = (
    "torch.randn(n, 3)", "torch.randn(n, 3)", "torch.randn(n, 3)", "torch.randn(n, 5)[:, :3]", "torch.randn(3, n).t()",
    "torch.randn(n + 2, 3)[1:-1]", "torch.randn(n * 3).view(n, 3)", "torch.randn(n, 6)[:, ::2]",
)  # fmt: skip
_SECOND = ("x", "x[:]", "x.detach()", "x.view_as(x)", "BASE[1:]", "x.t().t()")


class _Writer:
    """One program under way."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"tensors {seed}")
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[str, list[str]] = {"m": ["x", "y"], "w": ["W"], "v": ["z"], "s": [], "b": [], "i": []}
        self.made = 0
        self.used: Counter[str] = Counter()

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def expression(self, kind: str, depth: int = 0) -> str:
        names = self.names[kind]
        if names and self.rng.random() < (0.35, 0.7, 1.0)[min(depth, 2)]:
            return self.rng.choice(names)
        family = kind
        if kind == "m":
            family = self.rng.choices(["m", "views", "modules", "subclasses"], [6, 3, 1.5, 0.4])[0]
        choices = _EXPRESSIONS[family]
        if depth >= 2:  # without parts of its own kind, so that it ends
            choices = [text for text in choices if "{" + kind + "}" not in text] or ["torch.tensor(0.5)"]
        text = self.rng.choice(choices).replace("{d}", "{m}.detach()")
        return f"({self.filled(text, depth + 1)})"

    def filled(self, template: str, depth: int = 1) -> str:
        """The template with its kinds replaced by expressions."""
        return re.sub(r"\{([mwvsbi])\}", lambda found: self.expression(found[1], depth), template)

    def assign(self) -> None:
        kind = self.rng.choices(["m", "w", "v", "s", "b", "i"], [8, 1, 2, 2, 1, 1])[0]
        text = self.expression(kind)
        if self.names[kind] and self.rng.random() < 0.2:
            name = self.rng.choice(self.names[kind])
            if name in ("W", "P"):
                return
        else:
            self.made += 1
            name = f"{kind}{self.made}"
        self.line(f"{name} = {text}")
        if name not in self.names[kind]:
            self.names[kind].append(name)

    def named(self, template: str) -> str:
        """The template on variables alone: what is written to or kept should be seen again."""
        template = template.replace("{m2}", self.rng.choice(self.names["m"]))
        first = self.rng.choice(self.names["m"])
        assigned = template.startswith(("{m} ", "{m}, "))  # to what is no variable, nothing can be assigned
        return self.filled(template.replace("{m}", first, 1) if assigned or self.rng.random() < 0.8 else template)

    def block(self, header: str, most: int = 2) -> None:
        self.line(header)
        before = {kind: list(names) for kind, names in self.names.items()}
        self.indent += 1
        for _ in range(self.rng.randint(1, most)):
            self.statement()
        self.line("pass")
        self.indent -= 1
        self.names = before

    def statement(self) -> None:
        choice = self.rng.choices(
            ["assign", "write", "statement", "branch", "loop", "scope", "step", "try", "break"],
            [8, 5, 2, 1.2, 0.7, 1, 0.5, 0.4, 0.25],
        )[0]
        nested = self.indent >= 3
        if nested and choice in ("branch", "loop", "scope", "try"):
            choice = "write"
        self.used[choice] += 1
        if choice == "assign":
            self.assign()
        elif choice in ("write", "statement"):
            self.line(self.named(self.rng.choice(_WRITES if choice == "write" else _STATEMENTS)))
        elif choice == "branch":
            self.block(f"if {self.rng.choice(_BRANCHES)}:")
            if self.rng.random() < 0.5:
                self.block("else:")
        elif choice == "loop":
            self.block(self.filled(self.rng.choice(_LOOPS), 2))
        elif choice == "scope":
            self.block(f"with {self.rng.choice(_SCOPES)}:")
        elif choice == "step":
            self.line(f"loss = (NET({self.expression('m', 2)}) ** 2).mean() + P.sum()")
            for text in ("OPT.zero_grad()", "loss.backward()", "OPT.step()"):
                self.line(text)
        elif choice == "try":
            self.block("try:")
            self.line("except (RuntimeError, IndexError) as error:")
            self.line("    LOG.append(type(error).__name__)")
        else:
            self.line(self.rng.choice(["tracer.graph_break()", "opaque(None)", "LOG.append(x.sum().item())"]))


def generate(seed: int) -> Program:
    """The program of a seed; the same in every process."""
    w = _Writer(seed)
    calls, gradients = w.rng.randint(2, 4), w.rng.random() < 0.5
    for _ in range(w.rng.randint(3, 9)):
        w.statement()
    shown = [name for names in w.names.values() for name in names if w.rng.random() < 0.5]
    w.line(f"return {{{', '.join(f'{name!r}: {name}' for name in shown)}}}, {w.expression('m')}")
    optimizer = f"OPT = torch.optim.{w.rng.choice(_OPTIMIZERS)}\n\n\n"
    main = "def main(x, y, z, k, f, flag):\n    n = x.shape[0]\n" + "\n".join(w.lines) + "\n\n\n"
    dynamic = w.rng.choice([None, None, None, True, False])
    source = PRELUDE + optimizer + main + _arguments(w.rng, gradients)
    return Program(seed, source, w.used, calls, dynamic, gradients, PRELUDE)


def _arguments(rng: random.Random, gradients: bool) -> str:
    """Sizes, strides, numbers, aliases and modes differ from call to call, or stay."""
    sizes, ints = rng.choice(_SIZES), rng.choice([[1, 2, 3, 0], [2, 2, 2, 2], [0, 5, 1, 2]])
    floats, flags = rng.choice([[1.5] * 4, [0.5, 2.5, 1.0, 3.0]]), rng.choice([[True] * 4, [True, False, True, False]])
    first = [rng.choice(_INPUTS)] * 4 if rng.random() < 0.7 else [rng.choice(_INPUTS) for _ in range(4)]
    second = rng.choice(_SECOND) if rng.random() < 0.3 else rng.choice(_INPUTS)
    lines = [
        "def arguments(call):",
        f"    n, k, f, flag = {sizes}[call], {ints}[call], {floats}[call], {flags}[call]",
        f"    x = [lambda: {', lambda: '.join(first)}][call]()",
    ]
    if second == "BASE[1:]":
        lines += ["    BASE = torch.randn(n + 1, 3)", "    x = BASE[:-1]"]
    if gradients and rng.random() < 0.7:
        lines.append(rng.choice(["    x.requires_grad_()", *["    x = x.clone().requires_grad_() * 1"] * 3]))
    lines.append(f"    y = {second}")
    if gradients and second in _INPUTS and rng.random() < 0.5:
        lines.append("    y.requires_grad_()")
    if rng.random() < 0.2:
        lines.append("    NET.train(flag)")
    third = rng.choice(["torch.randn(3)"] * 2 + ["BUFFER", "torch.randn(3, requires_grad=True)", "x.detach().sum(0)"])
    lines.append(f"    z = {third}")
    lines.append("    return (x, y, z, k, f, flag), {}")
    return "\n".join(lines) + "\n"
