"""Some objects have no weak references."""

from __future__ import annotations

import types
from typing import Any

import torch

from tests.support import captured

X = torch.ones(2)


class Slotted:
    __slots__ = ("value",)


class Plain:
    pass


PLAIN, SLOTTED, NAMESPACE = Plain(), Slotted(), types.SimpleNamespace()


def test_weak_references_to_what_has_none() -> None:
    import weakref

    def f(x: torch.Tensor, items: list[int]) -> Any:
        seen: list[Any] = []
        for target in (PLAIN, SLOTTED, NAMESPACE, items, Plain):
            try:
                seen.append(weakref.ref(target)() is target)
            except TypeError as error:
                seen.append(str(error))
        return x + 1, seen

    captured(f, X, [1])
