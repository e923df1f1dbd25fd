"""Compilers that other packages bring for torch.compile, and AOTInductor: one compile for every batch of a captured model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tracer

pytestmark = pytest.mark.full
BATCHES = (7, 5, 9)  # none of them is another size of an input


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


def pictures() -> nn.Module:
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers).eval()


MODELS = {"mlp": (mlp, (8,)), "pictures": (pictures, (3, 16, 16)), "encoder": (
    lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), (6, 16)
)}  # fmt: skip


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_openvino_compiles_once_for_all_batches(name: str, installed: bool) -> None:
    pytest.importorskip("openvino", reason="openvino: pip install openvino")
    make, size = MODELS[name]
    model = make()

    def computes_as_eager(compiled: Any) -> None:
        for batch in BATCHES:
            x = torch.randn(batch, *size)
            torch.testing.assert_close(compiled(x), model(x), rtol=0.05, atol=0.05)  # it may compute in bfloat16
        assert len(tracer.region_of(compiled).entries()) == 1

    with torch.no_grad():
        if installed:
            with tracer.install():
                computes_as_eager(torch.compile(model, backend="openvino", dynamic=True))
        else:
            computes_as_eager(tracer.compile(model, backend="openvino", dynamic=True))


def test_aot_inductor_packages_an_exported_model_with_a_dynamic_batch(tmp_path: Path) -> None:
    model, x = mlp(), torch.randn(BATCHES[0], 8)
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = tracer.export(model, dynamic_shapes={"input": {0: batch}})(x).graph_module
    program = torch.export.export(exported, (x,), dynamic_shapes=({0: batch},))
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "mlp.pt2"))
    packaged = torch._inductor.aoti_load_package(package)
    for size in BATCHES:
        x = torch.randn(size, 8)
        torch.testing.assert_close(packaged(x), model(x))
