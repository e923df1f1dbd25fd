"""Encoders, decoders, mixtures of experts, state spaces and encoder-decoders."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.registry import (
    VOCABULARY,
    both_sides,
    hugging_face,
    ids,
    masked_tokens,
    text,
    tokens,
    translation,
    with_cache,
    without_cache,
    zoo,
)

# -- encoders ------------------------------------------------------------------------------------------------------


@zoo("encoder")
def bert():
    return hugging_face("BertModel", "BertConfig", masked_tokens, **text())


@zoo("encoder")
def roberta():
    return hugging_face("RobertaForSequenceClassification", "RobertaConfig", masked_tokens, **text())


@zoo("encoder")
def distilbert():
    sizes = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 6, "n_heads": 4, "hidden_dim": 48}
    return hugging_face("DistilBertModel", "DistilBertConfig", masked_tokens, **sizes)


@zoo("encoder")
def albert():
    return hugging_face("AlbertModel", "AlbertConfig", masked_tokens, **text(embedding_size=16))


@zoo("encoder")
def electra():
    return hugging_face("ElectraModel", "ElectraConfig", masked_tokens, **text(embedding_size=16))


@zoo("encoder")
def deberta_v2():
    settings = text(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8)
    return hugging_face("DebertaV2Model", "DebertaV2Config", masked_tokens, **settings)


@zoo("encoder")
def mpnet():
    return hugging_face("MPNetModel", "MPNetConfig", masked_tokens, **text())


@zoo("encoder")
def modernbert():
    settings = text(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    return hugging_face("ModernBertModel", "ModernBertConfig", masked_tokens, **settings)


@zoo("encoder")
def xlnet():
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 12, "n_head": 4, "d_inner": 48}
    return hugging_face("XLNetModel", "XLNetConfig", tokens, **sizes)


@zoo("encoder")
def layoutlm():
    return hugging_face("LayoutLMModel", "LayoutLMConfig", tokens, **text())


@zoo("encoder")
def fnet():
    sizes = text()
    del sizes["num_attention_heads"]
    return hugging_face("FNetModel", "FNetConfig", tokens, **sizes)


# -- decoders ------------------------------------------------------------------------------------------------------


@zoo("decoder")
def gpt2():
    sizes = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 12, "n_head": 4, "n_positions": 64}
    return hugging_face("GPT2LMHeadModel", "GPT2Config", without_cache, **sizes)


@zoo("decoder")
def gpt2_with_cache():
    sizes = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 12, "n_head": 4, "n_positions": 64}
    return hugging_face("GPT2LMHeadModel", "GPT2Config", with_cache, **sizes)


@zoo("decoder")
def llama():
    return hugging_face("LlamaForCausalLM", "LlamaConfig", without_cache, **text(num_key_value_heads=2))


@zoo("decoder")
def llama_with_cache():
    return hugging_face("LlamaForCausalLM", "LlamaConfig", with_cache, **text(num_key_value_heads=2))


@zoo("decoder")
def llama_decoding():
    """One token more, behind a cache of five."""
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**text(num_key_value_heads=2))

    def inputs(n: int) -> dict[str, Any]:
        cache = DynamicCache(config=config)
        for layer in range(config.num_hidden_layers):
            cache.update(torch.randn(n, 2, 5, 8), torch.randn(n, 2, 5, 8), layer)
        return {"input_ids": ids(n, 1), "past_key_values": cache, "use_cache": True}

    return LlamaForCausalLM(config), inputs


@zoo("decoder")
def mistral():
    return hugging_face("MistralForCausalLM", "MistralConfig", without_cache, **text(num_key_value_heads=2))


@zoo("decoder")
def qwen2():
    return hugging_face("Qwen2ForCausalLM", "Qwen2Config", without_cache, **text(num_key_value_heads=2))


@zoo("decoder")
def qwen3():
    return hugging_face("Qwen3ForCausalLM", "Qwen3Config", without_cache, **text(num_key_value_heads=2, head_dim=8))


@zoo("decoder")
def gemma2():
    return hugging_face("Gemma2ForCausalLM", "Gemma2Config", without_cache, **text(num_key_value_heads=2, head_dim=8))


@zoo("decoder")
def phi():
    return hugging_face("PhiForCausalLM", "PhiConfig", without_cache, **text())


@zoo("decoder")
def opt():
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 12, "num_attention_heads": 4, "ffn_dim": 48}
    settings = {"max_position_embeddings": 64, "word_embed_proj_dim": 32}
    return hugging_face("OPTForCausalLM", "OPTConfig", without_cache, **sizes, **settings)


@zoo("decoder")
def gpt_neox():
    return hugging_face("GPTNeoXForCausalLM", "GPTNeoXConfig", without_cache, **text())


@zoo("decoder")
def bloom():
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 12, "n_head": 4}
    return hugging_face("BloomForCausalLM", "BloomConfig", without_cache, **sizes)


@zoo("decoder")
def falcon():
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 12, "num_attention_heads": 4}
    return hugging_face("FalconForCausalLM", "FalconConfig", without_cache, **sizes)


# -- mixtures of experts, state spaces -------------------------------------------------------------------------------


@zoo("mixture of experts")
def mixtral():
    settings = text(num_key_value_heads=2, num_local_experts=4)
    return hugging_face("MixtralForCausalLM", "MixtralConfig", without_cache, **settings)


@zoo("mixture of experts")
def qwen2_moe():
    settings = text(num_key_value_heads=2, num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=16)
    return hugging_face("Qwen2MoeForCausalLM", "Qwen2MoeConfig", without_cache, **settings)


@zoo("state space")
def mamba():
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 12, "state_size": 4}
    return hugging_face("MambaForCausalLM", "MambaConfig", without_cache, **sizes)


@zoo("state space")
def rwkv():
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 12, "attention_hidden_size": 32}
    return hugging_face("RwkvForCausalLM", "RwkvConfig", without_cache, **sizes)


# -- encoder-decoders ----------------------------------------------------------------------------------------------


@zoo("encoder-decoder")
def t5():
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 6, "num_heads": 4}
    return hugging_face("T5ForConditionalGeneration", "T5Config", translation, **sizes)


@zoo("encoder-decoder")
def bart():
    return hugging_face("BartForConditionalGeneration", "BartConfig", translation, **both_sides())


@zoo("encoder-decoder")
def marian():
    settings = both_sides(pad_token_id=0, decoder_start_token_id=0)
    return hugging_face("MarianMTModel", "MarianConfig", translation, **settings)


@zoo("encoder-decoder")
def pegasus():
    return hugging_face("PegasusModel", "PegasusConfig", translation, **both_sides())
