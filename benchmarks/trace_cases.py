"""The models whose cold traces are timed: random weights, small width, full depth; and a long loop of Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

WIDTH = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200}
TOKENS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
BATCH, LENGTH = 3, 17


@dataclasses.dataclass
class Traced:
    """A model and the call that is traced."""

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)


MODELS: dict[str, tuple[Callable[[int], Traced], int]] = {}  # name -> (from depth, full depth)


def traces(name: str, depth: int) -> Callable[[Callable[[int], Traced]], Callable[[int], Traced]]:
    """Registers a model with its full depth."""

    def register(make: Callable[[int], Traced]) -> Callable[[int], Traced]:
        MODELS[name] = make, depth
        return make

    return register


def build(name: str, depth: int | None = None) -> Traced:
    """A model in inference mode and its inputs."""
    make, full = MODELS[name]
    torch.manual_seed(0)
    case = make(full if depth is None else depth)
    if isinstance(case.model, torch.nn.Module):
        case.model.eval()
    return case


def _ids() -> torch.Tensor:
    return torch.randint(3, 200, (BATCH, LENGTH))


def _text() -> dict[str, Any]:
    return {"input_ids": _ids(), "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long)}


@traces("toy", 1)
def _toy(_: int) -> Traced:
    def toy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x / (torch.abs(x) + 1)) * y.sum()

    return Traced(toy, (torch.randn(4, 6), torch.randn(5)))


@traces("mlp", 8)
def _mlp(layers: int) -> Traced:
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(16, 16), torch.nn.ReLU())]
    return Traced(torch.nn.Sequential(*parts), (torch.randn(BATCH, 16),))


@traces("bert", 12)
def _bert(layers: int) -> Traced:
    from transformers import BertConfig, BertModel

    return Traced(BertModel(BertConfig(**WIDTH, num_hidden_layers=layers)), (), _text())


@traces("gpt2", 12)
def _gpt2(layers: int) -> Traced:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=layers, n_embd=64, n_head=4, vocab_size=200, use_cache=False, **TOKENS)
    return Traced(GPT2LMHeadModel(config), (), _text())


@traces("llama", 12)
def _llama(layers: int) -> Traced:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**WIDTH, **TOKENS, num_hidden_layers=layers, num_key_value_heads=2, use_cache=False)
    return Traced(LlamaForCausalLM(config), (), _text())


@traces("t5", 12)
def _t5(layers: int) -> Traced:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        d_model=64, d_kv=16, d_ff=128, num_heads=4, vocab_size=200, num_layers=layers, num_decoder_layers=layers,
        use_cache=False, decoder_start_token_id=0,
    )  # fmt: skip
    return Traced(T5ForConditionalGeneration(config), (), {**_text(), "decoder_input_ids": _ids()})


@traces("vit", 12)
def _vit(layers: int) -> Traced:
    from transformers import ViTConfig, ViTModel

    sizes = {name: WIDTH[name] for name in ("hidden_size", "num_attention_heads", "intermediate_size")}
    config = ViTConfig(**sizes, num_hidden_layers=layers, image_size=32, patch_size=8)
    return Traced(ViTModel(config), (torch.randn(BATCH, 3, 32, 32),))


@traces("convnet", 50)
def _convnet(layers: int) -> Traced:
    from transformers import ResNetConfig, ResNetModel

    depths = [3, 4, 6, 3] if layers == 50 else [1, 1, 1, 1]
    config = ResNetConfig(embedding_size=8, hidden_sizes=[16, 32, 48, 64], depths=depths, layer_type="bottleneck")
    return Traced(ResNetModel(config), (torch.randn(BATCH, 3, 64, 64),))


@traces("whisper encoder", 12)
def _whisper(layers: int) -> Traced:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=64, encoder_layers=layers, encoder_attention_heads=4, encoder_ffn_dim=128, num_mel_bins=16,
        max_source_positions=20, vocab_size=200, **TOKENS,
    )  # fmt: skip
    return Traced(WhisperEncoder(config), (torch.randn(BATCH, 16, 40),))


@traces("mixtral", 12)
def _mixtral(layers: int) -> Traced:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        **WIDTH, **TOKENS, num_hidden_layers=layers, num_key_value_heads=2, num_local_experts=4, use_cache=False
    )
    return Traced(MixtralForCausalLM(config), (), _text())


@traces("mamba", 12)
def _mamba(layers: int) -> Traced:
    from transformers import MambaConfig, MambaModel

    config = MambaConfig(vocab_size=200, hidden_size=64, state_size=8, num_hidden_layers=layers, use_cache=False, **TOKENS)
    return Traced(MambaModel(config), (), {"input_ids": _ids()[:, :6]})


@traces("clip", 12)
def _clip(layers: int) -> Traced:
    from transformers import CLIPConfig, CLIPModel

    sizes = {name: WIDTH[name] for name in ("hidden_size", "num_attention_heads", "intermediate_size")}
    text = {**sizes, "num_hidden_layers": layers, "vocab_size": 200, "max_position_embeddings": 32, **TOKENS}
    vision = {**sizes, "num_hidden_layers": layers, "image_size": 32, "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=32))
    return Traced(model, (), {**_text(), "pixel_values": torch.randn(BATCH, 3, 32, 32)})


LOOP_STEPS = 10_000


def python_loop(x: torch.Tensor, steps: int) -> torch.Tensor:
    """Plain Python of `steps` turns, and one operation."""
    total, other = 0, 1
    for i in range(steps):
        if i % 3 == 0:
            total = total + other
        else:
            other = (other * 5 + i) % 1009
    return x + total
