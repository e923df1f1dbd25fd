"""`generate` of a transformers model under a seal: prefill and decode are variants, certified for every batch and length."""

from __future__ import annotations

import copy
import random

import pytest
import torch

import tracer

transformers = pytest.importorskip("transformers")
LAYERS, LONGEST, STEPS = 2, 24, 6


def tiny():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config.pad_token_id, model.generation_config.eos_token_id = 0, None
    return model


def prompt(batch, length, padded):
    ids = torch.randint(1, 100, (batch, length))
    mask = torch.ones_like(ids)
    mask[:, : int(padded)] = 0
    return ids, mask


def generate(model, ids, mask, static):
    of_cache = {"cache_implementation": "static", "disable_compile": True, "max_length": LONGEST} if static else {}
    steps = {} if static else {"max_new_tokens": STEPS}
    with torch.no_grad():
        return model.generate(ids, attention_mask=mask, do_sample=False, **steps, **of_cache)


def recorded(model, ids, mask, static):
    """The keyword arguments of the first two calls of the model."""
    calls = []
    hook = model.register_forward_pre_hook(lambda _, args, kwargs: calls.append(copy.deepcopy(kwargs)), with_kwargs=True)
    generate(model, ids, mask, static)
    hook.remove()
    return calls[:2]


def spec_of(call, decodes, static):
    """B sequences of S tokens; when decoding, of one token behind P."""
    dims = {name: ["B", None if decodes else "S"] for name in ("input_ids", "position_ids")}
    mask = call.get("attention_mask")
    if mask is not None:
        dims["attention_mask"] = ["B", "P + 1" if decodes else "S"] if mask.dim() == 2 else ["B"]
    if decodes:
        for layer in range(LAYERS):
            where = f"past_key_values.layers[{layer}]"
            dims |= {f"{where}.{name}": ["B", None, None if static else "P"] for name in ("keys", "values")}
            dims |= {f"{where}.batch_size": ["B"]} if static else {}
    present = {size for each in dims.values() for size in each if size}
    return tracer.ShapeSpec(dims, **{name: (1, most) for name, most in (("B", 8), ("S", 16), ("P", 40)) if name in present})


@pytest.mark.parametrize(
    ("padded", "static"),
    [(False, False), pytest.param(True, False, marks=pytest.mark.full), pytest.param(False, True, marks=pytest.mark.full)],
    ids=["dynamic cache", "dynamic cache and padding", "static cache"],
)
def test_generate_compiles_nothing_and_gives_what_eager_gives(padded, static):
    model = tiny()
    prefill, decode = recorded(model, *prompt(3, 5, padded), static)
    draw = random.Random(0)
    sizes = [(1, 2), (8, 16), (2, 3), *((draw.randint(1, 8), draw.randint(3, 16)) for _ in range(5))]
    prompts = [prompt(batch, length, padded) for batch, length in sizes]
    expected = [generate(model, *each, static) for each in prompts]
    tracer.compile_module(model)
    with torch.no_grad():
        found = tracer.precompile(
            model,
            [
                tracer.Variant(kwargs=prefill, spec=spec_of(prefill, False, static), name="prefill"),
                tracer.Variant(kwargs=decode, spec=spec_of(decode, True, static), name="decode"),
            ],
        )
    assert found.certified, str(found)
    tracer.seal(model)
    for each, wanted in zip(prompts, expected):
        assert torch.equal(generate(model, *each, static), wanted)
    stats = tracer.stats(model)
    assert stats["sealed_misses"] == 0 and stats["certified"] and stats["compiles"] == len(found.covering)
    assert len(tracer.contract(model).records()) == 2
