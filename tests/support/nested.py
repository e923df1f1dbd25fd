"""Nested tensors with the jagged layout, and their comparison part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nested import nested_tensor_from_jagged

from tests.support.checking import Checked, captured_made, check_made
from tests.support.comparing import Comparison


def jagged(*lengths: int, width: int = 4, offsets: torch.Tensor | None = None, cached: bool = False) -> torch.Tensor:
    """A nested tensor of rows of these lengths. `cached`: it remembers the least and the greatest of them."""
    if offsets is None:
        offsets = torch.tensor([0, *lengths]).cumsum(0)
    total = int(offsets[-1])
    values = torch.linspace(-1, 1, total * width).reshape(total, width)
    seqlens = {"min_seqlen": min(lengths), "max_seqlen": max(lengths)} if cached else {}
    return nested_tensor_from_jagged(values, offsets, **seqlens)


def alike(*lengths: int, count: int = 2, **options: Any) -> list[torch.Tensor]:
    """Nested tensors that share their offsets."""
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    return [jagged(*lengths, offsets=offsets, **options) + number for number in range(count)]


def holed(rows: int = 3) -> torch.Tensor:
    """A nested tensor with lengths of its own beside the offsets."""
    starts = torch.arange(rows)
    base = torch.linspace(0, 1, rows * 40).reshape(rows, 10, 4)
    return torch.nested.narrow(base, 1, starts, starts + 2, layout=torch.jagged)


class ByParts(Comparison):
    """Compares nested tensors by what they are made of. Ragged sizes that are equal in one run must be equal in the other."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[int, int] = {}
        self.back: dict[int, int] = {}

    def same(self, expected: Any, seen: Any, path: str) -> None:
        if isinstance(expected, torch.SymInt) and isinstance(seen, torch.SymInt):
            mine, theirs = expected.node, seen.node
            assert mine.coeff == theirs.coeff, path
            assert self.numbers.setdefault(mine.t_id, theirs.t_id) == theirs.t_id, f"{path}: another ragged size"
            assert self.back.setdefault(theirs.t_id, mine.t_id) == mine.t_id, f"{path}: another ragged size"
        else:
            super().same(expected, seen, path)

    def _tensor(self, expected: Any, seen: Any, path: str) -> None:
        if not expected.is_nested:
            super()._tensor(expected, seen, path)
            return
        for name in ("layout", "dtype", "requires_grad", "is_leaf"):
            assert getattr(expected, name) == getattr(seen, name), f"{path}.{name}"
        self.sequence(list(expected._size), list(seen._size), f"{path}._size")
        for name in ("_values", "_offsets", "_lengths", "_ragged_idx"):
            self.same(getattr(expected, name), getattr(seen, name), f"{path}.{name}")
        self._seqlens(expected, seen, path)

    def _seqlens(self, expected: Any, seen: Any, path: str) -> None:
        """What it remembers of its lengths, in a dict that it may share with others."""
        self.same(expected._metadata_cache, seen._metadata_cache, f"{path}._metadata_cache")

    def _attributes(self, expected: Any, seen: Any, path: str) -> None:
        if not isinstance(expected, torch.Tensor) or not expected.is_nested:
            super()._attributes(expected, seen, path)


def check_nested(fn: Callable[..., Any], make: Callable[[], Any], **options: Any) -> Checked:
    """As `check_made`; `make` gives the positional arguments."""
    return check_made(fn, lambda: (tuple(make()), {}), comparison=ByParts, as_written=True, **options)


def captured_nested(fn: Callable[..., Any], make: Callable[[], Any], **options: Any) -> Checked:
    """As `captured_made`; `make` gives the positional arguments."""
    return captured_made(fn, lambda: (tuple(make()), {}), comparison=ByParts, as_written=True, **options)


def graphs_of(fn: Callable[..., Any], *calls: Any, dynamic: bool | None = None) -> int:
    """How many graphs the calls need, one behind the other, each with its own arguments. Results are compared with CPython's."""
    remaining = [each for call in calls for each in (call, call)]  # once for CPython, once for the traced function
    made = iter(remaining)
    checked = captured_calls(fn, lambda: (tuple(next(made)), {}), len(calls), dynamic)
    return len(checked.graphs) + checked.recompiles


def captured_calls(fn: Callable[..., Any], make: Callable[[], Any], calls: int, dynamic: bool | None) -> Checked:
    checked = check_made(fn, make, comparison=ByParts, as_written=True, calls=calls, dynamic=dynamic)
    assert not checked.breaks, "\n".join(map(str, checked.breaks))
    assert not checked.raised, checked.raised
    return checked
