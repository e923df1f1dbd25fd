"""Values whose end is seen: a generator with a `finally`, an object with a finaliser, a box to hold either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def closing(number: int, log: list[Any]) -> Iterator[int]:
    """Gives two numbers, and says in a list that it was closed."""
    try:
        yield number
        yield number + 1
    finally:
        log.append(("closed", number))


class Finalised:
    """Says in a list that it is gone."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append("gone")


class Box:
    """Holds a value in an attribute."""

    def __init__(self, held: Any = None) -> None:
        self.held = held
