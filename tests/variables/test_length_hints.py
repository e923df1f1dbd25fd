"""CPython asks an object for its length before it fills a list or a tuple with its items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.support import captured

X = torch.ones(2)


class Asked:
    def __init__(self, log: list[str], error: type[Exception] | None = None) -> None:
        self.log, self.error = log, error

    def __len__(self) -> int:
        self.log.append("len")
        if self.error is not None:
            raise self.error("no length")
        return 1

    def __iter__(self) -> Iterator[str]:
        self.log.append("iter")
        yield "item"
        self.log.append("end")


def test_lists_and_tuples_ask_for_the_length() -> None:
    def f(x: torch.Tensor, log: list[str]) -> Any:
        asked = Asked(log)
        made: list[Any] = [*asked], (*asked, 1), list(asked), tuple(asked), sorted(asked)
        made[0].extend(asked)
        made[0][:0] = [*asked]
        return x + 1, made, max(*asked, "z"), (lambda *args: args)(*asked)

    captured(f, X, [])


def test_sets_and_unpacking_do_not() -> None:
    def f(x: torch.Tensor, log: list[str]) -> Any:
        asked = Asked(log)
        (item,) = asked
        return x + 1, item, set(asked), dict.fromkeys(asked), [each for each in asked], any(asked), {*asked}, "-".join(asked)

    captured(f, X, [])


def test_a_length_that_raises() -> None:
    def f(x: torch.Tensor, log: list[str]) -> Any:
        made = list(Asked(log, TypeError))
        try:
            sorted(Asked(log, KeyError))
        except KeyError as error:
            return x + 1, made, str(error)
        return None

    captured(f, X, [])
