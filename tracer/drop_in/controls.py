"""The controls of torch._dynamo that act on the tracer, too, while it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.api.settings import reset
from tracer.drop_in.replacements import Replacement
from tracer.drop_in.torchs import dynamo

PARTS: list[Callable[[], Any]] = []

_reset_code_caches = dynamo.reset_code_caches


def reset_code_caches() -> None:
    """As torch's, which `torch._dynamo.reset` calls, and the tracer's entries are dropped as well."""
    _reset_code_caches()
    reset()


def table() -> list[Replacement]:
    return [Replacement(dynamo, "reset_code_caches", reset_code_caches)]
