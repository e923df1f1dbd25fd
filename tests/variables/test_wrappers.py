"""Tensors whose class has a `__torch_dispatch__` of its own: operations on them are nodes of the graph where it only computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_map

from tests.support import captured_made, check_made
from tests.support.wrappers import (
    ByParts,
    Scaled,
    Summing,
    WithoutFunction,
    assert_same,
    captured_wrappers,
    check_wrappers,
    plain,
    wrapper_and_tensor,
)
from tracer import optimize

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Unwrapping(Scaled):
    """Gives plain tensors."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))


class InSlots(Scaled):
    __slots__ = ("more",)

    def __init__(self, inner: torch.Tensor, scale: float = 1.0) -> None:
        super().__init__(inner, scale)
        self.more = inner * 2

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return cls(func(args[0].more, *args[1:]))


class WithFunction(Scaled):
    """Has a `__torch_function__`, too."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.sin:
            return "a sine"
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


GLOBAL = Scaled(X.clone(), 5.0)


class Weighted(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: torch.Tensor) -> Any:
        return F.linear(x, self.weight), isinstance(self.weight, nn.Parameter)


MODULE = Weighted(Scaled(torch.ones(5, 4), 2.0))


def of_two(w: Scaled, x: torch.Tensor) -> Any:
    pair = TwoTensor(x, x * 2).sin() + x
    return pair.a, pair.b, pair, pair.a is pair.a


def written(w: Scaled, x: torch.Tensor) -> Any:
    pair = TwoTensor(x, x.clone())
    view = pair.view(-1)
    view.mul_(2)
    pair.add_(1)
    return pair, view, x


def inner_written(w: Scaled, x: torch.Tensor) -> Any:
    w.inner.mul_(2)
    y = w + 1
    x.add_(y.inner)
    return y, w


def parts_behind_an_operation(w: Scaled, x: torch.Tensor) -> Any:
    made = w * 2
    return made + 1, made.inner * 3


def listed(w: Scaled, x: torch.Tensor) -> Any:
    found = []
    for each in (w, w + 1, x):
        found.append(each * 2)
    return found


PROGRAMS = {
    "an argument": lambda w, x: (w * 2 + x, type(w * 2)),
    "beside plain tensors": lambda w, x: (x.sin() + w, x.cos()),
    "its parts": lambda w, x: (w.inner * w.scale, w.scale + 1, (w * 2).inner, (w * 2).scale),
    "its metadata": lambda w, x: (w.shape, w.stride(), w.dtype, w.dim(), w.requires_grad, isinstance(w, torch.Tensor), w + 1),
    "made here": lambda w, x: (Scaled(x.sin(), 3.0) * 2, x.cos()),
    "made here, not used by torch": lambda w, x: (Scaled(x.sin(), 3.0).inner, x.cos()),
    "made here, by keyword": lambda w, x: Scaled(inner=x.sin(), scale=w.scale),
    "in a list": lambda w, x: [torch.cat(pair) for pair in ([w, x], [x, w])],
    "a global": lambda w, x: GLOBAL + x,
    "a parameter": lambda w, x: MODULE(x),
    "without functions overridden": lambda w, x: WithoutFunction(x) @ x.t(),
    "functions overridden, too": lambda w, x: (WithFunction(x).sin(), WithFunction(x) * 2, torch.cos(WithFunction(x))),
    "a method of torch": lambda w, x: w.view(-1).sum(),
    "a method of its own": lambda w, x: (w.plain(), (w + 1).plain(), w.doubled),
    "a composite function": lambda w, x: F.layer_norm(F.linear(x, w, None), (3,)),
    "methods that are overridden": lambda w, x: (Summing(x, 2.0).dequantize(), Summing(x).detach(), F.linear(x, Summing(x) * 2)),
    "slots": lambda w, x: ((InSlots(x) * 2).more, InSlots(x).more),
    "several results": lambda w, x: w.chunk(2, 1),
    "rows": lambda w, x: [row + 1 for row in w],
    "subscripts": lambda w, x: (w[0], w[:, 1:3], w[None]),
    "attributes of torch": lambda w, x: (w.T, w.mT),
    "results that are no tensors": lambda w, x: (w.is_contiguous(), (w + 1).numel(), w.element_size()),
    "plain results": lambda w, x: Unwrapping(x, 3.0) * 2 + x,
    "the same tensor again": lambda w, x: (w, w + 1, [w]),
    "under no_grad": torch.no_grad()(lambda w, x: w * 2),
    "in another precision": lambda w, x: w.to(torch.float64) + 1,
}


PROGRAMS |= {f.__name__: f for f in (of_two, written, inner_written, listed, parts_behind_an_operation)}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_operations_are_captured(name: str, dynamic: bool | None) -> None:
    assert captured_wrappers(PROGRAMS[name], dynamic=dynamic).error is None


# -- changes in place, failures, aliases -----------------------------------------------------------------------------------


def _two(**options: Any) -> TwoTensor:
    return TwoTensor(X.clone(), X * 2, **options)


class InPlace(Scaled):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.mul_.Tensor:
            args[0].inner.mul_(args[1])
            return args[0]
        if func is torch.ops.aten.index.Tensor:
            return cls(args[0].inner[args[1][0]])
        return super().__torch_dispatch__(func, types, args, kwargs)


def _fails_behind_a_change(w: Any, index: torch.Tensor) -> Any:
    w.mul_(2)
    return w[index]


@pytest.mark.parametrize("cls", [InPlace, TwoTensor])
@pytest.mark.parametrize("index", [1, 7])
def test_a_change_in_place_is_made_once_when_the_graph_fails_behind_it(cls: Any, index: int) -> None:
    def make() -> Any:
        return (_two() if cls is TwoTensor else InPlace(X.clone()), torch.tensor([0, index])), {}

    seen = check_wrappers(_fails_behind_a_change, make)
    assert not seen.breaks and (seen.error is None) is (index == 1) and bool(seen.raised) is (index == 7)


ON_TWO = {
    "in place": lambda a, b: (a.mul_(2), a, b + 1),
    "through a view": lambda a, b: (a.view(-1).mul_(2), a),
    "through detach": lambda a, b: (a.detach().mul_(2), a),
    "an item": lambda a, b: (a.__setitem__(0, 5), a.__setitem__(1, b[0]), a),
    "a part": lambda a, b: (a.a.mul_(2), a + 1, b),
    "both": lambda a, b: (a.add_(b), b.mul_(a)),
}


@pytest.mark.parametrize("how", ["apart", "the same", "the same parts"])
@pytest.mark.parametrize("name", ON_TWO)
def test_writes_reach_what_they_reach_in_python(name: str, how: str) -> None:
    def make() -> Any:
        first = _two()
        other = {"apart": _two(), "the same": first, "the same parts": TwoTensor(first.a, first.b)}[how]
        return (first, other), {}

    captured_wrappers(ON_TWO[name], make)


def test_a_wrapper_around_an_argument_sees_what_is_written_to_it() -> None:
    def make() -> Any:
        x = X.clone()
        return (Scaled(x, 2.0), x), {}

    captured_wrappers(lambda w, x: (x.mul_(2), w + 1), make)


@pytest.mark.parametrize("cls", [Scaled, WithoutFunction, WithFunction])
def test_an_operation_is_done_on_the_very_wrapper(cls: Any) -> None:
    def program(w: Scaled) -> Any:
        w.inner.add_(2)
        y = w * 2
        w.inner.add_(1)
        return y, w.mul(3), w

    captured_wrappers(program, lambda: ((cls(X.clone(), 2.0),), {}))


# -- gradients -------------------------------------------------------------------------------------------------------------

WITH_GRADIENTS = {
    "elementwise": lambda w, x: (w * x).sin(),
    "a layer": lambda w, x: F.linear(x, w).relu(),
    "a view": lambda w, x: w.view(-1) * x.view(-1),
    "a product": lambda w, x: (w @ x.t()).softmax(-1),
    "a composite function": lambda w, x: F.layer_norm(w, (4,)) * x,
    "a part": lambda w, x: (w * 2).a * x,
    "detached": lambda w, x: w.detach() * x,
    "what was computed before": lambda w, x: w * x,
}


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_flow_through_graphs(name: str) -> None:
    program = WITH_GRADIENTS[name]

    def run(function: Any) -> Any:
        w, x = _two().requires_grad_(), X.clone().requires_grad_()
        used = w.cos() if "before" in name else w
        result = function(used, x)
        result.sum().backward()
        return result.detach(), w.grad, x.grad

    assert_same(run(program), run(optimize("eager", fullgraph=True)(program)))


def test_an_optimizer_trains_a_parameter_that_is_a_wrapper() -> None:
    def run(make: Any) -> Any:
        torch.manual_seed(0)
        module = nn.Linear(4, 3)
        module.weight = nn.Parameter(TwoTensor(module.weight.detach(), module.weight.detach() * 2))
        step, optimizer = make(module), torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            step(X).sum().backward()
            optimizer.step()
        return list(module.parameters())

    assert_same(run(lambda module: module), run(optimize("eager", fullgraph=True)))


def test_a_backward_pass_inside_breaks_the_graph() -> None:
    def program(pair: TwoTensor, y: torch.Tensor) -> Any:
        (pair.sin() * y).sum().backward()
        return pair.grad.a, y.grad

    assert check_wrappers(program, lambda: ((_two().requires_grad_(), X.clone().requires_grad_()), {})).break_ids == [
        "tensor-subclass"
    ]


# -- wrappers around wrappers ----------------------------------------------------------------------------------------------


def test_wrappers_around_wrappers() -> None:
    def make() -> Any:
        return (TwoTensor(Scaled(X.clone(), 2.0), Scaled(X * 3)), X.clone()), {}

    captured_wrappers(lambda w, x: ((w * 2 + x).a.inner, w.b, w - 1), make)


class Layer(WithFunction):
    """In `F.linear`, its `__torch_function__` computes with the tensor inside."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            return (args[0] @ args[1].inner.t()) * args[1].scale
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiling_backends_are_told_of_the_parts_alone(dynamic: bool | None) -> None:
    make = lambda: ((Layer(X.clone(), 2.0), X.clone()), {})
    seen = captured_made(lambda w, x: (F.linear(x, w), w.shape, w), make, dynamic=dynamic, comparison=ByParts)
    assert seen.operations[-3:] == ["t", "matmul", "mul"]


def test_compiling_backends_leave_operations_on_wrappers_that_cannot_be_taken_apart_to_python() -> None:
    def program(w: Scaled, x: torch.Tensor) -> Any:
        return w * 2 + x, x.sin(), w.inner + 1

    assert check_made(program, wrapper_and_tensor, comparison=ByParts).breaks
    args, _ = wrapper_and_tensor()
    assert_same(program(*args), optimize("aot_eager")(program)(*args))
