"""vLLM's and SGLang's own modules of compilation under `tracer.install()`: a decorated model, in pieces around its attention."""

from __future__ import annotations

import copy
import importlib.util
import sys
import types
from typing import Any

import pytest
import torch
import torch.distributed
from torch import nn

import tracer

VLLM = "pip install --no-deps vllm, and what `import vllm.compilation.decorators` and `vllm.config.VllmConfig()` name as missing"
SGLANG = "pip install --no-deps sglang triton, and what `import sglang.srt.compilation.compile` names as missing"
pytestmark = [pytest.mark.full, pytest.mark.usefixtures("installed")]
with_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason=VLLM)
with_sglang = pytest.mark.skipif(not all(map(importlib.util.find_spec, ("sglang", "triton"))), reason=SGLANG)

# vLLM's passes over graphs of Inductor look these operators up, which its wheel has for GPUs.
KERNELS = [
    "fused_add_rms_norm", "fused_add_rms_norm_static_fp8_quant", "fused_qk_norm_rope", "rms_norm",
    "rms_norm_dynamic_per_token_quant", "rms_norm_static_fp8_quant", "rotary_embedding", "silu_and_mul",
    "silu_and_mul_nvfp4_quant", "silu_and_mul_quant",
]  # fmt: skip


@pytest.fixture(autouse=True)
def caches_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
    monkeypatch.setenv("SGLANG_CACHE_DIR", str(tmp_path))
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


@pytest.fixture
def kernels():
    library = torch.library.Library("_C", "FRAGMENT")
    for name in KERNELS:
        if not hasattr(torch.ops._C, name):
            library.define(f"{name}() -> ()")
    yield
    library._destroy()


class Layers(nn.Module):
    def __init__(self, *, vllm_config: Any = None, prefix: str = "", **more: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x @ self.weight + 1
        for _ in range(2):
            x = x + 2
            out = torch.empty_like(x)
            torch.ops.tracer_servers.attention(x, x, x, out)
            x = out + 3
        return x


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


def check_with_vllm(settings: Any, **counted: int) -> None:
    """A model that vLLM decorates computes what it does as written, with so many events in vLLM's own counts."""
    from vllm.compilation.counter import compilation_counter
    from vllm.compilation.decorators import support_torch_compile
    from vllm.config import set_current_vllm_config
    from vllm.forward_context import set_forward_context

    decorated = support_torch_compile(dynamic_arg_dims={"x": 0})(type("Decorated", (Layers,), {"forward": Layers.forward}))
    with set_current_vllm_config(settings):
        model = decorated(vllm_config=settings)
    with torch.no_grad(), set_forward_context({}, vllm_config=settings), compilation_counter.expect(**counted):
        for rows in 4, 8, 5, 8:
            x = torch.randn(rows, 8)
            torch.testing.assert_close(model(x), Layers.forward(model, x))


# Five pieces: two of attention, and three around them, which are compiled for any size and for size 8.
PIECES = {"num_graphs_seen": 1, "num_piecewise_graphs_seen": 5, "num_piecewise_capturable_graphs_seen": 3}


@with_vllm
def test_a_model_that_vllm_decorates_runs_in_pieces_for_any_size_and_for_one(attention):
    settings = settings_of_vllm(backend="eager", splitting_ops=["tracer_servers::attention"], compile_sizes=[8])
    before = tracer.counters["stats"]["unique_graphs"]
    check_with_vllm(settings, **PIECES, num_backend_compilations=6)
    assert tracer.counters["stats"]["unique_graphs"] == before + 1


@with_vllm
def test_what_vllm_compiles_with_inductor_is_saved_and_loaded_by_the_next_model(attention, kernels):
    def settings():
        return settings_of_vllm(backend="inductor", splitting_ops=["tracer_servers::attention"], compile_sizes=[8])

    compiled = {"num_backend_compilations": 6, "num_inductor_compiles": 6, "num_compiled_artifacts_saved": 6}
    check_with_vllm(settings(), **PIECES, **compiled, num_aot_compiles=1, num_aot_artifacts_saved=1)
    before = tracer.counters["stats"]["unique_graphs"]
    loaded = {"num_compiled_artifacts_loaded": 6, "num_aot_artifacts_loaded": 1}
    check_with_vllm(settings(), num_graphs_seen=0, num_backend_compilations=0, **loaded)
    assert tracer.counters["stats"]["unique_graphs"] == before


@pytest.fixture
def process_group(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.fixture
def without_device_graphs(monkeypatch):
    """SGLang imports a function for outputs of CUDA graphs, which it has for no CPU; it is called for none here."""
    name = "sglang.srt.model_executor.runner_backend_utils.weak_ref_tensor"
    stand_in: Any = types.ModuleType(name)
    stand_in.weak_ref_tensors = None
    monkeypatch.setitem(sys.modules, name, stand_in)


@with_sglang
@pytest.mark.usefixtures("attention", "process_group", "without_device_graphs")
@pytest.mark.parametrize("compiler", ["eager", "inductor"])
def test_a_model_that_sglang_compiles_runs_in_pieces_for_any_size(compiler):
    from sglang.srt.compilation.compilation_config import CompilationConfig
    from sglang.srt.compilation.compilation_counter import compilation_counter
    from sglang.srt.compilation.compile import install_torch_compiled
    from sglang.srt.model_executor.runner_backend_utils.tc_piecewise_cuda_graph import enable_tc_piecewise_cuda_graph

    model = Layers()
    as_written = copy.deepcopy(model)
    config = CompilationConfig(capture_sizes=[], compiler=compiler)
    config.add_split_op("tracer_servers.attention")
    config.add_split_op("tracer_servers.attention.default")
    install_torch_compiled(model, compile_config=config, graph_pool=object())
    before = dict(vars(compilation_counter))
    with torch.no_grad(), enable_tc_piecewise_cuda_graph():
        for rows in 4, 8, 5, 8:
            x = torch.randn(rows, 8)
            torch.testing.assert_close(model(x), as_written(x))
    counted = {name: count - before[name] for name, count in vars(compilation_counter).items() if count != before[name]}
    of_inductor = {"num_inductor_compiles": 3, "num_cache_entries_updated": 3} if compiler == "inductor" else {}
    assert counted == PIECES | of_inductor | {"num_backend_compilations": 3}
