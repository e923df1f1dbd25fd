"""Models of libraries, whose forwards are decorated, under a seal: calls by position, by keyword and in any order of keywords."""

from __future__ import annotations

import itertools

import pytest
import torch

import tracer

transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

TEXT = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=50)


def text_inputs(batch, length):
    return {"input_ids": torch.randint(0, 50, (batch, length)), "attention_mask": torch.ones(batch, length, dtype=torch.int64)}


def image_inputs(batch, length):
    return {"pixel_values": torch.randn(batch, 3, 16, 16)}


def bert():
    return transformers.BertModel(transformers.BertConfig(**TEXT)), text_inputs


def roberta():
    return transformers.RobertaModel(transformers.RobertaConfig(**TEXT)), text_inputs


def distilbert():
    return transformers.DistilBertModel(
        transformers.DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=16, vocab_size=50)
    ), text_inputs


def llama():
    return transformers.LlamaModel(transformers.LlamaConfig(**TEXT, use_cache=False)), text_inputs


def classifier():
    return transformers.BertForSequenceClassification(transformers.BertConfig(**TEXT)), text_inputs


def vit():
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8
    )
    return transformers.ViTModel(config), image_inputs


def unet():
    diffusers = pytest.importorskip("diffusers")
    model = diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8,), norm_num_groups=4,
        down_block_types=("CrossAttnDownBlock2D",), up_block_types=("CrossAttnUpBlock2D",), cross_attention_dim=8,
        attention_head_dim=4,
    )  # fmt: skip

    def inputs(batch, length):
        hidden = torch.randn(batch, length, 8)
        return {"sample": torch.randn(batch, 4, 8, 8), "timestep": torch.tensor(3), "encoder_hidden_states": hidden}

    return model, inputs


SPECS = {
    text_inputs: "input_ids: B, S; attention_mask: B, S; B in 1..8; S in 1..16",
    image_inputs: "pixel_values: B, _, _, _; B in 1..8",
}
UNET_SPEC = "sample: B, _, _, _; encoder_hidden_states: B, S, _; B in 1..8; S in 1..16"


@pytest.mark.parametrize("make", [bert, roberta, distilbert, llama, classifier, vit, unet])
@pytest.mark.parametrize("by_keyword", [True, False])
def test_a_certified_model_is_called_in_every_way_without_a_miss(make, by_keyword):
    torch.manual_seed(0)
    model, inputs_of = make()
    model.eval()
    compiled = tracer.compile(model, shapes=SPECS.get(inputs_of, UNET_SPEC))
    example = inputs_of(3, 5)
    with torch.no_grad():
        given = {"kwargs": example} if by_keyword else {"example": tuple(example.values())}
        found = tracer.precompile(compiled, **given)
        assert found.certified, str(found)
        compiled.seal()
        for batch, length in itertools.product((1, 4), (1, 7)):
            inputs = inputs_of(batch, length)
            expected = model(**inputs)[0]
            for positional in range(len(inputs) + 1):
                args, rest = list(inputs.values())[:positional], list(inputs.items())[positional:]
                for order in itertools.permutations(rest):
                    assert torch.equal(compiled(*args, **dict(order))[0], expected)
    assert tracer.stats(compiled)["sealed_misses"] == 0
