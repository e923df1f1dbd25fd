"""Weights that others replace or quantise under `tracer.install()`: adapters of diffusers that are swapped in place, torchao."""

from __future__ import annotations

import copy

import pytest
import torch

import tracer

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("installed")]
INSTALL = "pip install 'shapetracer[drop-in]'"
FILE = "pytorch_lora_weights.safetensors"


def entries_of(compiled):
    return tracer.region_of(compiled).entries()


# -- diffusers -------------------------------------------------------------------------------------------------


@pytest.fixture
def diffusers():
    pytest.importorskip("peft", reason=INSTALL)
    return pytest.importorskip("diffusers", reason=INSTALL)


def unet(diffusers):
    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")}
    sizes = {"sample_size": 8, "block_out_channels": (4, 8), "norm_num_groups": 4, "cross_attention_dim": 8}
    return diffusers.UNet2DConditionModel(**sizes, **blocks, layers_per_block=1, attention_head_dim=4).eval()


def with_adapter(diffusers, rank, alpha, seed, name="made"):
    from peft import LoraConfig

    model = unet(diffusers)
    targets = ["to_q", "to_k", "to_v", "to_out.0"]
    model.add_adapter(LoraConfig(r=rank, lora_alpha=alpha, target_modules=targets), adapter_name=name)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "lora" in parameter_name:
                parameter.normal_(std=0.3)
    return model


def inputs(batch=2):
    made = torch.Generator().manual_seed(1)
    return torch.randn(batch, 4, 8, 8, generator=made), torch.tensor(3), torch.randn(batch, 5, 8, generator=made)


def load(model, folder, **said):
    model.load_lora_adapter(folder, weight_name=FILE, prefix=None, adapter_name="used", **said)


@torch.no_grad()
def test_adapters_of_several_ranks_and_scales_are_swapped_without_a_compile(diffusers, tmp_path):
    folders = [str(tmp_path / name) for name in ("first", "second")]
    for folder, (rank, alpha) in zip(folders, [(2, 2), (4, 12)]):
        with_adapter(diffusers, rank, alpha, seed=rank).save_lora_adapter(folder, adapter_name="made")
    plain, compiled = unet(diffusers), unet(diffusers)
    results = []
    for model in (plain, compiled):
        model.enable_lora_hotswap(target_rank=4)
        load(model, folders[0])
    compiled.compile(fullgraph=True)
    for folder in (folders[0], folders[1], folders[0]):
        for model in (plain, compiled):
            load(model, folder, hotswap=True)
        results.append(compiled(*inputs()).sample)
        assert torch.equal(results[-1], plain(*inputs()).sample)
    assert not torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    assert len(entries_of(compiled)) == 1


@torch.no_grad()
def test_adapters_of_a_model_of_diffusers_are_switched(diffusers):
    from peft import LoraConfig

    plain = with_adapter(diffusers, 2, 4, seed=1)
    plain.add_adapter(LoraConfig(r=4, target_modules=["to_q"], init_lora_weights=False), adapter_name="other")
    compiled = copy.deepcopy(plain)
    compiled.compile()
    steps = [
        lambda model: model.set_adapter("made"),
        lambda model: model.set_adapter("other"),
        lambda model: model.set_adapters(["made", "other"], weights=[0.5, 2.0]),
        lambda model: model.disable_adapters(),
        lambda model: model.enable_adapters(),
        lambda model: model.delete_adapters("other"),
    ]
    results = []
    for step in steps:
        step(plain), step(compiled)
        results.append(compiled(*inputs()).sample)
        assert torch.equal(results[-1], plain(*inputs()).sample)
    assert not any(torch.equal(first, second) for first, second in zip(results, results[1:4]))


# -- torchao ---------------------------------------------------------------------------------------------------


@pytest.fixture
def quantised():
    quantization = pytest.importorskip("torchao.quantization", reason=INSTALL)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).eval()
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    assert type(model[0].weight) is not torch.nn.Parameter
    return model


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("config", "options"),
    [
        ("IntxWeightOnlyConfig", {"weight_dtype": torch.int4}),
        ("Int8DynamicActivationIntxWeightConfig", {"weight_dtype": torch.int4}),
        ("Int8DynamicActivationInt8WeightConfig", {}),
        ("Float8WeightOnlyConfig", {}),
    ],
)
@torch.no_grad()
def test_a_quantised_model_is_one_graph(backend, config, options):
    quantization = pytest.importorskip("torchao.quantization", reason=INSTALL)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).eval().to(torch.bfloat16)
    quantization.quantize_(model, getattr(quantization, config)(**options))
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for size in (4, 6, 9):
        x = torch.randn(size, 32, dtype=torch.bfloat16)
        assert torch.equal(compiled(x), model(x))
    assert len(entries_of(compiled)) <= 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@torch.no_grad()
def test_a_model_with_int8_weights_is_one_graph(quantised, backend):
    compiled = torch.compile(quantised, backend=backend, fullgraph=True)
    for size in (4, 6, 9):
        x = torch.randn(size, 32)
        assert torch.equal(compiled(x), quantised(x))
    assert len(entries_of(compiled)) == 2


@torch.no_grad()
def test_int8_weights_that_are_loaded_or_replaced_are_seen(quantised):
    x = torch.randn(4, 32)
    compiled = torch.compile(quantised, fullgraph=True)
    before = compiled(x)
    other = copy.deepcopy(quantised)
    other[0].weight = torch.nn.Parameter(quantised[0].weight.dequantize() + 1, requires_grad=False)
    recompiled = torch.compile(other, fullgraph=True)
    assert torch.equal(recompiled(x), other(x)) and not torch.equal(other(x), before)
    other[0].weight = quantised[0].weight
    assert torch.equal(recompiled(x), before)
    quantised.load_state_dict({name: value * 0 if "bias" in name else value for name, value in quantised.state_dict().items()})
    assert torch.equal(compiled(x), quantised(x)) and not torch.equal(compiled(x), before)
