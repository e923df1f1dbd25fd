"""Lists that a wrapper in the graph keeps: the program may read them; the graph breaks where it changes one, or takes it away."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.support.flat_wrappers import Flat, X, break_of, compare
from tracer import optimize


class Listed(Flat):
    """Keeps a list of numbers. Its results have a list of their own, and it overrides a function."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, scales: list[Any], size: Any = None, strides: Any = None) -> Any:
        return Flat.__new__(cls, inner, 1.0, size, strides)

    def __init__(self, inner: torch.Tensor, scales: list[Any], size: Any = None, strides: Any = None) -> None:
        self.inner, self.scales = inner, scales

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r}, {self.scales!r})"

    def __tensor_flatten__(self) -> Any:
        return ["inner"], {"scales": self.scales, "dtype": self.dtype}

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, strides: Any) -> Any:
        return cls(inner["inner"], context["scales"], size, strides)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.relu:
            return args[0].inner * args[0].scales[0]
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner = [arg.inner if isinstance(arg, Listed) else arg for arg in args]
        return cls(func(*inner, **kwargs or {}), [*args[0].scales])


READING = {
    "one that the program makes": lambda x: Listed(x, [1.0, 2.0]) * 2,
    "of sizes": lambda x: Listed(x, [x.shape[0], 1]) * 2,
    "of lists": lambda x: Listed(x, [[1.0], [2.0]]),
    "its items": lambda x: (made := Listed(x, [3.0, 2.0])).inner * made.scales[0] + len(made.scales),
    "by an override": lambda x: nn.functional.relu(Listed(x, [3.0])),
    "the items of a result's": lambda x: (made := Listed(x, [3.0, 2.0]) * 2).inner * made.scales[1] + sum(made.scales),
    "the same one": lambda x: ((made := Listed(x, scales := [1.0])).scales is scales, made.scales is made.scales, x + 1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", READING)
def test_a_list_that_is_only_read_goes_into_the_graph(name: str, backend: str) -> None:
    sizes = (3, 5, 7)
    calls = [lambda size=size: (torch.linspace(-1, 1, size * 4).reshape(size, 4),) for size in sizes]
    assert compare(READING[name], *calls, backend=backend, fullgraph=True, dynamic=True)["compiles"] == 1


def test_each_call_makes_lists_of_its_own() -> None:
    run = optimize("eager", fullgraph=True)(READING["one that the program makes"])
    first = run(X)
    first.scales.append(5.0)
    assert run(X).scales == [1.0, 2.0] and type(run(X).scales) is list


def changes_it(x: torch.Tensor) -> Any:
    made = Listed(x, scales := [1.0])
    scales.append(2.0)
    return made, made * 2


def changes_that_of_a_result(x: torch.Tensor) -> Any:
    made = Listed(x, [1.0]) * 2
    made.scales.append(2.0)
    return made, made * 2


def returns_it(x: torch.Tensor) -> Any:
    made = Listed(x, scales := [1.0])
    return made.scales is scales, made, [scales, scales], made * 2


def stores_it(x: torch.Tensor) -> Any:
    KEPT.scales = [1.0]
    made = Listed(x, KEPT.scales)
    return made.scales is KEPT.scales, made + 1


def gives_it_to_two(x: torch.Tensor) -> Any:
    first, second = Listed(x, scales := [1.0]), Listed(x, scales)
    return first, second, first.scales is second.scales


def gives_it_twice(x: torch.Tensor) -> Any:
    made = Listed(x, [scales := [1.0], scales])
    return made, made.scales[0] is made.scales[1]


class KEPT:
    scales: Any = None


SEEN = (changes_it, changes_that_of_a_result, gives_it_to_two, gives_it_twice, returns_it, stores_it)


@pytest.mark.parametrize("program", SEEN, ids=lambda program: program.__name__)
def test_a_list_that_is_changed_or_leaves_the_frame_breaks_the_graph(program: Any) -> None:
    assert compare(program, lambda: (X.clone(),), backend="eager")["breaks"]
    result = optimize("eager")(program)(X.clone())
    assert program is not returns_it or result[1].scales is result[2][0] is result[2][1]
    assert program is not gives_it_to_two or result[0].scales is result[1].scales
    assert program is not gives_it_twice or result[0].scales[0] is result[0].scales[1]


class Renamed(Listed):
    """Overrides the attribute that says its dtype."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.dtype.__get__:  # type: ignore[attr-defined]
            return torch.int8
        return super().__torch_function__(func, types, args, kwargs)


def test_an_attribute_that_an_override_answers_otherwise_is_not_taken_from_torch() -> None:
    program = lambda x: Renamed(x, [1.0]) * 2
    compare(program, lambda: (X.clone(),))
    assert "in the __torch_dispatch__ of another" in break_of(program, X)
