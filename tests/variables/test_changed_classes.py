"""Attributes that the traced program stores on classes, read through instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tracer


class Base:
    made = 0
    tag: Any = "a"

    def __init__(self) -> None:
        Base.made += 1
        self.number = self.made

    @classmethod
    def count(cls) -> None:
        cls.made += 1


class Derived(Base):
    pass


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    yield
    reset()


def reset() -> None:
    Base.made, Base.tag = 0, "a"
    if "made" in vars(Derived):
        del Derived.made
    if hasattr(Base, "added"):
        del Base.added


def numbered(x: torch.Tensor) -> Any:
    return x + Base().number, Base().number, Derived().number


def hidden_by_the_instance(x: torch.Tensor) -> Any:
    base = Base()
    base.made = 7
    Base.made = 5
    return x, base.made, Base().made


def of_a_tensor(x: torch.Tensor) -> Any:
    Base.tag = x + 1
    return Base().tag * 2


CAPTURED = [numbered, hidden_by_the_instance, of_a_tensor]


def of_a_derived_class(x: torch.Tensor) -> Any:
    derived = Derived()
    Base.count()
    before = derived.made
    Derived.count()
    return x, before, derived.made, Derived.made, Base.made


def of_a_method(x: torch.Tensor) -> Any:
    Base.added = lambda self: self.made  # type: ignore[attr-defined]
    return x, Base().added()  # type: ignore[attr-defined]


def deleted(x: torch.Tensor) -> Any:
    Base.tag = "b"
    del Base.tag
    try:
        return x, Base().tag
    except AttributeError as error:
        return x, str(error)


def outcomes(run: Callable[..., Any]) -> list[str]:
    reset()
    found = []
    for _ in range(3):
        Base.tag = "a"
        found.append(f"{run(torch.ones(2))} {Base.made} {Derived.made}")
    return found


@pytest.mark.parametrize("program", [*CAPTURED, of_a_derived_class, of_a_method, deleted], ids=lambda each: each.__name__)
def test_an_attribute_stored_on_a_class_is_read_through_an_instance(program: Any) -> None:
    traced = tracer.compile(program, fullgraph=program in CAPTURED)
    assert outcomes(traced) == outcomes(program)


def test_a_module_counts_its_calls_on_its_class() -> None:
    class Counting(torch.nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            type(self).calls += 1
            return x * self.calls

    traced = tracer.compile(Counting(), fullgraph=True)
    assert [traced(torch.ones(1)).item() for _ in range(5)] == [1, 2, 3, 4, 5]
    assert Counting.calls == 5 and traced.stats()["compiles"] <= 3
