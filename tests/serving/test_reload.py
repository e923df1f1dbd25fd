"""New weights under a seal: the table "Reload" of docs/serving.md, row by row."""

from __future__ import annotations

import re

import pytest
import torch
from torch.nn.utils import parameters_to_vector, parametrizations, parametrize, vector_to_parameters

import tracer

INSTALL = "pip install --no-deps {0}"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q = torch.nn.Linear(4, 4)
        self.v = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x):
        return self.norm(torch.relu(self.q(x)) + self.v(x)) * self.scale


class Doubled(torch.nn.Module):
    def forward(self, weight):
        return weight * 2


def plain():
    return Model().eval()


def parametrized():
    model = plain()
    parametrize.register_parametrization(model.q, "weight", Doubled())
    return model


def weight_normed():
    model = plain()
    parametrizations.weight_norm(model.q)
    return model


def sealed(model, spec="x: B, 4"):
    """Compiled for every batch, certified and sealed."""
    compiled = tracer.compile(model, shapes=f"{spec}; B in 2..64")
    precompile(compiled)
    compiled.seal()
    return compiled


def precompile(compiled):
    with torch.no_grad():
        found = tracer.precompile(compiled, example=(torch.ones(3, 4),))
    assert found.certified, str(found)


def assert_serves(compiled, model):
    with torch.no_grad():
        for size in (2, 9, 64):
            x = torch.randn(size, 4)
            assert torch.equal(compiled(x), model(x))


def assert_refuses(compiled, model, words):
    """The call is refused, and explained in these words; the new state of the model is compiled as the first one was."""
    with torch.no_grad():
        with pytest.raises(tracer.exc.SealedError) as refused:
            compiled(torch.randn(9, 4))
        assert re.search(words, refused.value.explain())
    precompile(compiled)
    assert_serves(compiled, model)


def other_weights(model):
    """A checkpoint with other values, whose tensors are in memory of their own."""
    return {
        name: torch.rand_like(value) if value.is_floating_point() else value.clone() for name, value in model.state_dict().items()
    }


# -- served as before --------------------------------------------------------------------------------------------------


def load(model):
    model.load_state_dict(other_weights(model))


def load_assigning(model):
    model.load_state_dict(other_weights(model), assign=True)


def load_mapped(model, tmp_path):
    torch.save(other_weights(model), tmp_path / "weights")
    model.load_state_dict(torch.load(tmp_path / "weights", mmap=True), assign=True)


def replace_data(model):
    for parameter in model.parameters():
        parameter.data = torch.rand_like(parameter)


def copy_into(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand_like(parameter))


def fill_from_vector(model):
    vector_to_parameters(torch.rand_like(parameters_to_vector(model.parameters())), model.parameters())


def set_parameter(model):
    model.q.weight = torch.nn.Parameter(torch.rand(4, 4))


def set_buffer(model):
    model.scale = torch.rand(4)


def set_layer(model):
    model.q = torch.nn.Linear(4, 4)


def swap(model):
    torch.utils.swap_tensors(model.q.weight, torch.nn.Parameter(torch.rand(4, 4)))


def cast_there_and_back(model):
    model.to(torch.bfloat16).to(torch.float32)


@pytest.mark.parametrize(
    "change",
    [
        load,
        load_assigning,
        replace_data,
        copy_into,
        fill_from_vector,
        set_parameter,
        set_buffer,
        set_layer,
        swap,
        cast_there_and_back,
    ],
)
def test_weights_like_those_before_are_served(change):
    model = plain()
    compiled = sealed(model)
    change(model)
    assert_serves(compiled, model)


def test_weights_in_a_mapped_file_are_served(tmp_path):
    model = plain()
    compiled = sealed(model)
    load_mapped(model, tmp_path)
    assert_serves(compiled, model)


@pytest.mark.parametrize("make", [parametrized, weight_normed])
def test_weights_of_parametrized_layers_are_served(make):
    model = make()
    compiled = sealed(model)
    for change in (load, load_assigning):
        change(model)
        assert_serves(compiled, model)


# -- to be compiled ----------------------------------------------------------------------------------------------------


def freeze(model):
    model.requires_grad_(False)


def transpose(model):
    model.q.weight = torch.nn.Parameter(torch.rand(4, 4).t())


def tie(model):
    model.v.weight = model.q.weight


def drop_bias(model):
    model.q = torch.nn.Linear(4, 4, bias=False)


def widen(model):
    model.q, model.v = (torch.nn.Sequential(torch.nn.Linear(4, 7), torch.nn.Linear(7, 4)) for _ in "qv")


def train(model):
    model.train()


def cast_a_layer(model):
    model.scale = model.scale.double()


def parametrize_a_layer(model):
    parametrize.register_parametrization(model.q, "weight", Doubled())


def load_in_inference_mode(model):
    with torch.inference_mode():
        model.scale = torch.rand(4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (freeze, "requires_grad mismatch. expected True, actual False"),
        (transpose, "stride mismatch"),
        (tie, "are one object"),
        (drop_bias, r"type of .*'bias'\] was Parameter, is NoneType"),
        (widen, "type of .* was Linear, is Sequential"),
        (train, "training is False"),
        (cast_a_layer, "dtype mismatch. expected torch.float32, actual torch.float64"),
        (parametrize_a_layer, "type of .* was Linear, is ParametrizedLinear"),
        (load_in_inference_mode, "key set mismatch"),
    ],
)
def test_what_changes_more_than_values_is_refused_until_it_is_compiled(change, words):
    model = plain()
    compiled = sealed(model)
    change(model)
    assert_refuses(compiled, model, words)


def test_a_parametrization_that_is_removed_is_refused_until_it_is_compiled():
    model = parametrized()
    compiled = sealed(model)
    parametrize.remove_parametrizations(model.q, "weight")
    assert_refuses(compiled, model, "type of .* was ParametrizedLinear, is Linear")


# -- adapters ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def peft():
    return pytest.importorskip("peft", reason=INSTALL.format("peft accelerate"))


def config_of(peft):
    return peft.LoraConfig(r=2, target_modules=["q", "v"], init_lora_weights=False)


def adapted(peft):
    """A model with the adapters "default" and "other"."""
    model = peft.get_peft_model(plain(), config_of(peft))
    model.add_adapter("other", config_of(peft))
    model.set_adapter("other")  # from now on each layer has a list of its own of what is active
    model.set_adapter("default")
    return model.eval()


def test_weights_of_an_adapter_and_adapters_that_are_not_active_are_served(peft):
    model = adapted(peft)
    compiled = sealed(model, "args[0]: B, 4")
    weights = peft.get_peft_model_state_dict(model)
    peft.set_peft_model_state_dict(model, {name: torch.rand_like(value) for name, value in weights.items()})
    assert_serves(compiled, model)
    model.add_adapter("third", config_of(peft))
    assert_serves(compiled, model)
    model.delete_adapter("other")
    assert_serves(compiled, model)


def test_adapters_that_were_compiled_are_switched_merged_and_disabled(peft):
    model = adapted(peft)
    compiled = sealed(model, "args[0]: B, 4")
    merged, disabled = model.merge_adapter, model.base_model.disable_adapter_layers
    ways = [
        (lambda: model.set_adapter("other"), lambda: model.set_adapter("default"), "active_adapter == 'default'"),
        (merged, model.unmerge_adapter, "merged_adapters"),
        (disabled, model.base_model.enable_adapter_layers, "_disable_adapters is False"),
    ]
    for there, back, words in ways:
        there()
        assert_refuses(compiled, model, words)
        back()
        assert_serves(compiled, model)
    for there, back, _ in ways:
        there()
        assert_serves(compiled, model)
        back()
        assert_serves(compiled, model)


def test_adapters_put_into_a_compiled_model_are_refused_until_it_is_compiled(peft):
    model = plain()
    compiled = sealed(model)
    peft.inject_adapter_in_model(config_of(peft), model)
    model.eval()
    assert_refuses(compiled, model, r"type of L\['self'\]._modules\['q'\] was Linear, is Linear")


# -- quantised weights -------------------------------------------------------------------------------------------------


def quantized(model):
    torchao = pytest.importorskip("torchao.quantization", reason=INSTALL.format("torchao"))
    torchao.quantize_(model, torchao.Int8WeightOnlyConfig())
    return model


def test_quantised_weights_are_replaced_by_others(request):
    model = quantized(plain())
    compiled = sealed(model)
    for assign in (True, False):
        model.load_state_dict(quantized(plain()).state_dict(), assign=assign)
        assert_serves(compiled, model)


def test_a_model_that_is_quantised_later_is_refused_until_it_is_compiled():
    model = plain()
    compiled = sealed(model)
    quantized(model)
    assert_refuses(compiled, model, "type of .* was Parameter, is Int8Tensor")
