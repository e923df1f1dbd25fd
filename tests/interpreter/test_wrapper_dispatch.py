"""The `__torch_dispatch__` of wrappers is traced: one that does more than compute is left to Python; what it reads is guarded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from tests.support.wrappers import Scaled, Summing, WithoutFunction, assert_same, check_wrappers
from tracer import optimize, stats

X = torch.linspace(-1, 1, 12).reshape(3, 4)
SETTINGS = {"scale": 2.0}
CALLS: list[str] = []


class Noting(Scaled):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        CALLS.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


class Counting(Scaled):
    """Counts in the tensor how often it was used."""

    used = 0

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args[0].used += 1
        return super().__torch_dispatch__(func, types, args, kwargs)


class OfData(Scaled):
    """Looks at the data."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args[0].inner.sum() > 100:
            return args[0].inner
        return super().__torch_dispatch__(func, types, args, kwargs)


class Refusing(Scaled):
    """Knows one operator."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.sin.default:
            return cls(args[0].inner.sin())
        if func in (torch.ops.aten.detach.default, torch.ops.aten.clone.default):
            return cls(func(args[0].inner))
        raise NotImplementedError(f"no {func.__name__}")


class Adding(Scaled):
    """Overrides an operator."""

    def __add__(self, other: Any) -> Any:
        return "a sum"


class Remembering(Scaled):
    """Is changed by an operation in place."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.mul_.Tensor:
            args[0].scale = args[0].scale * args[1]
            return args[0]
        return super().__torch_dispatch__(func, types, args, kwargs)


class BySettings(Scaled):
    """Its result has a size that is read from a global."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        return cls(torch.cat([result.inner] * int(SETTINGS["scale"])))


class Listing(Scaled):
    """Keeps a list."""

    def __init__(self, inner: torch.Tensor, scales: list[float]) -> None:
        super().__init__(inner)
        self.scales = scales

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return cls(func(args[0].inner, *args[1:]) + sum(args[0].scales), args[0].scales)

    @staticmethod
    def __new__(cls, inner: torch.Tensor, scales: list[float]) -> Scaled:
        return Scaled.__new__(cls, inner)


# -- where the graph breaks ------------------------------------------------------------------------------------------------


def notes(w: Scaled, x: torch.Tensor) -> Any:
    CALLS.clear()
    y = Noting(x) * 2
    return y, list(CALLS), y + 1, list(CALLS)


def counts(w: Scaled, x: torch.Tensor) -> Any:
    counted = Counting(x)
    y = counted * 2
    return y, counted.used, counted


def changes_what_it_reads(w: Scaled, x: torch.Tensor) -> Any:
    w.scale = 7.0
    y = w * 2
    w.scale = 8.0
    return y, w + 1, w


def changes_a_setting(w: Scaled, x: torch.Tensor) -> Any:
    SETTINGS["scale"] = 3.0
    y = BySettings(x) * 2
    SETTINGS["scale"] = 2.0
    return y.shape, (BySettings(x) * 2).shape


def changes_one_made_here(w: Scaled, x: torch.Tensor) -> Any:
    made = w * 2
    made.scale = 5.0
    return made + 1, made.plain()


def its_data(w: Scaled, x: torch.Tensor) -> Any:
    return (w.sum().item() if isinstance(w, TwoTensor) else (w * 2).tolist()), x + 1


def keeps_a_list(w: Scaled, x: torch.Tensor) -> Any:
    scales = [1.0, 2.0]
    made = Listing(x, scales)
    y = made * 2
    scales.append(3.0)
    return y, made + 1, scales, made.scales is scales


BREAKING = {
    "one that changes itself": lambda w, x: Remembering(x).mul_(2).scale + (Remembering(x) * 1).mul_(3).scale,
    "an operator that is refused": lambda w, x: _error(lambda: Refusing(x).sin().cos()),
    "a method that is overridden": lambda w, x: Summing(x).sum(),
    "torch's code that calls methods that are overridden": lambda w, x: F.relu(Summing(x)),
    "an operator that is overridden": lambda w, x: (Adding(x) + 1, Adding(x) * 2),
    "torch's own method of one that has no data": lambda w, x: (_error(lambda: torch.Tensor.tolist(w)), x + 1),
    "a dispatch that reads data": lambda w, x: OfData(x) + 1,
    "as another class": lambda w, x: w.as_subclass(torch.Tensor).shape,
    "text": lambda w, x: (repr(w.inner), x + 1),
    "a hook": lambda w, x: (w * 2).requires_grad_().register_hook(lambda g: None) is None,
    "torch.func": lambda w, x: torch.vmap(lambda row: row * 2)(x) + torch.vmap(lambda row: (row + w).sum())(x).inner,
    "made from it": lambda w, x: (torch.tensor([1.0]), nn.Parameter(w * 2).requires_grad),
}
_BREAKING = (notes, counts, changes_what_it_reads, changes_a_setting, changes_one_made_here, its_data, keeps_a_list)


BREAKING |= {f.__name__: f for f in _BREAKING}


def _error(fn: Any) -> str:
    try:
        return str(fn())
    except (NotImplementedError, RuntimeError) as error:
        return f"error {type(error)}"


@pytest.mark.parametrize("name", BREAKING)
def test_what_does_more_than_compute_is_left_to_python(name: str) -> None:
    def reset() -> None:
        SETTINGS["scale"] = 2.0
        CALLS.clear()

    result = check_wrappers(BREAKING[name], reset=reset)
    assert result.breaks and not result.raised


# -- guards ----------------------------------------------------------------------------------------------------------------


def _recompiles(program: Any, *calls: Any, **options: Any) -> int:
    """How many graphs the calls after the first one added; all give what CPython gives."""
    run = optimize("eager", **options)(program)
    for number, make in enumerate(calls):
        assert_same(program(*make()), run(*make()))
        if number == 0:
            first = stats(run)["compiles"]
    return stats(run)["compiles"] - first


@pytest.mark.parametrize(
    "other",
    {
        "another class": lambda: WithoutFunction(X),
        "another dtype": lambda: Scaled(X.double()),
        "other strides": lambda: Scaled(X.t().contiguous().t()),
        "a part of another class": lambda: Scaled(Scaled(X)),
        "a part that requires a gradient": lambda: Scaled(X.clone().requires_grad_()),
        "another number in it": lambda: Scaled(X, 3.0),
        "a plain tensor": lambda: X,
    }.items(),
    ids=lambda pair: pair[0],
)
def test_what_a_wrapper_is_and_holds_is_guarded(other: Any) -> None:
    assert _recompiles(lambda w: w * 2 + 1, lambda: (Scaled(X, 2.0),), lambda: (other[1](),), lambda: (Scaled(X * 2, 2.0),)) == 1


@pytest.mark.parametrize("make", [lambda x: Scaled(x, 2.0), lambda x: TwoTensor(x, x * 2)], ids=["one part", "two"])
@pytest.mark.parametrize(("dynamic", "more"), [(None, 1), (True, 0), (False, 4)])
def test_one_graph_serves_batches_of_all_sizes(make: Any, dynamic: bool | None, more: int) -> None:
    calls = [lambda size=size: (make(torch.linspace(-1, 1, size * 4).reshape(size, 4)),) for size in (3, 5, 7, 9, 11)]
    assert _recompiles(lambda w: (w * 2).view(-1).sin() + w.shape[0], *calls, dynamic=dynamic) == more


@pytest.mark.parametrize("name", ["__torch_dispatch__", "plain"])
def test_a_patched_class_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def program(w: Scaled) -> Any:
        doubled = w * 2
        return doubled.shape, doubled.inner.sum()

    class Patched(Scaled):
        pass

    run = optimize("eager", fullgraph=True)(program)
    assert_same(program(Patched(X)), run(Patched(X)))
    if name == "plain":
        monkeypatch.setattr(Scaled, "plain", lambda self: torch.cat([self.inner, self.inner]))
    else:
        monkeypatch.setattr(Patched, "__torch_dispatch__", classmethod(lambda cls, *args: cls(torch.ones(7))), raising=False)
    assert_same(program(Patched(X)), run(Patched(X)))
    assert program(Patched(X))[0] != X.shape


def test_a_global_that_a_dispatch_reads_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    program = lambda w: (w * 2).shape
    run = optimize("eager", fullgraph=True)(program)
    for scale in (2.0, 3.0):
        monkeypatch.setitem(SETTINGS, "scale", scale)
        assert run(BySettings(X)) == program(BySettings(X)) == (int(scale) * 3, 4)
