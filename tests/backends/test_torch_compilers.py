"""The backends that torch's own compilers are."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

import tracer


def compiled_and_dropped(backend: str, requires_grad: bool) -> list[weakref.ref[Any]]:
    """References to a function that was compiled and called, what it closes over, its argument and the compiled function."""
    constant, x = torch.ones(3), torch.ones(3, requires_grad=requires_grad)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + constant

    compiled = tracer.compile(program, backend=backend)
    for _ in range(2):
        compiled(x)
    return [weakref.ref(each) for each in (program, constant, x, compiled)]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_was_compiled_is_freed_with_the_function(backend, requires_grad):
    references = compiled_and_dropped(backend, requires_grad)
    gc.collect()
    assert [each() for each in references] == [None] * 4
