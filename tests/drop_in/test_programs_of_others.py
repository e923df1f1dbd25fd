"""The code of others, which calls torch.compile, under `tracer.install()`: transformers and diffusers on tiny configurations."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import tracer
from tests.serving.tiny_generators import CONFIGS, prompt, tiny

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("installed")]


@pytest.fixture
def llama():
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=64, num_key_value_heads=2, max_position_embeddings=64, **sizes)
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


def frames():
    return torch._dynamo.utils.counters["frames"]["ok"]


def test_generate_with_a_static_cache_compiles_its_forward_and_gives_the_same_tokens(llama):
    from transformers import CompileConfig

    prompt = torch.randint(0, 64, (1, 7))
    asks = {"do_sample": False, "max_new_tokens": 8, "min_new_tokens": 8}
    expected = llama.generate(prompt, **asks)
    before = frames()
    config = CompileConfig(backend="eager", fullgraph=True, mode=None)
    config._compile_all_devices = True
    found = llama.generate(prompt, cache_implementation="static", compile_config=config, **asks)
    assert torch.equal(found, expected)
    assert frames() > before


DECODERS = [name for name in CONFIGS if name not in ("t5", "bart", "whisper", "mixtral", "bloom")]


@pytest.mark.parametrize("name", DECODERS)
def test_generate_compiles_the_forward_of_each_architecture_whole(name):
    """As transformers' own test of it: what is compiled gives the tokens of what is not, and is compiled in one piece."""
    from transformers import CompileConfig

    model = tiny(name, layers=1)
    config = CompileConfig(backend="eager", fullgraph=True, mode=None, dynamic=False)
    config._compile_all_devices = True
    asks = {"do_sample": False, "max_new_tokens": 4, "cache_implementation": "static"}
    for length in (5, 8):
        inputs = prompt(model, 2, length)
        expected = model.generate(**inputs, disable_compile=True, **asks)
        before = frames()
        assert torch.equal(model.generate(**inputs, compile_config=config, **asks), expected)
        assert frames() > before or length == 8


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_compiled_architecture_trains_as_it_does_uncompiled(name):
    """As transformers' own test of it: the gradients of a loss."""
    found = []
    for compile_it in (lambda model: model, lambda model: torch.compile(model, fullgraph=True)):
        model = tiny(name, layers=1).train().requires_grad_()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        torch.manual_seed(1)
        inputs = prompt(model, 2, 6)
        compile_it(model)(**inputs, labels=torch.arange(12).reshape(2, 6)).loss.backward()
        found.append({name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, msg=name)


def test_a_compiled_transformer_trains_to_the_same_weights(llama):
    import copy

    plain, compiled = copy.deepcopy(llama), torch.compile(copy.deepcopy(llama))
    for model in (plain, compiled):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for length in (6, 9):
            torch.manual_seed(length)
            tokens = torch.randint(0, 64, (2, length))
            optimizer.zero_grad()
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
    for (name, expected), found in zip(plain.named_parameters(), compiled.parameters()):
        torch.testing.assert_close(found, expected, msg=name)
    assert tracer.region_of(compiled).entries()


def test_diffusers_knows_a_compiled_module():
    torch_utils = pytest.importorskip("diffusers.utils.torch_utils", reason="pip install diffusers")
    module = torch.nn.Linear(2, 2)
    assert torch_utils.is_compiled_module(torch.compile(module)) and not torch_utils.is_compiled_module(module)


def test_diffusers_compiles_the_repeated_blocks():
    diffusers = pytest.importorskip("diffusers", reason="pip install diffusers")
    sizes = {"sample_size": 8, "in_channels": 4, "num_layers": 2, "attention_head_dim": 4, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = diffusers.DiTTransformer2DModel(**sizes, patch_size=2, num_embeds_ada_norm=10).eval()
    model._repeated_blocks = ["BasicTransformerBlock"]
    x = torch.randn(1, 4, 8, 8)
    asks = {"timestep": torch.tensor([1]), "class_labels": torch.tensor([3])}
    with torch.no_grad():
        expected = model(x, **asks).sample
        model.compile_repeated_blocks(fullgraph=True)
        assert torch.equal(model(x, **asks).sample, expected)
    blocks = model.transformer_blocks
    assert all(len(tracer.region_of(block).entries()) == 1 for block in blocks)


def test_regions_are_compiled_as_accelerate_compiles_them(llama):
    """What `accelerate.utils.compile_regions` does: a module of each repeated kind is wrapped, and shares what is compiled."""
    tokens = torch.randint(0, 64, (1, 5))
    expected = llama(tokens).logits
    names = list(llama.state_dict())
    llama.model.layers = torch.nn.ModuleList([torch.compile(layer) for layer in llama.model.layers])
    assert torch.equal(llama(tokens).logits, expected)
    assert [name.replace("_orig_mod.", "") for name in llama.state_dict()] == names
    assert all(isinstance(layer, torch._dynamo.OptimizedModule) for layer in llama.model.layers)


def test_repeated_blocks_of_a_model_of_diffusers_are_compiled_once_for_each_kind_of_call():
    diffusers = pytest.importorskip("diffusers", reason="pip install diffusers")
    torch.manual_seed(0)
    sizes = {"patch_size": 1, "in_channels": 4, "attention_head_dim": 16, "num_attention_heads": 2, "axes_dims_rope": (4, 4, 8)}
    model = diffusers.FluxTransformer2DModel(
        **sizes, num_layers=4, num_single_layers=4, joint_attention_dim=32, pooled_projection_dim=32
    ).eval()

    def arguments(batch, pixels, words):
        given = {
            "hidden_states": (batch, pixels, 4),
            "encoder_hidden_states": (batch, words, 32),
            "pooled_projections": (batch, 32),
        }
        tensors = {name: torch.randn(shape) for name, shape in given.items()}
        ids = {"img_ids": torch.zeros(pixels, 3), "txt_ids": torch.zeros(words, 3)}
        return {**tensors, **ids, "timestep": torch.ones(batch), "return_dict": False}

    calls = [arguments(2, 16, 8), arguments(3, 36, 8)]
    compiled = []

    def backend(gm, example_inputs):
        compiled.append(gm)
        return gm.forward

    with torch.no_grad():
        expected = [model(**call)[0] for call in calls]
        model.compile_repeated_blocks(backend=backend)
        found = [model(**call)[0] for call in calls]
    assert all(map(torch.equal, expected, found))
    assert len(compiled) <= 6  # the first single block gets other strides than those behind it
