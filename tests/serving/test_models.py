"""Transformers certified for every batch and length: no request compiles, and each gets what eager gives."""

from __future__ import annotations

import random

import pytest
import torch

import tracer
from benchmarks.demo_models import Request, build
from tests.support.comparing import deep_copied

pytest.importorskip("transformers")
LONGEST = 512
SPEC = f"input_ids: B, S; attention_mask: B, S; B in 1..64; S in 1..{LONGEST}"


@pytest.fixture(scope="module", params=["bert", "llama"])
def served(request):
    model = build(request.param, 1, LONGEST)
    compiled = tracer.compile(model)
    with torch.no_grad():
        found = tracer.precompile(compiled, SPEC, kwargs=Request(3, 7, 0).inputs())
    compiled.seal()
    return model, compiled, found


def test_few_entries_are_proved_to_serve_every_batch_and_length(served):
    """A length of 1 is told apart by the program, which asks whether attention is causal."""
    model, compiled, found = served
    assert found.certified, str(found)
    assert len(found.covering) == {"BertModel": 3, "LlamaForCausalLM": 4}[type(model).__name__]
    assert tracer.stats(compiled)["certified"]


def test_rows_of_a_batch_are_proved_independent_so_that_it_may_be_padded(served):
    _, compiled, _ = served
    plan = tracer.plan_buckets({1: 50, 2: 9, 7: 30, 8: 20, 31: 5, 60: 2}, 4, compiled.contract(), size="B")
    assert plan.classes == ((1,), (2, 7, 8, 31, 60)) and plan.buckets == (1, 8, 31, 60)
    with pytest.raises(tracer.exc.UserError, match="rows along S may depend on each other"):
        tracer.plan_buckets({7: 1}, 1, compiled.contract(), size="S")


def up_to(most, draw):
    """A size from 1 to `most`, as likely between 4 and 8 as between 8 and 16: the large ones take nearly all the time."""
    return int((most + 1) ** draw.random())


def requests(count):
    draw = random.Random(count)
    edges = [(1, 1), (1, LONGEST), (64, 1), (64, LONGEST), (2, 2)]
    shapes = edges + [(up_to(64, draw), up_to(LONGEST, draw)) for _ in range(count)]
    return [Request(*shape, seed) for seed, shape in enumerate(shapes)]


def assert_served(served, count):
    model, compiled, found = served
    with torch.no_grad():
        for request in requests(count):
            inputs = request.inputs()
            expected, seen = model(**deep_copied(inputs)), compiled(**inputs)
            assert torch.equal(expected[0], seen[0]), str(request)
    assert tracer.stats(compiled)["compiles"] == len(found.covering) and tracer.stats(compiled)["sealed_misses"] == 0


def test_random_requests_hit_and_equal_eager(served):
    assert_served(served, 15)


def test_it_is_one_entry_in_which_way_ever_the_arguments_are_passed(served):
    model, compiled, found = served
    for seed, shape in enumerate([(1, 1), (3, 9), (1, 5), (5, 1)]):
        inputs = Request(*shape, seed).inputs()
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        with torch.no_grad():
            expected = model(ids, mask)[0]
            assert torch.equal(compiled(ids, mask)[0], expected)
            assert torch.equal(compiled(ids, attention_mask=mask)[0], expected)
            assert torch.equal(compiled(input_ids=ids, attention_mask=mask)[0], expected)
            assert torch.equal(compiled(attention_mask=mask, input_ids=ids)[0], expected)
    assert tracer.stats(compiled)["compiles"] == len(found.covering) and tracer.stats(compiled)["sealed_misses"] == 0


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_thousand_random_requests_hit_and_equal_eager(served):
    assert_served(served, 1000)


def test_the_longest_length_is_found_by_the_certificate(served):
    if type(served[0]).__name__ != "BertModel":
        pytest.skip("only BERT has a table of positions")
    compiled = tracer.compile(served[0])
    with torch.no_grad():
        found = tracer.precompile(compiled, SPEC.replace("512", "600"), kwargs=Request(3, 7, 0).inputs())
    assert not found and found.status == "broken" and max(found.witness.values()) == LONGEST + 1 and "expand" in found.reason


# -- decoding --------------------------------------------------------------------------------------------------------------

CACHED = ("B", None, "P", None)


def stepper(model):
    """One token more for each sequence of a batch: keys and values of what came before are handed in and out."""
    from transformers.cache_utils import DynamicCache

    def step(ids, mask, past):
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys, values, layer)
        out = model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return out.logits, [(layer.keys, layer.values) for layer in cache.layers]

    return step


def begun(batch, length, seed):
    draw = torch.Generator().manual_seed(seed)
    past = [tuple(torch.randn(batch, 2, length, 16, generator=draw) for _ in range(2))]
    return torch.randint(0, 1000, (batch, 1), generator=draw), torch.ones(batch, length + 1, dtype=torch.int64), past


def certified_step():
    step = stepper(build("llama", 1, LONGEST))
    compiled = tracer.compile(step)
    sizes = {"B": (1, 64), "P": (1, LONGEST - 1)}
    spec = tracer.ShapeSpec({"ids": ["B", None], "mask": ["B", "P + 1"], "past": [[CACHED, CACHED]]}, **sizes)
    with torch.no_grad():
        assert tracer.precompile(compiled, spec, begun(3, 7, 0)).certified
    compiled.seal()
    return step, compiled


def decode(runs, steps):
    step, compiled = certified_step()
    draw = random.Random(runs)
    entries = compiled.stats()["compiles"]
    with torch.no_grad():
        for seed in range(runs):
            ids, mask, past = begun(draw.choice((1, 2, draw.randint(3, 64))), draw.randint(1, LONGEST - 1 - steps), seed)
            for _ in range(steps):
                (expected, grown), (seen, now) = step(ids, mask, past), compiled(ids, mask, past)
                assert torch.equal(expected, seen) and all(map(torch.equal, grown[0], now[0]))
                ids, past = seen[:, -1].argmax(-1, keepdim=True), now
                mask = torch.cat([mask, mask.new_ones(mask.shape[0], 1)], 1)
    stats = compiled.stats()
    assert stats["compiles"] == entries and stats["sealed_misses"] == 0


def test_decoding_with_a_growing_cache_is_certified_and_compiles_nothing():
    decode(3, 8)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_thousand_steps_of_decoding_compile_nothing():
    decode(25, 40)
