"""However a batch is built: few entries while nothing is declared, and no miss under a seal where it is declared as strided."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.serving.batch_builders import BUILDERS, requests

COUNT = 12


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(100, 8)
        self.linear = torch.nn.Linear(8, 2)

    def forward(self, ids):
        x = self.embedding(ids) * (ids != 0)[:, :, None]
        x = x + self.embedding(torch.arange(ids.shape[1]))
        return self.linear(x).mean(1)


@pytest.mark.parametrize("name", BUILDERS)
def test_batches_of_varied_sizes_that_are_built_in_one_way_need_three_entries_at_most(name):
    model = Scorer().eval()
    made = tracer.compile(model)
    with torch.no_grad():
        for ids in requests(BUILDERS[name], COUNT):
            assert torch.equal(made(ids), model(ids))
    assert made.stats()["compiles"] <= 3


def test_batches_that_are_built_in_all_ways_need_few_entries():
    model = Scorer().eval()
    made = tracer.compile(model)
    with torch.no_grad():
        for turn in zip(*(requests(build, 4, seed) for seed, build in enumerate(BUILDERS.values()))):
            for ids in turn:
                assert torch.equal(made(ids), model(ids))
    assert made.stats()["compiles"] <= 6


def sealed(shapes):
    model = Scorer().eval()
    made = tracer.compile(model, shapes=f"{shapes}; B in 1..64; S in 1..64")
    with torch.no_grad():
        assert tracer.precompile(made, example=(torch.ones(3, 5, dtype=torch.int64),)).certified
    made.seal()
    return model, made


def test_under_a_seal_no_way_to_build_a_batch_misses():
    model, made = sealed("ids: B, S strided")
    with torch.no_grad():
        for name, build in BUILDERS.items():
            for ids in requests(build, COUNT):
                assert torch.equal(made(ids), model(ids)), name
    assert made.stats()["sealed_misses"] == 0


@pytest.mark.full
def test_any_strides_need_no_more_than_twice_the_entries():
    plain, strided = ([*tracer.region_of(sealed(shapes)[1]).entries()] for shapes in ("ids: B, S", "ids: B, S strided"))
    assert len(strided) <= 2 * len(plain)


@pytest.mark.full
def test_a_transformer_under_a_seal_serves_every_way_to_build_its_batch():
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(
        vocab_size=100, dim=16, hidden_dim=32, n_layers=1, n_heads=2, max_position_embeddings=32
    )
    model = transformers.DistilBertModel(config).eval()
    made = tracer.compile(model, shapes="input_ids: B, S strided; attention_mask: B, S strided; B in 1..16; S in 1..24")
    example = {name: torch.ones(3, 5, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        assert tracer.precompile(made, kwargs=example).certified
        made.seal()
        for name, build in BUILDERS.items():
            for ids in requests(build, COUNT):
                mask = ids.as_strided(ids.size(), ids.stride())  # another tensor that lies so
                seen, expected = (each(input_ids=ids, attention_mask=mask).last_hidden_state for each in (made, model))
                assert torch.equal(seen, expected) and seen.stride() == expected.stride(), name
    assert len(tracer.region_of(made).entries()) <= 8 and made.stats()["sealed_misses"] == 0
