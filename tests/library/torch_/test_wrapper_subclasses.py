"""Tensors that wrap others and see operations through a `__torch_dispatch__` that does more than compute, or where a backend
compiles: the graph breaks, and the program runs right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support import check_made
from tests.support.wrappers import ByParts, Scaled

SEEN: list[str] = []
X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Noting(Scaled):
    """Notes which of its methods are called."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


class WithoutFunction(Noting):
    __torch_function__ = torch._C._disabled_torch_function_impl


GLOBAL = Noting(X.clone(), 5.0)


class WithWrappedWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(Noting(torch.ones(4), 2.0), requires_grad=False)

    def forward(self, x: torch.Tensor) -> Any:
        return (x * self.weight).sum(0), isinstance(self.weight, nn.Parameter)


class Shifted(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result + 1 if "sin" in str(func) else result


def in_a_mode(w: Noting, x: torch.Tensor) -> Any:
    with Shifted():
        y = x.sin()
    return y * 2, x.sin()


def seen_by_it(w: Noting, x: torch.Tensor) -> Any:
    SEEN.clear()
    y = (w * 2).sum()
    return list(SEEN), y


def changed(w: Noting, x: torch.Tensor) -> Any:
    w.scale = 7.0
    w.inner.mul_(2)
    x.add_(w.inner)
    return w * 2, w


def of_two(w: Noting, x: torch.Tensor) -> Any:
    pair = TwoTensor(x, x * 2).sin() + x
    return pair.a, pair.b, pair


PROGRAMS = {
    "an argument": lambda w, x: (w * 2 + x, type(w * 2)),
    "returned as it is": lambda w, x: (w, x + 1),
    "beside plain tensors": lambda w, x: (x.sin() + w, x.cos()),
    "its parts": lambda w, x: (w.inner * w.scale, w.scale + 1),
    "its metadata": lambda w, x: (w.shape, w.stride(), w.dtype, w.dim(), w.requires_grad, isinstance(w, torch.Tensor), x + 1),
    "made here": lambda w, x: (Noting(x.sin(), 3.0) * 2, x.cos()),
    "made here, not used by torch": lambda w, x: (Noting(x.sin(), 3.0).inner, x.cos()),
    "in a list": lambda w, x: [torch.cat(pair) for pair in ([w, x], [x, w])],
    "a global": lambda w, x: GLOBAL + x,
    "a parameter": lambda w, x: WithWrappedWeight()(x),
    "without functions overridden": lambda w, x: WithoutFunction(x) @ x.t(),
    "a method": lambda w, x: w.view(-1).sum(),
}
PROGRAMS |= {f.__name__: f for f in (in_a_mode, seen_by_it, changed, of_two)}
CAPTURED = ("returned as it is", "its parts", "its metadata", "of_two")


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_graph_breaks_and_results_are_right(name: str, dynamic: bool | None) -> None:
    checked = check_made(PROGRAMS[name], lambda: ((Noting(X.clone(), 2.0), X.clone()), {}), dynamic=dynamic, comparison=ByParts)
    assert checked.error is None and bool(checked.breaks) is (name not in CAPTURED)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_dispatch_does_is_done_once_where_graphs_run_as_they_are_written(name: str) -> None:
    made = check_made(
        PROGRAMS[name], lambda: ((Noting(X.clone(), 2.0), X.clone()), {}), comparison=ByParts, as_written=True, reset=SEEN.clear
    )
    assert made.error is None and not made.raised


@pytest.mark.parametrize("scales", [(2.0, 3.0), (3.0, 2.0)])
def test_what_a_wrapper_holds_is_read_at_every_call(scales: tuple[float, ...]) -> None:
    from tracer import optimize

    run = optimize("eager")(lambda w, x: (w + x).inner)
    for scale in scales:
        assert torch.equal(run(Noting(X, scale), X), X * scale + X)


def test_gradients_of_a_wrapper() -> None:
    def program(pair: TwoTensor, y: torch.Tensor) -> Any:
        (pair.sin() * y).sum().backward()
        return pair.grad.a, y.grad

    def make() -> Any:
        return (TwoTensor(X.clone(), X * 2).requires_grad_(), X.clone().requires_grad_()), {}

    checked = check_made(program, make, comparison=ByParts)
    assert checked.error is None
