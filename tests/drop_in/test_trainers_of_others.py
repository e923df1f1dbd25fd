"""Training loops of others under `tracer.install()`: accelerate, peft and Lightning on small models."""

from __future__ import annotations

import copy

import pytest
import torch
import torch._dynamo
from torch.utils.data import DataLoader, TensorDataset

import tracer

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("installed")]
INSTALL = "pip install 'shapetracer[drop-in]'"


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.dropout, self.second = torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 4)

    def forward(self, x, y=None):
        scores = self.second(self.dropout(torch.relu(self.first(x))))
        return scores if y is None else torch.nn.functional.cross_entropy(scores, y)


def batches():
    made = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(22, 8, generator=made), torch.randint(0, 4, (22,), generator=made))
    return DataLoader(data, batch_size=8)  # the last one is smaller


def weights(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def frames():
    return torch._dynamo.utils.counters["frames"]["ok"]


# -- accelerate ------------------------------------------------------------------------------------------------


@pytest.fixture
def accelerate():
    return pytest.importorskip("accelerate", reason=INSTALL)


def trained_by(accelerate, **said):
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    accelerator = accelerate.Accelerator(cpu=True, **said)
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, batches())
    for _ in range(2):
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(x, y))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    return accelerator, model


@pytest.mark.parametrize("said", [{}, {"mixed_precision": "bf16", "gradient_accumulation_steps": 2}], ids=["plain", "bf16"])
def test_a_model_that_accelerate_prepares_trains_to_the_same_weights(accelerate, said):
    _, expected = trained_by(accelerate, **said)
    before = frames()
    accelerator, model = trained_by(accelerate, dynamo_backend="eager", **said)
    assert frames() == before + 2  # the whole batches, and the last one with any size
    assert isinstance(model, torch._dynamo.OptimizedModule)
    torch.testing.assert_close(weights(accelerator.unwrap_model(model)), weights(expected))
    assert type(accelerator.unwrap_model(model, keep_torch_compile=False)) is Classifier


def test_accelerates_plugin_and_checkpoints_hold(accelerate, tmp_path):
    plugin = accelerate.utils.TorchDynamoPlugin(backend="eager", dynamic=True, fullgraph=True)
    accelerator, model = trained_by(accelerate, dynamo_plugin=plugin)
    accelerator.save_state(tmp_path)
    expected = weights(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    accelerator.load_state(tmp_path)
    assert torch.equal(weights(model), expected)


def test_regions_that_accelerate_compiles_are_known_to_it(accelerate):
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=64, num_key_value_heads=2, **sizes)).eval()
    tokens = torch.randint(0, 64, (2, 7))
    with torch.no_grad():
        expected = [model(tokens[:, :length]).logits for length in (7, 5)]
        compiled = accelerate.utils.compile_regions(model, backend="eager")
        assert all(torch.equal(compiled(tokens[:, : wanted.shape[1]]).logits, wanted) for wanted in expected)
    assert accelerate.utils.has_compiled_regions(compiled) and compiled.model.layers[0]._orig_mod is model.model.layers[0]
    assert accelerate.utils.extract_model_from_parallel(compiled, keep_torch_compile=False) is model


# -- peft ------------------------------------------------------------------------------------------------------


@pytest.fixture
def peft():
    return pytest.importorskip("peft", reason=INSTALL)


def lora(peft, rank=4, **said):
    return peft.LoraConfig(r=rank, target_modules=["first", "second"], init_lora_weights=False, **said)


def adapted(peft):
    torch.manual_seed(0)
    model = peft.get_peft_model(Classifier(), lora(peft))
    model.add_adapter("other", lora(peft, 8))
    return model.eval()


def test_adapters_are_switched_disabled_and_merged(peft):
    x = torch.randn(3, 8)

    def outputs(model, call):
        yield call(x)
        model.set_adapter("other")
        yield call(x)
        with model.disable_adapter():
            yield call(x)
        model.merge_adapter()
        yield call(x)
        model.unmerge_adapter()
        model.set_adapter("default")
        yield call(x)

    plain, model = adapted(peft), adapted(peft)
    assert all(map(torch.equal, outputs(plain, plain), outputs(model, torch.compile(model))))


def test_a_batch_of_mixed_adapters_leaves_no_hooks_behind(peft):
    model, x = adapted(peft), torch.randn(3, 8)
    calls = [{"adapter_names": ["__base__", "default", "other"]}, {"adapter_names": ["other"] * 3}, {}]
    expected = [model(x, **call) for call in calls]
    compiled = torch.compile(model)
    assert all(torch.equal(compiled(x, **call), wanted) for call, wanted in zip(calls, expected))
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_an_adapter_is_swapped_in_without_a_recompile(peft, tmp_path):
    from peft.utils.hotswap import hotswap_adapter, prepare_model_for_compiled_hotswap

    def base():
        torch.manual_seed(9)
        return Classifier()

    x = torch.randn(3, 8)
    expected = []
    for number, rank in enumerate((4, 8)):
        torch.manual_seed(number)
        peft.get_peft_model(base(), lora(peft, rank, lora_alpha=8)).save_pretrained(tmp_path / str(number))
        expected.append(peft.PeftModel.from_pretrained(base(), tmp_path / str(number)).eval()(x))
    model = peft.PeftModel.from_pretrained(base(), tmp_path / "0").eval()
    prepare_model_for_compiled_hotswap(model, target_rank=8)
    compiled = torch.compile(model)
    torch.testing.assert_close(compiled(x), expected[0])
    with torch._dynamo.config.patch(error_on_recompile=True):
        hotswap_adapter(compiled, tmp_path / "1", adapter_name="default")
        torch.testing.assert_close(compiled(x), expected[1])
    assert len(tracer.region_of(compiled).entries()) == 1


# -- Lightning -------------------------------------------------------------------------------------------------


@pytest.fixture
def lightning():
    return pytest.importorskip("lightning", reason=INSTALL)


def lightning_module(lightning):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Classifier()

        def training_step(self, batch, index):
            loss = self.net(*batch)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01)

    torch.manual_seed(0)
    return Module()


@pytest.mark.parametrize("said", [{}, {"accumulate_grad_batches": 2, "gradient_clip_val": 0.5}], ids=["plain", "accumulated"])
def test_a_compiled_lightning_module_trains_to_the_same_weights(lightning, tmp_path, said):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    found = []
    for compile_it in (lambda module: module, torch.compile):
        module = lightning_module(lightning)
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=tmp_path, **quiet, **said)
        trainer.fit(compile_it(module), batches())
        found.append(weights(module))
    torch.testing.assert_close(*found)


def test_fabric_compiles_again_what_it_wraps(lightning):
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    torch.manual_seed(0)
    plain = Classifier().eval()
    model = copy.deepcopy(plain)
    wrapped, optimizer = fabric.setup(torch.compile(model), torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in fabric.setup_dataloaders(batches()):
        fabric.backward(wrapped(x, y))
        optimizer.step()
        optimizer.zero_grad()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for x, y in batches():
        optimizer.zero_grad()
        plain(x, y).backward()
        optimizer.step()
    torch.testing.assert_close(weights(model), weights(plain))
