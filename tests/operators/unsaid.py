"""The facts of operators as they are without the rows of the table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tracer.graph.fakes.fake_mode import FakeMode
from tracer.operators import facts, table


@contextlib.contextmanager
def without_rows(*names: str) -> Iterator[None]:
    """Within, operators of ATen with these names have no rows, and nothing is remembered."""
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeMode, "cache_of_static_sizes", {})
        for name in names:
            patch.delitem(table.ROWS, name)
        yield
    _forget()


def _forget() -> None:
    facts.facts_of.cache_clear()
    facts._writes.cache_clear()
