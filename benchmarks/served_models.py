"""Models as a server has them: which sizes of their inputs vary, and inputs of any sizes. Tiny, with random weights.

`SERVED` is what `benchmarks.certificates` takes its pictures from, and what tests/serving/test_twenty_models.py certifies.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.zoo_models.registry import VOCABULARY, both_sides, speech, text, vision

LAYERS = 2
Arguments = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of call of a model: the spec of its sizes, and the keyword arguments for these sizes, by name."""

    name: str
    spec: str
    inputs: Callable[..., Arguments]
    example: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Served:
    """A model and the kinds of calls that it gets. `needs`: the package that it is from."""

    build: Callable[[], torch.nn.Module]
    kinds: tuple[Kind, ...]
    needs: str = "transformers"


def _of(module: str, model: str, config: str, **settings: Any) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        package = __import__(module)
        return getattr(package, model)(getattr(package, config)(**settings))

    return build


_hugging_face = functools.partial(_of, "transformers")


# -- text ----------------------------------------------------------------------------------------------------------


def ids(*sizes: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY - 3, sizes)


def padding(rows: int, steps: int) -> torch.Tensor:
    """1 for tokens and 0 behind them, (rows, steps); no row is padding alone."""
    return (torch.arange(steps) < torch.randint(1, steps + 1, (rows, 1))).long()


_TEXT = "input_ids: B, S strided; B in 1..16; S in 1..64"
_MASKED_TEXT = "input_ids: B, S strided; attention_mask: B, S strided; B in 1..16; S in 1..64"


def _encoder(model: str, config: str, **settings: Any) -> Served:
    """With a mask and without."""
    return Served(
        _hugging_face(model, config, **settings),
        (
            Kind(
                "masked", _MASKED_TEXT, lambda B, S: {"input_ids": ids(B, S), "attention_mask": padding(B, S)}, {"B": 3, "S": 7}
            ),
            Kind("plain", _TEXT, lambda B, S: {"input_ids": ids(B, S)}, {"B": 3, "S": 7}),
        ),
    )


_SMALL = text(num_hidden_layers=LAYERS, max_position_embeddings=66)  # two of RoBERTa's are for padding
_DISTILLED = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": LAYERS, "n_heads": 4, "hidden_dim": 48}


# -- decoders ------------------------------------------------------------------------------------------------------

# As many heads of keys as of queries: for fewer, transformers itself computes a decode step in another way, with other last
# bits, where `is_torchdynamo_compiling()` holds, as it does while a program is traced.
HEADS = 4
_LLAMA = text(num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=128)
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 128}
HEAD = 8
CACHED = 72  # tokens that a static cache has room for


def _llama_config() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**_LLAMA)


def _gpt2_config() -> Any:
    from transformers import GPT2Config

    return GPT2Config(**_GPT2)


def _grown(config: Any, B: int, P: int) -> Any:
    """A dynamic cache of P tokens for each of B sequences."""
    from transformers import DynamicCache

    cache = DynamicCache(config=config)
    for layer in range(LAYERS if P else 0):
        cache.update(torch.randn(B, HEADS, P, HEAD), torch.randn(B, HEADS, P, HEAD), layer)
    return cache


def _static(B: int, P: int) -> Any:
    """A static cache with P tokens in it for each of B sequences."""
    from transformers import StaticCache

    cache = StaticCache(config=_llama_config(), max_cache_len=CACHED)
    for layer in range(LAYERS):
        cache.update(torch.randn(B, HEADS, P, HEAD), torch.randn(B, HEADS, P, HEAD), layer)
    return cache


def _places(B: int, first: int, count: int) -> torch.Tensor:
    return torch.arange(first, first + count).expand(B, count).contiguous()


def _in_order(of_layer: str) -> str:
    return "; ".join(
        f"past_key_values.layers[{layer}].{name}: {of_layer}" for layer in range(LAYERS) for name in ("keys", "values")
    )


_PROMPTS = "input_ids: B, S; position_ids: B, S; attention_mask: B, S; B in 1..8; S in 1..32"
_TOKENS = f"input_ids: B, _; position_ids: B, _; attention_mask: B, P + 1; {_in_order('B, _, P, _')}; B in 1..8; P in 1..48"
_SIZES_OF_LAYERS = "; ".join(f"past_key_values.layers[{layer}].batch_size: B" for layer in range(LAYERS))
_STATIC_TOKENS = (
    f"input_ids: B, _; position_ids: B, _; attention_mask: B, _, _, _; {_in_order('B, _, _, _')}; {_SIZES_OF_LAYERS}; B in 1..8"
)
_STATIC_PROMPTS = "input_ids: B, S; position_ids: B, S; attention_mask: B, _, S, _; B in 1..8; S in 2..32"


def _with_dynamic_cache(config: Callable[[], Any]) -> tuple[Kind, ...]:
    def call(B: int, P: int, S: int) -> Arguments:
        return {
            "input_ids": ids(B, S),
            "position_ids": _places(B, P, S),
            "attention_mask": padding(B, P + S).flip(1),
            "past_key_values": _grown(config(), B, P),
            "use_cache": True,
            "logits_to_keep": 1,
        }

    return (
        Kind("prefill", _PROMPTS, lambda B, S: call(B, 0, S), {"B": 3, "S": 5}),
        Kind("decode", _TOKENS, lambda B, P: call(B, P, 1), {"B": 3, "P": 5}),
    )


def _static_decode(B: int) -> Arguments:
    P = int(torch.randint(1, CACHED, ()))
    return {
        "input_ids": ids(B, 1),
        "position_ids": _places(B, P, 1),
        "attention_mask": (torch.arange(CACHED) <= P).expand(B, 1, 1, CACHED).contiguous(),
        "past_key_values": _static(B, P),
        "use_cache": True,
        "logits_to_keep": 1,
    }


def _static_prefill(B: int, S: int) -> Arguments:
    from transformers import StaticCache

    return {
        "input_ids": ids(B, S),
        "position_ids": _places(B, 0, S),
        "attention_mask": torch.ones(S, CACHED, dtype=torch.bool).tril().expand(B, 1, S, CACHED).contiguous(),
        "past_key_values": StaticCache(config=_llama_config(), max_cache_len=CACHED),
        "use_cache": True,
        "logits_to_keep": 1,
    }


_STATIC = (
    Kind("prefill", _STATIC_PROMPTS, _static_prefill, {"B": 3, "S": 5}),
    Kind("decode", _STATIC_TOKENS, _static_decode, {"B": 3}),
)


# -- pictures ------------------------------------------------------------------------------------------------------


def _pictures(build: Callable[[], torch.nn.Module], bounds: str = "H in 32..224; W in 32..224", **more: Any) -> Served:
    def inputs(B: int, H: int, W: int) -> Arguments:
        return {"pixel_values": torch.randn(B, 3, H, W), **more}

    spec = f"pixel_values: B, _, H, W; B in 1..16; {bounds}"
    return Served(build, (Kind("pictures", spec, inputs, {"B": 3, "H": 64, "W": 96}),))


_RESNET = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "layer_type": "basic"}
_VIT = {
    "hidden_size": 16,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 64,
    "patch_size": 16,
}
_CONVNEXT = {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}


def _unet() -> torch.nn.Module:
    from benchmarks.zoo_models.media import unet

    return unet()[0]


def _noise(B: int, H: int, W: int, S: int) -> Arguments:
    noise = {"sample": torch.randn(B, 4, H, W), "timestep": torch.tensor(7)}
    return {**noise, "encoder_hidden_states": torch.randn(B, S, 12)}


_NOISE = "sample: B, _, H, W; encoder_hidden_states: B, S, _; B in 1..8; H in 8..64 by 8; W in 8..64 by 8; S in 1..77"


# -- text to text, speech, text with pictures -------------------------------------------------------------------------

_T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": LAYERS, "num_heads": 4}
_TRANSLATED = "input_ids: B, S; attention_mask: B, S; decoder_input_ids: B, T; B in 1..8; S in 1..48; T in 1..32"


def _translation(B: int, S: int, T: int) -> Arguments:
    return {"input_ids": ids(B, S), "attention_mask": padding(B, S), "decoder_input_ids": ids(B, T), "use_cache": False}


_WHISPER = both_sides(
    num_mel_bins=8,
    max_source_positions=20,
    max_target_positions=32,
    encoder_layers=LAYERS,
    decoder_layers=LAYERS,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    suppress_tokens=None,
    begin_suppress_tokens=None,
)
del _WHISPER["max_position_embeddings"]


def _heard(B: int, T: int) -> Arguments:
    return {"input_features": torch.randn(B, 8, 40), "decoder_input_ids": ids(B, T), "use_cache": False}


_WAVE = "input_values: B, L; B in 1..8; L in 40..2000"


def _masked_waves(B: int, L: int) -> Arguments:
    mask = (torch.arange(L) < torch.randint(40, L + 1, (B, 1))).long()
    return {"input_values": torch.randn(B, L), "attention_mask": mask}


def _clip_config() -> dict[str, Any]:
    return {
        "text_config": text(num_hidden_layers=LAYERS, eos_token_id=VOCABULARY - 1),
        "vision_config": vision(num_hidden_layers=LAYERS),
        "projection_dim": 16,
    }


def _captioned(B: int, S: int, N: int) -> Arguments:
    return {"input_ids": ids(B, S), "attention_mask": padding(B, S), "pixel_values": torch.randn(N, 3, 32, 32)}


# -- recommendations, graphs -----------------------------------------------------------------------------------------

BAGS = 8


class Dlrm(torch.nn.Module):
    """Dense features and eight embedding bags, their interactions, and a score."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.bottom = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.bags = nn.ModuleList(nn.EmbeddingBag(VOCABULARY, 8, mode="sum") for _ in range(BAGS))
        self.top = nn.Sequential(nn.Linear(8 + (BAGS + 1) * BAGS // 2, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: torch.Tensor, indices: list[torch.Tensor], offsets: list[torch.Tensor]) -> torch.Tensor:
        x = self.bottom(dense)
        parts = torch.stack([x, *(bag(i, o) for bag, i, o in zip(self.bags, indices, offsets))], 1)
        products = torch.bmm(parts, parts.transpose(1, 2))
        row, column = torch.tril_indices(BAGS + 1, BAGS + 1, offset=-1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, row, column]], 1)))


def _clicks(B: int, **counts: int) -> Arguments:
    indices = [torch.randint(0, VOCABULARY, (counts[f"I{bag}"],)) for bag in range(BAGS)]
    offsets = [torch.randint(0, each.numel() + 1, (B,)).sort().values for each in indices]
    for each in offsets:
        each[0] = 0
    return {"dense": torch.randn(B, 13), "indices": indices, "offsets": offsets}


_BAGS = "; ".join(f"indices[{bag}]: I{bag}; offsets[{bag}]: B; I{bag} in 0..400" for bag in range(BAGS))


def _graph_network(kind: str, **settings: Any) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        import torch_geometric.nn

        return getattr(torch_geometric.nn, kind)(16, 32, num_layers=LAYERS, out_channels=4, **settings)

    return build


def _linked(N: int, E: int) -> Arguments:
    return {"x": torch.randn(N, 16), "edge_index": torch.randint(0, N, (2, E))}


_LINKS = (Kind("graph", "x: N, _; edge_index: _, E; N in 1..100; E in 0..400", _linked, {"N": 5, "E": 9}),)


# -- all -----------------------------------------------------------------------------------------------------------

SERVED: dict[str, Served] = {
    "bert": _encoder("BertModel", "BertConfig", **_SMALL),
    "roberta": _encoder("RobertaForSequenceClassification", "RobertaConfig", **_SMALL),
    "distilbert": _encoder("DistilBertModel", "DistilBertConfig", **_DISTILLED),
    "albert": _encoder("AlbertModel", "AlbertConfig", **_SMALL, embedding_size=16),
    "electra": _encoder("ElectraModel", "ElectraConfig", **_SMALL, embedding_size=16),
    "llama, dynamic cache": Served(
        _hugging_face("LlamaForCausalLM", "LlamaConfig", **_LLAMA), _with_dynamic_cache(_llama_config)
    ),
    "llama, static cache": Served(_hugging_face("LlamaForCausalLM", "LlamaConfig", **_LLAMA), _STATIC),
    "gpt2, dynamic cache": Served(_hugging_face("GPT2LMHeadModel", "GPT2Config", **_GPT2), _with_dynamic_cache(_gpt2_config)),
    "resnet": _pictures(_hugging_face("ResNetModel", "ResNetConfig", **_RESNET)),
    "vit": _pictures(_hugging_face("ViTModel", "ViTConfig", **_VIT), interpolate_pos_encoding=True),
    "convnext": _pictures(_hugging_face("ConvNextModel", "ConvNextConfig", **_CONVNEXT)),
    "unet": Served(_unet, (Kind("noise", _NOISE, _noise, {"B": 3, "H": 16, "W": 24, "S": 5}),), "diffusers"),
    "t5": Served(
        _hugging_face("T5ForConditionalGeneration", "T5Config", **_T5),
        (Kind("text", _TRANSLATED, _translation, {"B": 3, "S": 7, "T": 5}),),
    ),
    "whisper": Served(
        _hugging_face("WhisperModel", "WhisperConfig", **_WHISPER),
        (Kind("speech", "input_features: B, _, _; decoder_input_ids: B, T; B in 1..8; T in 1..32", _heard, {"B": 3, "T": 5}),),
    ),
    "wav2vec2": Served(
        _hugging_face("Wav2Vec2Model", "Wav2Vec2Config", **speech(num_hidden_layers=LAYERS)),
        (
            Kind("plain", _WAVE, lambda B, L: {"input_values": torch.randn(B, L)}, {"B": 3, "L": 800}),
            Kind("masked", f"{_WAVE}; attention_mask: B, L", _masked_waves, {"B": 3, "L": 800}),
        ),
    ),
    "clip": Served(
        _hugging_face("CLIPModel", "CLIPConfig", **_clip_config()),
        (
            Kind(
                "captions",
                "input_ids: B, S; attention_mask: B, S; pixel_values: N, _, _, _; B in 1..8; S in 1..64; N in 1..8",
                _captioned,
                {"B": 3, "S": 7, "N": 5},
            ),
        ),
    ),
    "dlrm": Served(
        Dlrm,
        (Kind("clicks", f"dense: B, _; {_BAGS}; B in 1..64", _clicks, {"B": 3} | {f"I{bag}": 7 + bag for bag in range(BAGS)}),),
        "torch",
    ),
    "graph sage": Served(_graph_network("GraphSAGE"), _LINKS, "torch_geometric"),
    "gat": Served(_graph_network("GAT", heads=2), _LINKS, "torch_geometric"),
    "mpnet": _encoder("MPNetModel", "MPNetConfig", **_SMALL),
}


def build(name: str) -> torch.nn.Module:
    """A model in inference mode, with the same weights each time."""
    torch.manual_seed(0)
    return SERVED[name].build().eval()
