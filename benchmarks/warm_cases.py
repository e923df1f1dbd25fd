"""The programs whose warm calls are timed. Each gives, for a decorator, a call without arguments: the same for all sides."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from benchmarks.demo_models import Request, build

Decorator = Callable[..., Any]  # decorate(fn) or decorate(fn, dynamic=...)
Call = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class WarmCase:
    """One program; `bar` is what the ratio to torch.compile has to be at most."""

    name: str
    make: Callable[[Decorator], Call]
    bar: float | None
    by_dispatch: bool = False  # eager takes so long that a difference to it says nothing: the bar is on dispatch
    entries: int = 1  # how many calls make them all


CASES: dict[str, WarmCase] = {}


def warm(
    name: str, bar: float | None, *, by_dispatch: bool = False, entries: int = 1
) -> Callable[[Callable[[Decorator], Call]], Callable[[Decorator], Call]]:
    """Registers a program."""

    def register(make: Callable[[Decorator], Call]) -> Callable[[Decorator], Call]:
        CASES[name] = WarmCase(name, make, bar, by_dispatch, entries)
        return make

    return register


def _tensors(count: int) -> list[torch.Tensor]:
    return [torch.ones(4) for _ in range(count)]


@warm("one-line function", 0.03)
def _one_line(decorate: Decorator) -> Call:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    call, x = decorate(f), torch.ones(4)
    return lambda: call(x)


@warm("ten tensors", 0.05)
def _ten(decorate: Decorator) -> Call:
    def f(a: Any, b: Any, c: Any, d: Any, e: Any, g: Any, h: Any, i: Any, j: Any, k: Any) -> Any:
        return a + b + c + d + e + g + h + i + j + k

    call, xs = decorate(f), _tensors(10)
    return lambda: call(*xs)


@warm("list of 100 tensors", None)
def _hundred(decorate: Decorator) -> Call:
    def f(xs: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(xs)

    call, xs = decorate(f), _tensors(100)
    return lambda: call(xs)


@warm("module of 200 parameters", 0.05, by_dispatch=True)
def _two_hundred(decorate: Decorator) -> Call:
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(100)])
    call, x = decorate(model), torch.ones(2, 4)
    return lambda: call(x)


@warm("graph break", 0.15)
def _broken(decorate: Decorator) -> Call:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y

    call, x = decorate(f), torch.ones(4)
    return lambda: call(x)


@warm("four symbolic guards", 0.05)
def _symbolic(decorate: Decorator) -> Call:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = x.shape
        c = y.shape[0]
        if a > 2 and b * 2 > a + 1 and c < 100 and a + b + c > 7:
            return x + 1
        return x

    call, x, y = decorate(f, dynamic=True), torch.ones(4, 6), torch.ones(9)
    return lambda: call(x, y)


@warm("dict input", 0.05)
def _dict(decorate: Decorator) -> Call:
    def f(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return batch["a"] + batch["b"] * batch["c"]

    call, batch = decorate(f), dict(zip("abc", _tensors(3)))
    return lambda: call(batch)


@dataclasses.dataclass
class _Batch:
    a: torch.Tensor
    b: torch.Tensor
    scale: float


@warm("dataclass input", 0.05)
def _dataclass(decorate: Decorator) -> Call:
    def f(batch: _Batch) -> torch.Tensor:
        return batch.a + batch.b * batch.scale

    call, batch = decorate(f), _Batch(*_tensors(2), 2.0)
    return lambda: call(batch)


@warm("int and float arguments", None)
def _numbers(decorate: Decorator) -> Call:
    def f(x: torch.Tensor, n: int, scale: float) -> torch.Tensor:
        return x * scale + n

    call, x = decorate(f), torch.ones(4)
    return lambda: call(x, 3, 0.5)


@warm("keywords and defaults", 0.05)
def _keywords(decorate: Decorator) -> Call:
    def f(x: torch.Tensor, y: torch.Tensor | None = None, *, scale: float = 2.0, shift: int = 1) -> torch.Tensor:
        return x * scale + shift

    call, x = decorate(f), torch.ones(4)
    return lambda: call(x=x, scale=3.0)


class _Owner:
    def __init__(self) -> None:
        self.weight = torch.ones(4)

    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


@warm("bound method", 0.05)
def _bound(decorate: Decorator) -> Call:
    call, x = decorate(_Owner().method), torch.ones(4)
    return lambda: call(x)


def _round_robin(call: Callable[..., object], arguments: Iterable[tuple[Any, ...]]) -> Call:
    following = itertools.cycle(arguments).__next__
    return lambda: call(*following())


def _by_constant(decorate: Decorator, entries: int) -> Call:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + n

    x = torch.ones(4)
    return _round_robin(decorate(f, dynamic=False), [(x, n) for n in range(entries)])


def _by_size(decorate: Decorator, entries: int) -> Call:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    return _round_robin(decorate(f, dynamic=False), [(torch.ones(n),) for n in range(2, 2 + entries)])


for _entries, _bar in ((1, None), (8, 0.05), (64, None)):
    for _what, _make in (("constant", _by_constant), ("size", _by_size)):
        warm(f"{_entries} entries by {_what}", _bar, entries=_entries)(
            lambda decorate, make=_make, entries=_entries: make(decorate, entries)  # type: ignore[misc]
        )


def _demo(decorate: Decorator, name: str) -> Call:
    model = decorate(build(name, 2))
    inputs = Request(2, 12, 0).inputs()
    return lambda: model(**inputs)


for _name in ("bert", "llama"):
    warm(f"demo {_name}, 2 layers", None, by_dispatch=True)(
        lambda decorate, name=_name: _demo(decorate, name)  # type: ignore[misc]
    )
