"""Objects that keep their attributes in a dict that something else stands for, too."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks, captured

X = torch.ones(3)


class Borg:
    """All of its objects are one."""

    shared: dict[str, Any] = {}

    def __init__(self) -> None:
        self.__dict__ = self.shared


class Settings(dict[str, Any]):
    """Its items are its attributes."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.__dict__ = self


ONE: Any = Borg()
OTHER: Any = Borg()
SETTINGS: Any = Settings()


@pytest.fixture(autouse=True)
def _as_at_first() -> Iterator[None]:
    for held in (Borg.shared, SETTINGS):
        held.clear()
        held.update(rate=1)
    yield


def _set_item() -> None:
    SETTINGS["rate"] = 2


def _set_attribute() -> None:
    SETTINGS.rate = 2


def _delete() -> None:
    del SETTINGS.rate


def _set_in_one() -> None:
    ONE.rate = 2


def _set_in_the_dict() -> None:
    Borg.shared["rate"] = 2


def _update() -> None:
    SETTINGS.update(rate=2, more=3)
    vars(OTHER).update(rate=2)


@pytest.mark.parametrize("change", [_set_item, _set_attribute, _delete, _set_in_one, _set_in_the_dict, _update])
def test_a_change_of_a_shared_dict_is_seen_in_all_that_share_it(change: Callable[[], None]) -> None:
    def f(x: torch.Tensor) -> Any:
        ONE.rate = SETTINGS.rate = 1
        change()
        told = SETTINGS.get("rate"), getattr(SETTINGS, "rate", None), dict(SETTINGS)
        return x * OTHER.rate, ONE.rate, Borg.shared["rate"], told

    breaks(f, X)


def test_a_change_before_the_other_one_is_met() -> None:
    def f(x: torch.Tensor) -> Any:
        ONE.rate = x.dim() + 4
        y = x * 2
        result = y * OTHER.rate
        ONE.rate = 1
        return result

    breaks(f, X)


def test_shared_dicts_are_read_in_one_graph() -> None:
    def f(x: torch.Tensor) -> Any:
        made = copy.copy(dict(SETTINGS))
        made["rate"] = 7
        return x * ONE.rate + OTHER.rate, SETTINGS.rate, SETTINGS["rate"], "rate" in SETTINGS, vars(SETTINGS) == made, made

    captured(f, X)


def _scaled(x: torch.Tensor, *, by: int = 1) -> torch.Tensor:
    return x * by


SCALED = functools.partial(_scaled, by=2)


@pytest.mark.parametrize("called_before", [False, True])
def test_keywords_that_change_are_those_of_the_next_call(called_before: bool) -> None:
    def f(x: torch.Tensor) -> Any:
        first = (_scaled(x), SCALED(x)) if called_before else None
        _scaled.__kwdefaults__["by"] = 3
        SCALED.keywords["by"] = 5
        made = _scaled(x), SCALED(x)
        _scaled.__kwdefaults__["by"] = 1
        SCALED.keywords["by"] = 2
        return first, made

    breaks(f, X)


def test_keywords_of_a_partial_object_that_is_made_inside() -> None:
    def f(x: torch.Tensor) -> Any:
        made = functools.partial(_scaled, by=2)
        made.keywords["by"] = 5
        return made(x), made.keywords

    breaks(f, X)

    def read(x: torch.Tensor) -> Any:
        made = functools.partial(_scaled, by=2)
        return made(x), made.keywords["by"], made.keywords is made.keywords, SCALED.keywords["by"], dict(SCALED.keywords)

    captured(read, X)


def _set_in_the_object(x: torch.Tensor, holder: Any, items: dict[str, Any]) -> Any:
    holder.rate = 9
    return x * items["rate"], items


def _set_in_the_items(x: torch.Tensor, holder: Any, items: dict[str, Any]) -> Any:
    items["rate"] = 9
    return x * holder.rate, vars(holder)


@pytest.mark.parametrize("program", [_set_in_the_object, _set_in_the_items])
@pytest.mark.parametrize("cls", [types.SimpleNamespace, torch.nn.Identity, Settings])
def test_an_entry_made_for_an_object_and_another_dict_does_not_serve_its_own_dict(program: Any, cls: type) -> None:
    compiled = tracer.compile(program)
    for shared in (False, True, False):
        holders = [cls() for _ in range(2)]
        for holder in holders:
            holder.rate = 1
        (seen, of_seen), (expected, of_expected) = (
            run(X, holder, vars(holder) if shared else {"rate": 1})
            for run, holder in zip((compiled, program), holders, strict=True)
        )
        assert torch.equal(seen, expected) and of_seen["rate"] == of_expected["rate"]
    assert tracer.region_of(compiled).entries
