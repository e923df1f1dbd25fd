"""vLLM's own modules of compilation under `tracer.install()`: a decorated model, in pieces around its attention."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from torch import nn

import tracer

WANTED = (
    "pip install --no-deps vllm, and what `import vllm.compilation.decorators` and `vllm.config.VllmConfig()` name as missing"
)
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason=WANTED),
    pytest.mark.usefixtures("installed"),
]


@pytest.fixture(autouse=True)
def cache_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
    monkeypatch.setenv("VLLM_USE_BYTECODE_HOOK", "0")


def mixed(q, k, v, out):
    out.copy_(q + k * v)


@pytest.fixture
def attention():
    library = torch.library.Library("tracer_servers", "DEF")
    library.define("attention(Tensor q, Tensor k, Tensor v, Tensor(a!) out) -> ()")
    library.impl("attention", mixed, "CPU")
    library._register_fake("attention", lambda q, k, v, out: None)
    yield torch.ops.tracer_servers.attention
    library._destroy()


def settings_of_vllm(**more):
    """The configuration of a model on CPU, without passes that need vLLM's kernels."""
    from vllm import config
    from vllm.config.compilation import PassConfig

    passes = {name: False for name, field in PassConfig.__dataclass_fields__.items() if "bool" in str(field.type)}
    compilation = config.CompilationConfig(
        mode=config.CompilationMode.VLLM_COMPILE,
        cudagraph_mode=config.CUDAGraphMode.NONE,
        custom_ops=["all"],
        pass_config=PassConfig(**passes),
        **more,
    )
    return config.VllmConfig(device_config=config.DeviceConfig(device="cpu"), compilation_config=compilation)


def test_a_model_that_vllm_decorates_runs_in_pieces_for_any_size_and_for_one(attention):
    from vllm.compilation.counter import compilation_counter
    from vllm.compilation.decorators import support_torch_compile
    from vllm.config import set_current_vllm_config
    from vllm.forward_context import set_forward_context

    class Layers(nn.Module):
        def __init__(self, *, vllm_config, prefix="", **more):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x @ self.weight + 1
            for _ in range(2):
                x = x + 2
                out = torch.empty_like(x)
                attention(x, x, x, out)
                x = out + 3
            return x

    settings = settings_of_vllm(backend="eager", splitting_ops=["tracer_servers::attention"], compile_sizes=[8])
    as_written = Layers.forward
    with set_current_vllm_config(settings):
        model = support_torch_compile(dynamic_arg_dims={"x": 0})(Layers)(vllm_config=settings)
    before = tracer.counters["stats"]["unique_graphs"]
    with (
        torch.no_grad(),
        set_forward_context({}, vllm_config=settings),
        compilation_counter.expect(
            num_graphs_seen=1,
            num_piecewise_graphs_seen=5,  # two of attention, and three around them
            num_piecewise_capturable_graphs_seen=3,
            num_backend_compilations=6,  # each of the three for any size, and for size 8
        ),
    ):
        for rows in 4, 8, 5, 8:
            x = torch.randn(rows, 8)
            torch.testing.assert_close(model(x), as_written(model, x))
    assert tracer.counters["stats"]["unique_graphs"] == before + 1
