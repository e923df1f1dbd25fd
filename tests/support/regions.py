"""What is cached for a decorated function or module."""

from __future__ import annotations

from typing import Any

import tracer


def entries(compiled: Any) -> list[Any]:
    return tracer.region_of(compiled).entries()
