"""Models of pictures and speech, of both with text, and of diffusion."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.registry import (
    VOCABULARY,
    both_sides,
    hugging_face,
    ids,
    masked_tokens,
    pixels,
    speech,
    text,
    vision,
    zoo,
)

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


@zoo("speech")
def wav2vec2():
    return hugging_face("Wav2Vec2Model", "Wav2Vec2Config", _waves, **speech())


@zoo("speech")
def hubert():
    return hugging_face("HubertModel", "HubertConfig", _waves, **speech())


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
