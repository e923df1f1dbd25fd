"""`generate` of transformers models under a seal: its calls are observed, certified and then served without a miss."""

from __future__ import annotations

import random

import pytest
import torch

import tracer
from tests.serving.tiny_generators import CONFIGS, generate, kinds, parts, prompt, tiny

pytest.importorskip("transformers")
BATCH, LENGTH = (1, 6), (1, 16)


def sealed(model, static=False, padded=True):
    """Certifies each part of a model and seals it; returns the certificates."""
    for part in parts(model):
        tracer.compile_module(part)
    calls = [tracer.observe_calls(part, kinds(model, static, padded), B=BATCH, S=LENGTH) for part in parts(model)]
    found = [tracer.precompile(part, each) for part, each in zip(parts(model), calls)]
    for part, each in zip(parts(model), found):
        assert each.certified, str(each)
        tracer.seal(part)
    return found


def served_as_eager(model, prompts, static=False, padded=True):
    draw = random.Random(0)
    for number in range(prompts):
        size = draw.randint(*BATCH), draw.randint(*LENGTH)
        inputs, sampled = prompt(model, *size, padded and draw.random() < 0.7), number % 2 == 1
        with tracer.set_stance("force_eager"):
            expected = generate(model, inputs, static, sampled, seed=number)
        assert torch.equal(generate(model, inputs, static, sampled, seed=number), expected), size


def no_call_missed(model):
    stats = [tracer.stats(part) for part in parts(model)]
    return all(each["sealed_misses"] == 0 and each["certified"] for each in stats)


@pytest.fixture(scope="module")
def llama():
    model = tiny("llama", layers=1)
    return model, sealed(model, padded=False)[0]


def test_a_prefill_and_a_decode_step_are_what_is_certified(llama):
    _, found = llama
    assert [len(each.covering) for each in found.variants] == [3, 1]
    assert [each.modes for each in found.variants] == [("no_grad",)] * 2


def test_generate_compiles_nothing_and_gives_what_eager_gives(llama):
    model, found = llama
    served_as_eager(model, 6, padded=False)
    assert no_call_missed(model) and tracer.stats(model)["compiles"] <= len(found.covering)


def test_beams_are_rows_of_a_larger_batch(llama):
    model, _ = llama
    inputs = prompt(model, 2, 7)
    with tracer.set_stance("force_eager"):
        expected = model.generate(**inputs, do_sample=False, num_beams=3, max_new_tokens=4)
    assert torch.equal(model.generate(**inputs, do_sample=False, num_beams=3, max_new_tokens=4), expected)
    assert no_call_missed(model)


@torch.no_grad()
def decoded_until_done(model, ids, mask, steps):
    """Greedy decoding in which row n leaves the batch after `steps[n]` tokens."""
    from transformers.cache_utils import DynamicCache

    cache, row = DynamicCache(config=model.config), torch.arange(len(ids))
    done = {}
    texts, given = ids, ids
    for step in range(max(steps) + 1):
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -given.shape[1] :].contiguous()
        out = model(input_ids=given, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True)
        given = out.logits[:, -1].argmax(-1, keepdim=True)
        texts, mask = torch.cat([texts, given], 1), torch.cat([mask, torch.ones_like(given)], 1)
        stays = torch.tensor([steps[number] > step for number in row.tolist()])
        done |= {number: texts[at] for at, number in enumerate(row.tolist()) if not stays[at]}
        if not stays.any():
            break
        cache.batch_select_indices(stays.nonzero()[:, 0])
        row, texts, mask, given = row[stays], texts[stays], mask[stays], given[stays]
    return [done[number] for number in sorted(done)]


@pytest.mark.full
def test_a_batch_that_shrinks_while_it_is_decoded_misses_nothing():
    model = tiny("llama", layers=1)
    tracer.compile_module(model)

    def run(B, S):
        ids, mask = prompt(model, B, S).values()
        decoded_until_done(model, ids, mask, [6 if row else 3 for row in range(B)] if B > 1 else [6])
        decoded_until_done(model, ids, mask * (torch.arange(S) >= S // 2), [6] * B)

    assert tracer.precompile(model, tracer.observe_calls(model, run, B=BATCH, S=LENGTH)).certified
    tracer.seal(model)
    draw = random.Random(1)
    for _ in range(10):
        ids, mask = prompt(model, draw.randint(*BATCH), draw.randint(*LENGTH), padded=True).values()
        steps = [draw.randint(0, 6) for _ in ids]
        with tracer.set_stance("force_eager"):
            expected = decoded_until_done(model, ids, mask, steps)
        assert all(map(torch.equal, decoded_until_done(model, ids, mask, steps), expected))
    assert no_call_missed(model)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("static", [False, True], ids=["dynamic cache", "static cache"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_hundred_random_prompts_miss_nothing(name, static):
    model = tiny(name)
    sealed(model, static)
    served_as_eager(model, 100, static)
    assert no_call_missed(model)


@pytest.mark.full
def test_a_window_that_slides_over_a_static_cache_is_full_at_a_length_that_is_found():
    model = tiny("mistral", window=8)
    found = sealed(model, static=True)[0]
    assert "max(8, S)" in repr(found.variants[0].spec)
    served_as_eager(model, 30, static=True)
    assert no_call_missed(model)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_window_that_slides_over_a_dynamic_cache_has_strides_that_are_found():
    """What is kept of a long prompt is cut out of all of it: one name says the strides of both layers."""
    model = tiny("mistral", window=8)
    found = sealed(model)[0]
    assert ".layers[1].values strided 2*N1, N1, 8, 1;" in repr(found.variants[1].spec)
    served_as_eager(model, 30)
    assert no_call_missed(model)
