"""Frames of the standard library that CPython enters behind a graph break are not traced for themselves."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import torch

from tests.support import breaks


def test_typing_and_inspect_behind_a_break() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        print(inspect.signature(eval("lambda a, b=2: a")), typing.get_type_hints(f), end="")
        typing.ForwardRef("int")
        return y * 2, str(inspect.signature(f))

    assert len(breaks(f, torch.ones(3)).graphs) == 2
