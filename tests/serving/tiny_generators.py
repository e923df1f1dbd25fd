"""Transformers models that generate, tiny, with random weights; and prompts for them."""

from __future__ import annotations

import random

import torch

HEADS = dict(vocab_size=100, hidden_size=32, intermediate_size=64, num_attention_heads=4, max_position_embeddings=64)
OF_BART = dict(
    vocab_size=100,
    d_model=32,
    **{f"{part}_{what}": size for part in ("encoder", "decoder") for what, size in (("attention_heads", 4), ("ffn_dim", 64))},
)
CONFIGS = {  # class of the model, of its configuration, what is not as in other models
    "llama": ("LlamaForCausalLM", "LlamaConfig", dict(HEADS, num_key_value_heads=2)),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(vocab_size=100, n_embd=32, n_head=4, n_positions=64)),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(HEADS, num_key_value_heads=2, sliding_window=None)),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", dict(HEADS, num_key_value_heads=2)),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(HEADS, num_key_value_heads=2, head_dim=8)),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", dict(HEADS, num_key_value_heads=1, head_dim=8)),
    "phi": ("PhiForCausalLM", "PhiConfig", HEADS),
    "opt": ("OPTForCausalLM", "OPTConfig", dict(HEADS, ffn_dim=64, word_embed_proj_dim=32)),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", HEADS),
    "falcon": ("FalconForCausalLM", "FalconConfig", dict(vocab_size=100, hidden_size=32, num_attention_heads=4)),
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(vocab_size=100, hidden_size=32, n_head=4)),
    "mixtral": (
        "MixtralForCausalLM",
        "MixtralConfig",
        dict(HEADS, num_key_value_heads=2, num_local_experts=4, sliding_window=None),
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        dict(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_heads=4, num_decoder_layers=2, decoder_start_token_id=0),
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", dict(OF_BART, max_position_embeddings=64)),
    "whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        dict(OF_BART, max_target_positions=64, max_source_positions=20, num_mel_bins=8, bos_token_id=1, decoder_start_token_id=3),
    ),
}
STEPS, LONGEST = 5, 24  # tokens that a dynamic cache gets, tokens that a static one holds


def tiny(name, layers=2, window=None):
    """A model that never ends a sequence before it has as many tokens as it may have. `window`: the tokens that it looks back."""
    import transformers

    model_class, config_class, different = CONFIGS[name]
    different = different | ({"sliding_window": window} if window else {})
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(num_hidden_layers=layers, pad_token_id=0, eos_token_id=None, **different)
    model = getattr(transformers, model_class)(config).eval()
    settings = model.generation_config
    settings.pad_token_id, settings.eos_token_id, settings.bos_token_id = 0, None, 1
    settings.suppress_tokens = settings.begin_suppress_tokens = settings.forced_eos_token_id = None
    if config.is_encoder_decoder:
        settings.decoder_start_token_id = 1
    return model


def parts(model):
    """The modules that `generate` calls."""
    return [model, model.get_encoder()] if model.config.is_encoder_decoder else [model]


def prompt(model, batch, length, padded=False):
    """Inputs of `generate`; where they are padded, some of the prompts begin later."""
    if model.config.model_type == "whisper":
        return {"input_features": torch.randn(batch, 8, 40)}
    ids = torch.randint(3, 100, (batch, length))
    mask = torch.ones_like(ids)
    if padded:
        for row in mask:
            row[: random.randint(0, length - 1)] = 0
    return {"input_ids": ids * mask, "attention_mask": mask}


def generate(model, inputs, static=False, sampled=False, seed=0):
    settings = {"max_new_tokens": STEPS}
    if static:
        settings = {"cache_implementation": "static", "disable_compile": True, "max_length": LONGEST}
    torch.manual_seed(seed)
    return model.generate(**inputs, do_sample=sampled, **settings)


def kinds(model, static=False, padded=True):
    """What to observe: prompts as they are, and padded ones."""

    def run(B, S):
        generate(model, prompt(model, B, S), static)
        masked = prompt(model, B, S)
        if padded and S > 1 and "attention_mask" in masked:
            masked["attention_mask"][0, 0] = 0
            generate(model, masked, static)

    return run
