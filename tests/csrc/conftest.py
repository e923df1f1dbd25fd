"""Fixtures of the tests of the extension."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch  # noqa: F401  (before tracer._C)

from tracer import _C


@pytest.fixture
def nothing_is_left_switched_on() -> Iterator[None]:
    yield
    assert _C.active_region() is None and _C.hook_count() == 0
    assert _C.set_stance_c(-1) == -1
