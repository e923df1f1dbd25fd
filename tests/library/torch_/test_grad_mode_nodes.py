"""The graph changes the grad mode only where that makes a difference."""

from __future__ import annotations

from typing import Any

import torch

from tests.support import captured, check


def _grad_modes(checked: Any) -> int:
    return checked.operations.count("_set_grad_enabled")


def test_of_changes_without_an_operation_between_the_last_one_counts() -> None:
    def f(p: torch.Tensor, b: torch.Tensor) -> None:
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        torch.set_grad_enabled(True)
        torch.set_grad_enabled(False)
        p.add_(b)
        torch.set_grad_enabled(before)

    assert _grad_modes(captured(f, torch.nn.Parameter(torch.ones(3)), torch.ones(3))) == 2


def test_a_nested_no_grad_leaves_no_trace() -> None:
    def f(x: torch.Tensor) -> Any:
        with torch.no_grad():
            with torch.no_grad():
                y = x + 1
            z = y * 2
        return y, z, x * 3

    assert _grad_modes(captured(f, torch.ones(3, requires_grad=True))) == 2


def test_a_mode_set_before_a_break_holds_after_it() -> None:
    def f(x: torch.Tensor) -> Any:
        before = torch.is_grad_enabled()
        y = x * 2
        torch.set_grad_enabled(False)
        print(end="")
        z = x * 3
        torch.set_grad_enabled(before)
        return y, z, torch.is_grad_enabled()

    check(f, torch.ones(3, requires_grad=True))
