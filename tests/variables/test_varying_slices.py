"""Slices that are arguments, whose bounds vary."""

from __future__ import annotations

import pytest
import torch

import tracer


@pytest.mark.parametrize("dynamic", [None, True])
def test_the_bounds_of_a_slice_that_varies_are_symbolic(dynamic):
    def program(x, part):
        return x[part] * 2, part.start + part.stop

    compiled = tracer.compile(program, dynamic=dynamic, fullgraph=True)
    x = torch.arange(40.0)
    for start in range(2, 8):
        part = slice(start, start + 2 * start)
        seen, expected = compiled(x, part), program(x, part)
        assert torch.equal(seen[0], expected[0]) and seen[1] == expected[1]
    assert compiled.stats()["compiles"] <= 2
