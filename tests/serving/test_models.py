"""Transformers certified for every batch and length: no request compiles, and each gets what eager gives."""

from __future__ import annotations

import random

import pytest
import torch

import tracer
from benchmarks.demo_models import Request, build
from tests.comparing import deep_copied

pytest.importorskip("transformers")
SPEC = "input_ids: B, S; attention_mask: B, S; B in 1..64; S in 1..256"


@pytest.fixture(scope="module", params=["bert", "llama"])
def served(request):
    model = build(request.param, 1)
    compiled = tracer.compile(model)
    with torch.no_grad():
        found = tracer.precompile(compiled, SPEC, kwargs=Request(3, 7, 0).inputs())
    compiled.seal()
    return model, compiled, found


def test_four_entries_are_proved_to_serve_every_batch_and_length(served):
    _, compiled, found = served
    assert found.certified, str(found)
    assert len(found.covering) == 4 and tracer.stats(compiled)["certified"]


def test_rows_of_a_batch_are_proved_independent_so_that_it_may_be_padded(served):
    _, compiled, _ = served
    plan = tracer.plan_buckets({1: 50, 2: 9, 7: 30, 8: 20, 31: 5, 60: 2}, 4, compiled.contract(), size="B")
    assert plan.classes == ((1,), (2, 7, 8, 31, 60)) and plan.buckets == (1, 8, 31, 60)
    with pytest.raises(tracer.exc.UserError, match="rows along S may depend on each other"):
        tracer.plan_buckets({7: 1}, 1, compiled.contract(), size="S")


def requests(count):
    draw = random.Random(count)
    edges = [(1, 1), (1, 256), (64, 1), (64, 256), (2, 2)]
    shapes = edges + [(draw.randint(1, 64), draw.randint(1, 256)) for _ in range(count)]
    return [Request(*shape, seed) for seed, shape in enumerate(shapes)]


def check(served, count):
    model, compiled, _ = served
    with torch.no_grad():
        for request in requests(count):
            inputs = request.inputs()
            expected, seen = model(**deep_copied(inputs)), compiled(**inputs)
            assert torch.equal(expected[0], seen[0]), str(request)
    assert tracer.stats(compiled)["compiles"] == 4 and tracer.stats(compiled)["sealed_misses"] == 0


def test_random_requests_hit_and_equal_eager(served):
    check(served, 15)


@pytest.mark.full
def test_a_thousand_random_requests_hit_and_equal_eager(served):
    check(served, 1000)


def test_the_longest_length_is_found_by_the_certificate(served):
    if type(served[0]).__name__ != "BertModel":
        pytest.skip("only BERT has a table of positions")
    compiled = tracer.compile(served[0])
    with torch.no_grad():
        found = tracer.precompile(compiled, SPEC.replace("256", "300"), kwargs=Request(3, 7, 0).inputs())
    assert not found and found.status == "broken" and max(found.witness.values()) == 257 and "expand" in found.reason
