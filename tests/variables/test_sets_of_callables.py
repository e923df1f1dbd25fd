"""Functions and classes are looked up in a frozenset by identity."""

from __future__ import annotations

from typing import Any

import torch

from tests.support import captured

_KNOWN = frozenset([torch.add, len, int, "x"])


def test_membership_in_a_frozenset_of_functions_and_classes() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, torch.add in _KNOWN, torch.mul in _KNOWN, int in _KNOWN, float in _KNOWN, "x" in _KNOWN, len(_KNOWN)

    captured(f, torch.ones(3))
