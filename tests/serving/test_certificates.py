"""Certificates against brute force: at each shape of a small domain, what regions say is what the dispatcher finds."""

from __future__ import annotations

import itertools

import pytest
import torch

import tracer
from shapes.parsing import variable
from tests.soundness.test_small_sizes import PROGRAMS

QUICK = ("elementwise", "layer norm", "transpose", "numbers", "attention", "chunk", "slices")
SPEC = "x: B, S; y: C, S; B in 0..4; C in 0..3; S in 0..4"


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in PROGRAMS])
def test_regions_say_what_the_dispatcher_finds(name):
    compiled = tracer.optimize("eager")(PROGRAMS[name])
    found = tracer.precompile(compiled, SPEC, (torch.randn(3, 4), torch.randn(2, 4)))
    assert found.certified or found.status == "broken" and name == "broadcast"  # x + y raises for most shapes
    for b, c, s in itertools.product(range(5), range(4), range(5)):
        entry = compiled.lookup(torch.empty(b, s), torch.empty(c, s))
        point = {variable("B"): b, variable("C"): c, variable("S"): s}
        claimed = [each.entry for each in found.covering if each.region.check(point)]
        broken = entry is not None and entry.guarded_code.broken
        assert (entry in claimed) == (entry is not None and not broken), (b, c, s)
        assert claimed or not found.certified


def test_the_regions_of_one_trace_each_are_disjoint():
    compiled = tracer.optimize("eager")(PROGRAMS["slices"])
    found = tracer.precompile(compiled, SPEC, (torch.randn(3, 4), torch.randn(2, 4)))
    for point in found.domain.samples(100):
        assert sum(each.region.check(point) for each in found.covering) == 1
