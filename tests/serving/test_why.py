"""why and stats: what keeps a call from each entry, and what happened so far."""

from __future__ import annotations

import pytest
import torch

import tracer


def branching(x):
    if x.shape[1] % 128 == 0:
        x = x - 1
    return x.sum(1)


def served(shapes="x: B, S; B in 1..256; S in 1..4096"):
    made = tracer.optimize("eager", shapes=shapes, name="served")(branching)
    made(torch.randn(4, 5))
    return made


def test_a_hit_says_by_which_entry_and_runs_nothing():
    made = served()
    told = tracer.why(made, torch.randn(7, 9))
    assert told and told.entry is tracer.region_of(made).entries()[0] and told.entry.hits == 0
    assert "branching: hit at B = 7, S = 9" in str(told) and "L['x'].size()[1] % 128 >= 1" in str(told)


def test_a_miss_says_the_guard_the_line_and_the_nearest_shape():
    told = tracer.why(served(), torch.randn(3, 256))
    text = str(told)
    assert not told and sum(abs(told.nearest[symbol] - told.point[symbol]) for symbol in told.point) == 1
    assert "miss at B = 3, S = 256" in text and "L['x'].size()[1] % 128 >= 1  (seen false" in text
    assert "if x.shape[1] % 128 == 0:" in text and "nearest covered shape: B = 3, S = 25" in text


def test_a_miss_that_no_size_makes_says_so():
    told = tracer.why(served(), x=torch.randn(3, 4, dtype=torch.float64))
    text = str(told)
    assert "would hold for torch.float32" in text and "its shape is covered: the difference is not in a size" in text
    assert "the nearest covered call has torch.float32 in place of torch.float64" in text
    assert told.nearest is None and told.alike in told.misses


def test_a_call_outside_of_the_domain_says_what_does_not_hold():
    assert "is 300, but it was declared as 1 <= B <= 256" in str(tracer.why(served(), torch.randn(300, 4)))


def test_calls_without_declared_shapes_are_explained_too():
    made = served(None)
    told = tracer.why(made, torch.randn(4, 6))
    assert not told and told.nearest is None and "expected 5, actual 6" in str(told) and len(told.misses) == 1
    assert "there is no entry yet" in str(tracer.why(tracer.optimize()(branching), torch.randn(2, 2)))


def test_a_call_that_cannot_be_made_is_refused():
    with pytest.raises(tracer.exc.UserError, match="cannot be called with 2 arguments"):
        tracer.why(served(), 1, 2)


def test_stats_count_what_happened():
    made = served()
    made(torch.randn(5, 6))
    made(torch.randn(5, 128))
    made.seal("eager")
    with pytest.warns(UserWarning, match="sealed"):
        made(torch.randn(5, 6).double())
    seen = made.stats()
    assert seen["region"] == "served" and (seen["hits"], seen["misses"], seen["compiles"], seen["recompiles"]) == (1, 3, 2, 1)
    assert seen["sealed_misses"] == 1 and seen["breaks"] == 0 and seen["seconds_compiling"] > 0 and not seen["certified"]
    assert sorted(entry["hits"] for entry in seen["entries"]) == [0, 1]
    assert tracer.stats(made) == seen
    with pytest.raises(tracer.exc.UserError, match="was not compiled"):
        tracer.stats(branching)
