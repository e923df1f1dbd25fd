"""Fixtures of the tests of the public API: a backend that keeps graphs."""

from __future__ import annotations

import pytest

from tests.support.graphs import Graphs


@pytest.fixture
def graphs() -> Graphs:
    return Graphs()
