"""Language models that give back a cache of keys and values, as transformers' do by default."""

from __future__ import annotations

import torch

from tests.support import captured


def test_llama_with_a_cache_is_one_graph():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=64, max_position_embeddings=64, use_cache=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()

    def score(ids):
        given = model(ids)
        cache = [(layer.keys, layer.values) for layer in given.past_key_values.layers]
        return given.logits, cache

    with torch.no_grad():
        assert len(captured(score, torch.randint(0, 100, (2, 9))).result[1]) == 2
