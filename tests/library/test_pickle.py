"""pickle.dumps of plain values is known while tracing; what a trace cannot tell is left to CPython."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks, check


@pytest.mark.parametrize("protocol", [None, 0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_of_constants_is_known(protocol: int | None) -> None:
    def program(x: torch.Tensor, **kwargs: Any) -> tuple[torch.Tensor, bytes]:
        key = pickle.dumps({"upper": kwargs.get("upper"), "dims": [1, (2.5, ()), None], "raw": b"x"}, protocol)
        return x + len(key), key

    check(program, torch.randn(3), upper=True, graphs=1)


def test_results_are_remembered_by_pickled_keywords() -> None:
    class Remembers:
        def __init__(self) -> None:
            self.known: dict[Any, torch.Tensor] = {}

        def scaled(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
            key = ("scaled", pickle.dumps(kwargs))
            if key not in self.known:
                self.known[key] = x * kwargs.get("by", 2)
            return self.known[key]

    def program(x: torch.Tensor) -> torch.Tensor:
        one = Remembers()
        return one.scaled(x) + one.scaled(x) + one.scaled(x, by=3)

    check(program, torch.randn(3), graphs=1)


def test_objects_that_may_be_one_or_two_are_pickled_by_cpython() -> None:
    def program(x: torch.Tensor, names: list[Any]) -> tuple[torch.Tensor, bytes]:
        return x + 1, pickle.dumps(names)

    compiled = tracer.optimize("eager")(program)
    shared, x = [1], torch.randn(3)
    for names in ([shared, shared], [[1], [1]], ["".join(["a", "b"]), "".join(["a", "b"])]):
        assert compiled(x, names)[1] == program(x, names)[1]


def test_a_list_in_itself_is_left_to_cpython() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, bytes]:
        items: list[Any] = [1]
        items.append(items)
        return x + 1, pickle.dumps(items)

    check(program, torch.randn(3))


def test_a_container_that_is_held_twice_is_written_once() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, bytes]:
        shared = {"sizes": [1]}
        return x + 1, pickle.dumps([(1, 2), (1, 2), shared, shared, [3], [3]])

    check(program, torch.randn(3), graphs=1)


def test_a_pickle_of_plain_values_is_loaded() -> None:
    data = pickle.dumps([{"a": (1, 2.5)}, None, b"x", [True]])

    def program(x: torch.Tensor) -> Any:
        made = pickle.loads(pickle.dumps({"a": 1, "b": [1, 2.0, "c"]}))
        made["b"].append(x)
        return x + made["a"], made, pickle.loads(data)

    check(program, torch.randn(3), graphs=1)


def test_a_pickle_of_objects_is_left_to_cpython() -> None:
    shared: list[int] = [1]
    for value in (complex(1, 2), {"a": shared, "b": shared}, torch.ones(2)):
        data = pickle.dumps(value)
        breaks(lambda x, data=data: (x + 1, pickle.loads(data)), torch.randn(3))
    breaks(_of_nothing, torch.randn(3))


def _of_nothing(x: torch.Tensor) -> Any:
    try:
        pickle.loads(b"")
    except EOFError as error:
        return x + 1, str(error)
