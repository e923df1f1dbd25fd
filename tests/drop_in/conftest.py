"""Fixtures of the tests of `tracer.install`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tracer


@pytest.fixture
def installed() -> Iterator[None]:
    """The tracer is installed, with eager as the backend of those who name none."""
    with tracer.install(backend="eager"):
        yield
