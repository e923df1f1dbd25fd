"""The models of the zoo: how each is built, with random weights, small width and full depth, and inputs for a batch of n.

To add one: a function decorated with `zoo(family)` that returns a module and a function from n to its keyword arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

Inputs = Callable[[int], dict[str, Any]]
Builder = Callable[[], tuple[torch.nn.Module, Inputs]]

VOCABULARY = 97


@dataclasses.dataclass(frozen=True)
class Model:
    """One row of the zoo."""

    name: str
    family: str
    build: Builder
    needs: str = ""  # a package that is not one of the tests' own


ZOO: dict[str, Model] = {}


def zoo(family: str, needs: str = "") -> Callable[[Builder], Builder]:
    """Registers a builder under its name."""

    def register(build: Builder) -> Builder:
        name = build.__name__.rstrip("_")
        ZOO[name] = Model(name, family, build, needs)
        return build

    return register


# -- inputs --------------------------------------------------------------------------------------------------------


def ids(n: int, length: int = 11) -> torch.Tensor:
    """Tokens, (n, length)."""
    return torch.randint(3, VOCABULARY - 3, (n, length))


def tokens(n: int) -> dict[str, Any]:
    return {"input_ids": ids(n)}


def masked_tokens(n: int) -> dict[str, Any]:
    """Tokens of which a different number are padding in each row."""
    mask = torch.ones(n, 11, dtype=torch.long)
    for row in range(n):
        mask[row, 11 - row % 5 :] = 0
    return {"input_ids": ids(n), "attention_mask": mask}


def without_cache(n: int) -> dict[str, Any]:
    return {"input_ids": ids(n), "use_cache": False}


def with_cache(n: int) -> dict[str, Any]:
    return {"input_ids": ids(n), "use_cache": True}


def translation(n: int) -> dict[str, Any]:
    return {"input_ids": ids(n), "decoder_input_ids": ids(n, 7)}


def pixels(size: int = 32) -> Inputs:
    return lambda n: {"pixel_values": torch.randn(n, 3, size, size)}


# -- configurations ------------------------------------------------------------------------------------------------


def text(**more: Any) -> dict[str, Any]:
    """What most text models call their sizes."""
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 12,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
    }
    return {**sizes, **more}


def vision(**more: Any) -> dict[str, Any]:
    """What most vision transformers call their sizes."""
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 12,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "image_size": 32,
        "patch_size": 8,
    }
    return {**sizes, **more}


def both_sides(**more: Any) -> dict[str, Any]:
    """What most encoder-decoders call their sizes."""
    sizes = {
        "vocab_size": VOCABULARY,
        "d_model": 32,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 64,
    }
    return {**sizes, **more}


def hugging_face(model: str, config: str, inputs: Inputs, **settings: Any) -> tuple[torch.nn.Module, Inputs]:
    """A model of transformers from the names of its class and of its configuration."""
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**settings)), inputs


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


# -- vision --------------------------------------------------------------------------------------------------------


@zoo("vision")
def vit():
    return hugging_face("ViTModel", "ViTConfig", pixels(), **vision())


@zoo("vision")
def deit():
    return hugging_face("DeiTModel", "DeiTConfig", pixels(), **vision())


@zoo("vision")
def dinov2():
    return hugging_face("Dinov2Model", "Dinov2Config", pixels(), **vision())


@zoo("vision")
def beit():
    return hugging_face("BeitModel", "BeitConfig", pixels(), **vision())


@zoo("vision")
def resnet50():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [3, 4, 6, 3]}
    return hugging_face("ResNetForImageClassification", "ResNetConfig", pixels(64), **sizes)


@zoo("vision")
def convnext():
    return hugging_face("ConvNextModel", "ConvNextConfig", pixels(64), hidden_sizes=[8, 16, 24, 32], depths=[3, 3, 9, 3])


@zoo("vision")
def swin():
    sizes = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2, 6], "num_heads": [2, 2, 4], "window_size": 4}
    return hugging_face("SwinModel", "SwinConfig", pixels(), **sizes)


@zoo("vision")
def segformer():
    sizes = {"hidden_sizes": [8, 16, 24, 32], "depths": [2, 2, 2, 2]}
    return hugging_face("SegformerForSemanticSegmentation", "SegformerConfig", pixels(64), **sizes)


@zoo("vision")
def mobilenet_v2():
    return hugging_face("MobileNetV2Model", "MobileNetV2Config", pixels(64), depth_multiplier=0.35)


@zoo("vision")
def dpt():
    settings = vision(backbone_out_indices=[2, 5, 8, 11], is_hybrid=False)
    settings |= {"neck_hidden_sizes": [8, 16, 24, 32], "fusion_hidden_size": 16}
    return hugging_face("DPTForDepthEstimation", "DPTConfig", pixels(), **settings)


# -- speech --------------------------------------------------------------------------------------------------------


@zoo("speech")
def whisper():
    settings = both_sides(num_mel_bins=8, max_source_positions=20, max_target_positions=32, pad_token_id=0, bos_token_id=1)
    del settings["max_position_embeddings"]
    settings |= {"eos_token_id": 2, "decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None}
    inputs = lambda n: {"input_features": torch.randn(n, 8, 40), "decoder_input_ids": ids(n, 7)}  # noqa: E731
    return hugging_face("WhisperModel", "WhisperConfig", inputs, **settings)


@zoo("speech")
def whisper_encoder():
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    sizes = {"d_model": 32, "encoder_layers": 12, "encoder_attention_heads": 4, "encoder_ffn_dim": 48}
    config = WhisperConfig(**sizes, num_mel_bins=8, max_source_positions=20)
    return WhisperEncoder(config), lambda n: {"input_features": torch.randn(n, 8, 40)}


def _waves(n: int) -> dict[str, Any]:
    return {"input_values": torch.randn(n, 800)}


_WAVE_SIZES = {
    "vocab_size": 32,
    "hidden_size": 32,
    "num_hidden_layers": 12,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}


@zoo("speech")
def wav2vec2():
    return hugging_face("Wav2Vec2Model", "Wav2Vec2Config", _waves, **_WAVE_SIZES)


@zoo("speech")
def hubert():
    return hugging_face("HubertModel", "HubertConfig", _waves, **_WAVE_SIZES)


@zoo("text to speech")
def speecht5():
    from transformers import SpeechT5Config, SpeechT5ForTextToSpeech

    sizes = both_sides(hidden_size=32, num_mel_bins=8, speaker_embedding_dim=12)
    del sizes["d_model"], sizes["max_position_embeddings"]
    config = SpeechT5Config(**sizes, speech_decoder_prenet_units=16, speech_decoder_postnet_units=16)

    def inputs(n: int) -> dict[str, Any]:
        decoder = {"decoder_input_values": torch.randn(n, 6, 8), "speaker_embeddings": torch.randn(n, 12)}
        return {"input_ids": ids(n), **decoder}

    return SpeechT5ForTextToSpeech(config), inputs


@zoo("text to speech")
def fastspeech2_conformer():
    from transformers import FastSpeech2ConformerConfig, FastSpeech2ConformerModel

    sizes = {"hidden_size": 32, "vocab_size": VOCABULARY, "num_mel_bins": 8, "encoder_num_attention_heads": 2}
    more = {"encoder_layers": 2, "decoder_layers": 2, "encoder_linear_units": 48, "decoder_linear_units": 48}
    config = FastSpeech2ConformerConfig(**sizes, **more, decoder_num_attention_heads=2, speech_decoder_postnet_units=16)
    durations = lambda n: torch.full((n, 11), 2)  # noqa: E731
    inputs = lambda n: {  # noqa: E731
        "input_ids": ids(n),
        "attention_mask": torch.ones(n, 11, dtype=torch.long),
        "duration_labels": durations(n),
        "pitch_labels": torch.randn(n, 11, 1),
        "energy_labels": torch.randn(n, 11, 1),
        "spectrogram_labels": torch.randn(n, 22, 8),
    }
    return FastSpeech2ConformerModel(config), inputs


# -- text and pictures ---------------------------------------------------------------------------------------------


@zoo("multimodal")
def clip():
    sides = {"text_config": text(num_hidden_layers=6, eos_token_id=VOCABULARY - 1), "vision_config": vision(num_hidden_layers=6)}
    inputs = lambda n: {"input_ids": ids(n), "pixel_values": torch.randn(n, 3, 32, 32)}  # noqa: E731
    return hugging_face("CLIPModel", "CLIPConfig", inputs, **sides, projection_dim=16)


@zoo("multimodal")
def clip_text():
    return hugging_face("CLIPTextModel", "CLIPTextConfig", masked_tokens, **text())


@zoo("multimodal")
def siglip():
    sides = {"text_config": text(num_hidden_layers=6), "vision_config": vision(num_hidden_layers=6)}
    inputs = lambda n: {"input_ids": ids(n), "pixel_values": torch.randn(n, 3, 32, 32)}  # noqa: E731
    return hugging_face("SiglipModel", "SiglipConfig", inputs, **sides)


@zoo("multimodal")
def llava():
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    picture = VOCABULARY - 2
    text_config = LlamaConfig(**text(num_hidden_layers=6, num_key_value_heads=2))
    vision_config = CLIPVisionConfig(**vision(num_hidden_layers=6))
    config = LlavaConfig(text_config=text_config, vision_config=vision_config, image_token_index=picture)

    def inputs(n: int) -> dict[str, Any]:
        places = torch.full((n, 16), picture)
        return {"input_ids": torch.cat((ids(n, 2), places, ids(n, 4)), 1), **pixels()(n), "use_cache": False}

    return LlavaForConditionalGeneration(config), inputs


# -- diffusion -----------------------------------------------------------------------------------------------------


def _noise(n: int) -> dict[str, Any]:
    return {"sample": torch.randn(n, 4, 16, 16), "timestep": torch.full((n,), 7)}


@zoo("diffusion", needs="diffusers")
def unet():
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        layers_per_block=2,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=12,
        attention_head_dim=4,
    )
    return model, lambda n: {**_noise(n), "encoder_hidden_states": torch.randn(n, 5, 12)}


@zoo("diffusion", needs="diffusers")
def autoencoder():
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        latent_channels=4,
        layers_per_block=2,
    )
    return model, lambda n: {"sample": torch.randn(n, 3, 16, 16)}


@zoo("diffusion", needs="diffusers")
def diffusion_transformer():
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=8, in_channels=4, num_layers=6, sample_size=16)
    inputs = lambda n: {  # noqa: E731
        "hidden_states": torch.randn(n, 4, 16, 16),
        "timestep": torch.full((n,), 7),
        "class_labels": torch.arange(n) % 3,
    }
    return model, inputs


# -- other packages ------------------------------------------------------------------------------------------------


@zoo("decoder", needs="x-transformers")
def x_transformer():
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=12, heads=4, attn_dim_head=8, rotary_pos_emb=True)
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=64, attn_layers=layers), lambda n: {"x": ids(n)}


@zoo("encoder", needs="x-transformers")
def x_encoder():
    from x_transformers import Encoder, TransformerWrapper

    layers = Encoder(dim=32, depth=6, heads=4, attn_dim_head=8, use_rmsnorm=True, ff_glu=True, alibi_pos_bias=True)
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=64, attn_layers=layers), lambda n: {"x": ids(n)}


def _graph(n: int) -> dict[str, Any]:
    """n rings of six nodes each."""
    nodes = torch.arange(6 * n)
    following = nodes - nodes % 6 + (nodes + 1) % 6
    edges = torch.stack((torch.cat((nodes, following)), torch.cat((following, nodes))))
    return {"x": torch.randn(6 * n, 16), "edge_index": edges}


@zoo("graph network", needs="torch-geometric")
def graph_convolution():
    from torch_geometric.nn import GCN

    return GCN(16, 32, num_layers=6, out_channels=4), _graph


@zoo("graph network", needs="torch-geometric")
def graph_attention():
    from torch_geometric.nn import GAT

    return GAT(16, 32, num_layers=6, out_channels=4, heads=2), _graph


@zoo("graph network", needs="torch-geometric")
def graph_sage():
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(16, 32, num_layers=6, out_channels=4), _graph


# -- torch's own ---------------------------------------------------------------------------------------------------


@zoo("torch.nn")
def transformer():
    model = torch.nn.Transformer(32, 4, 6, 6, 48, batch_first=True)
    return model, lambda n: {"src": torch.randn(n, 9, 32), "tgt": torch.randn(n, 7, 32)}


class Tagger(torch.nn.Module):
    """Words to tags by a bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, 16)
        self.lstm = torch.nn.LSTM(16, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = torch.nn.Linear(32, 9)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.words(input_ids))
        return self.tags(states).log_softmax(-1)


@zoo("torch.nn")
def lstm_tagger():
    return Tagger(), tokens


class Mlp(torch.nn.Module):
    """Twelve layers with batch norm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        layers = [(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1)) for _ in range(12)]
        self.layers = nn.Sequential(*(module for layer in layers for module in layer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@zoo("torch.nn")
def mlp():
    return Mlp(), lambda n: {"x": torch.randn(n, 32)}
