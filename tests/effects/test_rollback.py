"""After a graph has failed, its inputs are as they were, so that CPython can run the program from the start."""

from __future__ import annotations

from typing import Any

import torch

from tests.support import breaks, captured_made


def test_a_tensor_with_a_history_is_written_to_in_another_graph_than_what_fails() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        y = x + 0.5
        print("break")  # from here on, y is an input
        try:
            y -= 1.5
            log.append(torch.arange(3)[[0, 9]])
        except IndexError:
            log.append("caught")
        return x.sin(), y

    checked = breaks(f, torch.ones(2, requires_grad=True), [])
    assert "change-before-failure" in checked.break_ids


def test_a_view_made_without_gradients_of_what_is_written_with_them() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 1.5
        with torch.no_grad():
            view = y.view(-1)
        y.mul_(2)
        try:
            view.mul_(3)
        except RuntimeError as error:
            return str(error)[:30]
        return y

    breaks(f, torch.ones(2, 3, requires_grad=True))


def test_an_item_at_a_number_cannot_fail_behind_a_write() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.mul_(2)
        return (x @ y)[0], y.select(1, -1)

    captured_made(f, lambda: ((torch.ones(2, 3, requires_grad=True) * 1, torch.ones(3, 2)), {}))
