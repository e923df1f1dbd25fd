"""Values whose end is seen: a generator with a `finally`, an object with a finaliser, a box to hold either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def _closing(number: int, log: list[Any]) -> Iterator[int]:
    try:
        yield number
        yield number + 1
    finally:
        log.append(("closed", number))


class _Finalised:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append("gone")


class _Box:
    def __init__(self, held: Any = None) -> None:
        self.held = held
