"""`vars(obj)`: one dict, which views and iterators show as it is when they are asked."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tests.support import captured_made, check_made


class Plain:
    def __init__(self) -> None:
        self.a, self.b = 1, 2


def extended_in_place(o: Any, x: torch.Tensor) -> Any:
    names = vars(o)
    names |= {"z": 1}
    operator.ior(vars(o), [("y", 2)])
    return names is vars(o), o.z, o.y, x + 1


def whose_keys_are_asked_later(o: Any, x: torch.Tensor) -> Any:
    names = vars(o).keys()
    o.new = 3
    del o.a
    return sorted(names), "new" in names, "a" in names, len(names), x + 1


def whose_values_are_asked_later(o: Any, x: torch.Tensor) -> Any:
    values = vars(o).values()
    o.b = x + 2
    return list(values), x + 1


def that_grows_while_it_is_iterated_over(o: Any, x: torch.Tensor) -> Any:
    items = iter(vars(o).items())
    first = next(items)
    o.new = 1
    try:
        return first, list(items), x + 1
    except RuntimeError as error:
        return first, str(error), x + 1


def whose_attributes_are_stored_in_a_loop(o: Any, x: torch.Tensor) -> Any:
    names = []
    for name, value in vars(o).items():
        setattr(o, name, value + 1)
        names.append(name)
    return names, x + 1


def of_which_copies_are_made(o: Any, x: torch.Tensor) -> Any:
    copied = dict(vars(o))
    o.z = 1
    return copied, {**vars(o)}, vars(o) | {"q": 1}, x + 1


def that_is_emptied(o: Any, x: torch.Tensor) -> Any:
    last = vars(o).popitem()
    o.c = 3
    seen = dict(vars(o))
    vars(o).clear()
    return last, seen, vars(o), hasattr(o, "a"), x + 1


PROGRAMS = [
    extended_in_place, whose_keys_are_asked_later, whose_values_are_asked_later, that_grows_while_it_is_iterated_over,
    whose_attributes_are_stored_in_a_loop, of_which_copies_are_made, that_is_emptied,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_dict_of_an_object(program: Callable[..., Any]) -> None:
    captured_made(program, lambda: ((Plain(), torch.ones(2)), {}))


def test_a_view_that_leaves_the_frame_shows_later_changes() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        names = vars(o).keys()
        o.new = 3
        return names, x + 1

    made = Plain()
    names, _ = tracer.compile(f)(made, torch.ones(2))
    made.later = 4  # type: ignore[attr-defined]
    assert list(names) == ["a", "b", "new", "later"]


def test_an_iterator_goes_on_behind_a_break() -> None:
    def f(o: Any, x: torch.Tensor) -> Any:
        items = iter(vars(o).items())
        first = next(items)
        tracer.graph_break()
        return first, list(items), x + 1

    check_made(f, lambda: ((Plain(), torch.ones(2)), {}))


@pytest.mark.parametrize("value", [3, "a", (1,), [1]], ids=["int", "str", "tuple", "list"])
def test_what_has_no_dict_is_a_type_error(value: Any) -> None:
    def f(value: Any, x: torch.Tensor) -> Any:
        try:
            return vars(value), x + 1
        except TypeError as error:
            return str(error), error.__context__, x + 1

    captured_made(f, lambda: ((value, torch.ones(2)), {}))
