"""Whether the target of a weak reference is alive, where the program has dropped other things."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

from tests.support import captured_made, check_made

X = torch.ones(2)


class Plain:
    pass


KEPT: Any = Plain()
DROPPED = [object()]


def whose_target_stays_where_it_was(x: torch.Tensor, given: Any) -> Any:
    watches = [weakref.ref(KEPT.part), weakref.ref(KEPT.parts["one"]), weakref.ref(given.part)]
    DROPPED.append(DROPPED.pop())
    return x + 1, [watch() is None for watch in watches]


def whose_holder_drops_it(x: torch.Tensor, given: Any) -> Any:
    watch = weakref.ref(KEPT.part)
    KEPT.part = None
    DROPPED.append(DROPPED.pop())
    return x + 1, watch() is None


def whose_holder_is_dropped(x: torch.Tensor, given: Any) -> Any:
    watch = weakref.ref(KEPT.parts["one"])
    KEPT.parts = {}
    DROPPED.append(DROPPED.pop())
    return x + 1, watch() is None


def whose_dict_drops_it(x: torch.Tensor, given: Any) -> Any:
    watch = weakref.ref(KEPT.parts["one"])
    KEPT.parts["one"] = None
    DROPPED.append(DROPPED.pop())
    return x + 1, watch() is None


def whose_dict_drops_it_by_another_name(x: torch.Tensor, given: Any) -> Any:
    given.parts["two"] = 2
    parts = KEPT.other.parts
    watch = weakref.ref(KEPT.parts["one"])
    parts.clear()
    return x + 1, watch() is None


def whose_global_is_dropped(x: torch.Tensor, given: Any) -> Any:
    global KEPT
    watch = weakref.ref(KEPT.part)
    KEPT = None
    DROPPED.append(DROPPED.pop())
    return x + 1, watch() is None


def whose_argument_is_dropped(x: torch.Tensor, given: Any) -> Any:
    watch = weakref.ref(given.part)
    del given
    DROPPED.append(DROPPED.pop())
    return x + 1, watch() is None


def with_parts() -> Any:
    made = Plain()
    made.part, made.parts = Plain(), {"one": Plain()}  # type: ignore[attr-defined]
    return made


def with_parts_of_another() -> Any:
    made = with_parts()
    made.other = Plain()
    made.other.parts = made.parts
    return made


def with_what_is_kept() -> tuple[tuple[Any, ...], dict[str, Any]]:
    global KEPT
    KEPT = with_parts_of_another()
    return (X, with_parts()), {}


def test_what_stays_where_it_was_is_alive_whatever_else_is_dropped() -> None:
    captured_made(whose_target_stays_where_it_was, with_what_is_kept)


@pytest.mark.parametrize(
    "program",
    [
        whose_holder_drops_it,
        whose_holder_is_dropped,
        whose_dict_drops_it,
        whose_dict_drops_it_by_another_name,
        whose_global_is_dropped,
        whose_argument_is_dropped,
    ],
)
def test_a_weak_reference_is_asked_behind_a_break(program: Any) -> None:
    check_made(program, with_what_is_kept)


def test_a_hook_is_registered_and_removed_in_one_graph() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())

    def f(x: torch.Tensor) -> Any:
        seen: list[torch.Tensor] = []
        handle = model[1].register_forward_hook(lambda module, args, out: seen.append(out.mean()))
        y = model(x)
        handle.remove()
        return y, seen, len(model[1]._forward_hooks)

    captured_made(f, lambda: ((X,), {}), calls=1)
