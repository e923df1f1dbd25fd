"""Tensors with a `__torch_dispatch__` of their own under backends that compile: AOTAutograd runs it while it traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.two_tensor import TwoTensor

from tests.support.flat_wrappers import Aliased, Flat, WithBias, X, break_of, compare
from tracer import graph_break, optimize, stats


def _plain(rows: int) -> torch.Tensor:
    return torch.linspace(-1, 1, rows * 4).reshape(rows, 4)


KINDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "two": lambda x: TwoTensor(x.clone(), x * 2),
    "flat": lambda x: Flat(x.clone(), 2.0),
    "aliased": lambda x: Aliased(x.clone(), 2.0),
    "nested": lambda x: TwoTensor(Flat(x.clone(), 2.0), Flat(x * 3, 4.0)),
    "nested twice": lambda x: Aliased(TwoTensor(TwoTensor(x.clone(), x + 1), TwoTensor(x * 3, x * 4)), 3.0),
}


def _batches(kind: str) -> list[Callable[[], Any]]:
    return [lambda rows=rows: (KINDS[kind](_plain(rows)), _plain(rows)) for rows in (3, 5, 7)]


PROGRAMS = {
    "arithmetic": lambda w, x: (w * 2 + 1, x.sin()),
    "a view": lambda w, x: (w.view(-1) + 1, w.t()),
    "a matrix product": lambda w, x: w @ w.t(),
    "sizes": lambda w, x: (w.view(-1) * w.shape[0], w.shape, w.dim()),
    "several results": lambda w, x: w.unbind(1),
    "itself": lambda w, x: (w, w + 1, [w]),
    "used twice": lambda w, x: (w + 1) * (w + 1) + w,
    "a composite function": lambda w, x: F.softmax(w.relu(), -1),
    "a constant result": lambda w, x: ((w + 1).numel(), x * 2),
    "under no_grad": torch.no_grad()(lambda w, x: w * 2),
}


@pytest.mark.parametrize(("dynamic", "compiles"), [(None, 2), (True, 1)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_has_the_operations_and_serves_all_batches(name: str, kind: str, dynamic: bool | None, compiles: int) -> None:
    seen = compare(PROGRAMS[name], *_batches(kind), dynamic=dynamic, fullgraph=True)
    assert seen["compiles"] == compiles


OF_TWO = {
    "made here": lambda w, x: TwoTensor(x.sin(), x.cos()) * 2,
    "made here, and taken apart": lambda w, x: (TwoTensor(x.sin(), x.cos()) * w).a,
    "nested here": lambda w, x: TwoTensor(TwoTensor(x, x + 1), TwoTensor(x, x * 2)) + w,
    "parts of a result": lambda w, x: ((w * 2).a, w.sin().b + x),
    "parts of an argument": lambda w, x: (w.a * w, w.b),
    "beside plain tensors": lambda w, x: torch.cat([w, x]),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", OF_TWO)
def test_wrappers_are_made_and_taken_apart_in_the_graph(name: str, dynamic: bool | None) -> None:
    seen = compare(OF_TWO[name], *_batches("two"), dynamic=dynamic, fullgraph=True)
    assert seen["compiles"] == (1 if dynamic else 2)


# -- writes, and memory that is shared ---------------------------------------------------------------------------------------


WRITES = {
    "in place": lambda w, x: (w.mul_(2), w, x + 1),
    "through a view": lambda w, x: (w.view(-1).mul_(2), w),
    "through detach": lambda w, x: (w.detach().mul_(2), w + 1),
    "then read": lambda w, x: (w.mul_(2) + 1, w * 3),
}
SHARING: dict[str, Callable[[], Any]] = {
    "apart": lambda: (Aliased(X.clone(), 2.0), X.clone()),
    "the same memory": lambda: _around(X.clone()),
    "a row of it": lambda: _around(X.clone(), 1),
}


def _around(x: torch.Tensor, row: int | None = None) -> Any:
    return Aliased(x, 2.0), x if row is None else x[row]


@pytest.mark.parametrize("cls", [Aliased, TwoTensor])
@pytest.mark.parametrize("name", WRITES)
def test_writes_reach_the_tensors_inside(name: str, cls: Any) -> None:
    make = lambda: (cls(X.clone(), 2.0) if cls is Aliased else cls(X.clone(), X * 2), X.clone())
    assert not compare(WRITES[name], make, make)["breaks"]


@pytest.mark.parametrize("how", SHARING)
@pytest.mark.parametrize(
    "program",
    [lambda w, x: (w.mul_(2), x + 1), lambda w, x: (x.mul_(2), w + 1), lambda w, x: (w.inner.mul_(3), w + 1, x * 2)],
    ids=["to the wrapper", "to the other", "to the inside"],
)
def test_what_shares_memory_with_the_inside_sees_a_write(program: Any, how: str) -> None:
    compare(program, SHARING[how], SHARING[how])


def test_memory_that_is_shared_at_a_later_call_is_noticed() -> None:
    program = lambda w, x: (x.mul_(2), w + 1)
    compare(program, SHARING["apart"], SHARING["the same memory"], SHARING["apart"], SHARING["a row of it"])


@pytest.mark.parametrize("cls", [Flat, Aliased])
@pytest.mark.parametrize("writes", [True, False])
def test_a_result_that_is_a_view_shares_memory_as_in_python(cls: Any, writes: bool) -> None:
    def program(w: Any) -> Any:
        if writes:
            w.mul_(2)
        return w.view(-1), w + 0

    def run(function: Any) -> Any:
        w = cls(X.clone(), 2.0)
        view, other = function(w)
        w.inner.add_(5)
        return view.inner, other.inner

    for expected, seen in zip(run(program), run(optimize("aot_eager")(program)), strict=True):
        assert torch.equal(expected, seen)


# -- tensors inside of other sizes, and missing ones -------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [None, True])
def test_tensors_inside_have_sizes_of_their_own_and_may_be_missing(dynamic: bool | None) -> None:
    row, bias = torch.arange(4.0), torch.ones(4)
    program = lambda w, x: (w.sin() + x, w.shape[0])
    calls = [
        lambda n=n, b=b: (WithBias(row.clone(), n, b), torch.ones(n, 4)) for n, b in ((3, None), (5, None), (3, bias), (6, bias))
    ]
    seen = compare(program, *calls, dynamic=dynamic, fullgraph=True)
    assert seen["compiles"] == 3  # the number of rows is a constant until it varies; then there is a tensor more


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_batch_that_is_as_large_as_a_part_of_a_parameter_is_a_size_of_its_own(backend: str) -> None:
    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(WithBias(torch.ones(4), 3), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight.row.sum()

    run = optimize(backend, dynamic=True)(Weighted())
    for rows in (4, 5, 7):
        assert torch.equal(run(torch.ones(rows, 2)), torch.full((rows, 2), 4.0))
    assert stats(run)["compiles"] == 1


def test_sizes_in_the_context_of_a_result_are_right() -> None:
    row = torch.arange(4.0)
    compare(lambda w: w.sin(), *[lambda n=n: (WithBias(row.clone(), n),) for n in (3, 5, 7, 5)], dynamic=True, fullgraph=True)


# -- guards ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    {
        "another class": lambda: Aliased(X.clone(), 2.0),
        "another dtype": lambda: Flat(X.double(), 2.0),
        "other strides": lambda: Flat(X.t().contiguous().t(), 2.0),
        "another class inside": lambda: Flat(Flat(X.clone()), 2.0),
        "another context": lambda: Flat(X.clone(), 3.0),
        "a plain tensor": lambda: X.clone(),
    }.items(),
    ids=lambda pair: pair[0],
)
def test_what_a_wrapper_is_made_of_is_guarded(other: Any) -> None:
    first = lambda: (Flat(X.clone(), 2.0),)
    assert compare(lambda w: w * 2 + 1, first, lambda: (other[1](),), first)["compiles"] == 2


def test_a_context_is_guarded_though_no_operation_reads_it() -> None:
    class Tagged(Flat):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(args[0].inner, *args[1:])

    calls = [lambda scale=scale: (Tagged(X.clone(), scale),) for scale in (2.0, 3.0)]
    assert compare(lambda w: w * 2, *calls)["compiles"] == 2


# -- gradients ---------------------------------------------------------------------------------------------------------------

WITH_GRADIENTS = {
    "elementwise": lambda w, x: (w * x).sin(),
    "a layer": lambda w, x: F.linear(x, w).relu(),
    "a view": lambda w, x: w.view(-1) * x.view(-1),
    "a composite function": lambda w, x: F.layer_norm(w, (4,)) * x,
    "a part": lambda w, x: (w * 2).a * x,
    "detached": lambda w, x: w.detach() * x,
    "made of a plain tensor": lambda w, x: TwoTensor(x, x * 2) * w,
    "what was computed before": lambda w, x: w * x,
}


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_flow_through_compiled_graphs(name: str) -> None:
    program = WITH_GRADIENTS[name]

    def run(function: Any) -> Any:
        w, x = TwoTensor(X.clone(), X * 2).requires_grad_(), X.clone().requires_grad_()
        result = function(w.cos() if "before" in name else w, x)
        result.sum().backward()
        return [
            getattr(tensor, part) for tensor in (result.detach(), w.grad, x.grad) for part in ("a", "b") if hasattr(tensor, part)
        ]

    expected, seen = run(program), run(optimize("aot_eager", fullgraph=True, dynamic=True)(program))
    assert len(expected) == len(seen) and all(map(torch.equal, expected, seen))


# -- what cannot be compiled -------------------------------------------------------------------------------------------------


class Forgetful(Flat):
    """Is put together with another scale."""

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, strides: Any) -> Flat:
        return cls(inner["inner"], 1.0, size, strides)


class Noted(Flat):
    """Its operations read an attribute that is lost."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        return cls(result.inner, args[0].note)


def _noted() -> Noted:
    made = Noted(X.clone())
    made.note = 5.0
    return made


class Marking(Flat):
    """Its results have an attribute that is lost."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        result.mark = "made"
        return result


class Unfinished(Flat):
    """Is put together as nothing."""

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, strides: Any) -> None:  # type: ignore[override]
        pass


REFUSED = {
    "nothing in place of a tensor": (lambda: Unfinished(X.clone(), 2.0), "makes another tensor"),
    "a context that is ignored": (lambda: Forgetful(X.clone(), 2.0), "makes another .scale"),
    "an attribute that is lost": (_noted, "its .note, which __tensor_unflatten__ does not make"),
    "an attribute of a result that is lost": (lambda: Marking(X.clone(), 2.0), "makes another .mark"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_is_not_put_together_as_it_was_breaks_the_graph(name: str) -> None:
    make, reason = REFUSED[name]
    assert reason in break_of(lambda w: w * 2, make())
    assert compare(lambda w: w * 2, lambda: (make(),), lambda: (make(),))["breaks"]


def test_an_attribute_that_no_operation_reads_may_be_lost() -> None:
    def make() -> Any:
        made = Flat(X.clone(), 2.0)
        made.note = "of the program"
        return (made,)

    assert compare(lambda w: (w * 2, w.note), make, make, fullgraph=True)["compiles"] == 1


def test_a_compiler_that_fails_is_given_the_graph_without_wrappers() -> None:
    class Refusing(Flat):
        """Cannot be traced by compilers."""

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if type(args[0].inner) is not torch.Tensor:
                raise NotImplementedError("real tensors only")
            return super().__torch_dispatch__(func, types, args, kwargs)

    make = lambda: (Refusing(X.clone(), 2.0), X.clone())
    assert "the backend fails" in break_of(lambda w, x: w * 2, *make())
    assert compare(lambda w, x: (w * 2, x.sin() + 1), make, make)["breaks"]


def test_sizes_in_the_context_of_a_result_that_requires_a_gradient_are_right() -> None:
    row = torch.arange(4.0)
    calls = [lambda n=n: (WithBias(row.clone(), n).requires_grad_(),) for n in (3, 5, 7, 5)]
    compare(lambda w: w.sin(), *calls, dynamic=True, fullgraph=True)


def test_a_wrapper_made_in_inference_mode_keeps_its_parts_behind_the_graph():
    def run(x):
        with torch.inference_mode():
            made = TwoTensor(x.detach(), x.detach() + 1) * 2
            graph_break()
            return made + x

    seen, expected = optimize("aot_eager")(run)(torch.ones(3)), run(torch.ones(3))
    assert type(seen) is type(expected)
    assert torch.equal(seen.a, expected.a) and torch.equal(seen.b, expected.b)
