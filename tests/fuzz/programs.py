"""Whole programs: what all of them share, a main function full of features, and arguments for several calls."""

from __future__ import annotations

import dataclasses
from collections import Counter

from tests.fuzz import features  # noqa: F401  (fills the table)
from tests.fuzz.grammar import Scope, Writer

PRELUDE = """\
import abc, collections, contextlib, copy, dataclasses, enum, functools, inspect, itertools, logging, math, operator, random
import re, string, types, typing, warnings, weakref
import torch, tracer
from tests.fuzz.opaque import calls, noted, opaque

LOG, OUTSIDE, KEPT, TABLE = [], [], [], {"first": 1}
G, LAST = 3, None
W = torch.arange(9.0).view(3, 3) / 4 - 0.5
STATE = types.SimpleNamespace(count=1, items=[4, 5], table={}, last=None)
torch.manual_seed(1)
NET = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


class Custom(Exception):
    def __str__(self):
        return f"custom {self.args!r}"


class Pair:
    __match_args__ = ("left", "right")
    count = 0

    def __init__(self, left, right):
        self.left, self.right = left, right

    def swapped(self, by):
        Pair.count += by
        return Pair(self.right, self.left)


PAIR = Pair(1, [2])


class Managed:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        LOG.append(("enter", self.value))
        return self.value

    def __exit__(self, kind, error, traceback):
        LOG.append(("exit", kind and kind.__name__))
        return False


class Swallows(Managed):
    def __exit__(self, kind, error, traceback):
        super().__exit__(kind, error, traceback)
        return kind is KeyError


@contextlib.contextmanager
def managed(value):
    LOG.append(("begin", value))
    try:
        yield value
    finally:
        LOG.append(("end", value))


def touch(items, value=0):
    items.append(value)
    return items


def shared(table, value):
    table["shared"] = value
    return table


@functools.lru_cache(maxsize=None)
def cached(value):
    return value * 2


@functools.lru_cache(maxsize=64)
def cached_list(value, *more, scale=1):
    return [value * scale, *more]


@functools.cache
def cached_table(key):
    return {key: [key], "size": 1, 0: (key, None)}


@functools.cache
def cached_tensor(size):
    return torch.arange(size) * 0.5


@functools.cache
def noted(value):
    LOG.append(("noted", value))
    return value + 1


@functools.cache
def settings():
    return {"count": 0, "names": []}


@functools.singledispatch
def dispatched(value):
    return "other"


@dispatched.register
def _(value: int):
    return f"int {value}"


@dispatched.register
def _(value: list):
    return f"list {len(value)}"


"""

_PARAMETERS = ("x", "y", "k", "n", "xs", "ts", "d", "s", "flag", "f")
_KINDS = {"tensor": "x y", "int": "k n", "list": "xs", "tensors": "ts", "dict": "d", "str": "s", "bool": "flag", "float": "f"}


@dataclasses.dataclass(frozen=True)
class Program:
    """`source` defines `main` and `arguments(call)`, the positional and keyword arguments of that call."""

    seed: int
    source: str
    used: Counter[str]
    calls: int
    dynamic: bool | None
    gradients: bool
    prelude: str = ""  # what the source begins with, as that of all others
    backend: str | None = None  # by default graphs run as they are

    @property
    def body(self) -> str:
        """The source without what all programs share."""
        return self.source.removeprefix(self.prelude)


def generate(seed: int) -> Program:
    """The program of a seed; the same in every process."""
    for attempt in range(20):
        program = _attempt(seed, Writer(f"{seed} {attempt}"))
        try:
            compile(program.source, "generated", "exec")
        except SyntaxError:  # a walrus where none may stand
            continue
        return program
    raise AssertionError(f"seed {seed} gives no program that compiles")


def _attempt(seed: int, w: Writer) -> Program:
    calls = w.number(2, 4)
    gradients = w.chance(0.15)
    dynamic = w.rng.choice([None, None, None, None, True, False])
    _main(w, gradients)
    arguments = _arguments(w, calls, gradients)
    main = w.finished(0 if w.chance(0.25) else w.rng.choice([1, 1, 1, 2]))
    return Program(seed, PRELUDE + main + arguments, w.used, calls, dynamic, gradients, PRELUDE)


def _main(w: Writer, gradients: bool) -> None:
    scope = Scope()
    w.scope = scope
    for kind, names in _KINDS.items():
        for name in names.split():
            w.bind(kind, name)
    w.line("def main(x, y, k, n=2, *, xs, ts, d, s='text', flag=True, f=1.5):")
    w._out.indent += 1
    if gradients:
        w.line("x, y = x * 1.5, y + 0.5")
    w.assign("tensor", w.expr("tensor"))
    for _ in range(w.number(4, 9)):
        w.statement()
    w.mark()
    kept = [name for names in w.scope.names.values() for name in names]
    results = [name for name in kept if w.chance(0.35)]
    w.line(f"return {{{', '.join(f'{name!r}: {name}' for name in results)}}}, {w.expr('tensor')}")
    w._out.indent -= 1


def _arguments(w: Writer, calls: int, gradients: bool) -> str:
    """Sizes, numbers, lengths and aliases differ from call to call, or stay; some objects are passed again."""
    lines = ["", "HELD = {}", "", "", "def arguments(call):"]
    sizes = w.rng.choice([[2, 2, 3, 4], [2, 3, 5, 7], [3, 1, 2, 3], [2, 2, 2, 2], [1, 4, 4, 2], [3, 0, 2, 3]])
    ints = w.rng.choice([[1, 2, 3, 4], [2, 2, 2, 2], [0, 5, 1, -2], [3, 3, 8, 9], [4, True, 4, 5]])
    more = w.rng.choice([[2, 2, 2, 2], [7, 7, 6, 5], [-1, 3, 0, 1]])
    texts = w.rng.choice([["text"] * 4, ["a b", "xax", "", "a b"]])
    lengths = w.rng.choice([[3, 3, 3, 3], [2, 3, 4, 1], [3, 0, 1, 2]])
    floats = w.rng.choice([[1.5] * 4, [0.5, 2.5, -1.0, 0.0], [2.0, 2.0, 3.0, 4.0]])
    grad = ".requires_grad_()" if gradients else ""
    lines.append(f"    size, k, n, s = {sizes}[call], {ints}[call], {more}[call], {texts!r}[call]")
    lines.append(
        f"    length, f, flag = {lengths}[call], {floats}[call], {w.rng.choice([[True] * 4, [True, False, True, False]])}[call]"
    )
    lines.append(f"    x = torch.randn(size, 3){grad}")
    other = w.rng.choice(
        ["torch.randn(size, 3)"] * 4
        + ["x", "torch.randn(3, size).t()", "x.detach()[:]", "torch.randn(size, 3, dtype=torch.float64)"]
    )
    lines.append(f"    y = {other}" + (grad if other.startswith("torch") and ".t()" not in other else ""))
    lines.append("    xs = [(i * 7 + k) % 10 for i in range(length)]")
    lines.append("    ts = [torch.randn(size, 3), " + w.pick("x", "torch.randn(size, 3)") + "]")
    lines.append("    d = {'b': n, 'a': k}")
    if w.chance(0.2):
        lines.append("    xs = HELD.setdefault('xs', xs)")
    if w.chance(0.2):
        lines.append("    d = HELD.setdefault('d', d)")
    lines.append(f"    return (x, y, k), dict({w.pick('n=n, ', '')}xs=xs, ts=ts, d=d{w.pick('', ', s=s, flag=flag, f=f')})")
    return "\n".join(lines) + "\n"
