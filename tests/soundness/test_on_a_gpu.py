"""The tracer's promises for tensors on a GPU: eager's bits, one graph for all shapes, random numbers, other backends, files."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tracer
from tests.interpreter import asserting
from tests.support import captured, check
from tests.support.processes import run_python

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")
GPU = torch.device("cuda")


def block():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, device=GPU).eval()


def rows(count):
    return torch.randn(count, 7, 32, device=GPU)


@torch.no_grad()
def test_a_model_gives_eagers_bits_with_one_graph_for_all_batches():
    model = block()
    traced = tracer.compile_module(model, backend="eager", dynamic=True, fullgraph=True)
    with tracer.config.patch(error_on_recompile=True):
        for batch in (3, 5, 2, 9):
            x = rows(batch)
            assert torch.equal(traced(x), model(x))


@torch.no_grad()
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiler_gives_what_eager_gives(backend):
    model = block()
    traced = tracer.optimize(backend)(model)
    for batch in (3, 5, 2):
        x = rows(batch)
        torch.testing.assert_close(traced(x), model(x), rtol=1e-4, atol=1e-4)


def moves(x):
    return x.cpu(), x.to(GPU) + torch.ones(x.shape[0], device=GPU), x.cuda().device, x.is_cuda


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_tensors_move_between_devices(device):
    captured(moves, torch.ones(4, device=device))


def test_an_entry_belongs_to_the_device_of_its_tensors():
    traced = tracer.compile(lambda x: x + 1 if x.is_cuda else x - 1, backend="eager")
    for x in (torch.ones(3), torch.ones(3, device=GPU), torch.ones(3)):
        assert torch.equal(traced(x), x + 1 if x.is_cuda else x - 1)


def test_numbers_on_the_cpu_go_with_tensors_on_the_gpu_and_others_do_not():
    captured(lambda x, s: torch.where(x > 0, x * s, torch.tensor(0.0)), torch.ones(3, device=GPU), torch.tensor(2.0))
    check(lambda x, y: x + y, torch.ones(3, device=GPU), torch.ones(3))


def test_conditions_on_data_are_tested_in_the_graph():
    ones = torch.ones(3, device=GPU)
    for program in (asserting.positive, asserting.all_checked):
        captured(program, ones)
        assert check(program, -ones).error is not None
    captured(asserting.positive, ones)  # the device is as before


def draws(x):
    return F.dropout(x, 0.5, True), torch.rand_like(x), torch.randn(3, device=GPU), torch.randint(0, 9, (3,), device=GPU)


def test_random_numbers_are_those_of_eager():
    x = torch.ones(8, device=GPU)
    traced = tracer.optimize("eager", fullgraph=True)(draws)
    for _ in range(2):
        states = []
        for fn in (draws, traced):
            torch.manual_seed(0)
            states.append((fn(x), torch.rand(2, device=GPU)))
        torch.testing.assert_close(*states, rtol=0, atol=0)


def training_losses(decorate):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1)).to(GPU)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, fused=True)
    scaler = torch.amp.GradScaler("cuda")

    @decorate
    def step(x):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()

    return torch.stack([step(torch.linspace(-1, 1, 8 * size, device=GPU).view(size, 8)) for size in (4, 4, 5, 6, 3)])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_training_step_in_half_precision(backend):
    torch.testing.assert_close(training_losses(tracer.optimize(backend)), training_losses(lambda fn: fn))


@torch.no_grad()
def test_a_warm_call_is_captured_in_a_cuda_graph():
    model = block()
    traced, x = tracer.optimize("eager")(model), rows(3)
    traced(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        traced(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = traced(x)
    x.copy_(rows(3))
    graph.replay()
    torch.testing.assert_close(result, model(x))


@torch.no_grad()
def test_threads_call_on_streams_of_their_own():
    model = block()
    traced = tracer.optimize("eager", dynamic=True)(model)
    wrong = []

    def serve(number):
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for batch in range(2, 12):
                x = rows(batch)
                if not torch.equal(traced(x), model(x)):
                    wrong.append((number, batch))

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@torch.no_grad()
def test_the_memory_of_a_dropped_model_is_given_back():
    block()(rows(3))  # libraries take theirs at the first call
    before = torch.cuda.memory_allocated()
    model = block()
    traced = tracer.optimize("eager")(model)
    for batch in (3, 5, 2):
        traced(rows(batch))
    assert torch.cuda.memory_allocated() > before
    del model, traced
    gc.collect()
    assert torch.cuda.memory_allocated() == before


SERVER = """
import sys, torch, tracer
from tests.soundness.test_on_a_gpu import block, rows
model = block()
traced = tracer.optimize("inductor", dynamic=True)(model)
with torch.no_grad():
    if sys.argv[1] == "save":
        traced(rows(3))
        assert tracer.save(traced, sys.argv[2]).saved == 1
    else:
        assert tracer.load(traced, sys.argv[2]).loaded == 1
        for batch in (3, 5):
            x = rows(batch)
            torch.testing.assert_close(traced(x), model(x), rtol=1e-4, atol=1e-4)
        assert tracer.stats(traced)["compiles"] == 0
"""


def test_the_next_process_compiles_nothing(tmp_path):
    for number, what in enumerate(("save", "load")):
        caches = {name: str(tmp_path / f"{name}{number}") for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
        run_python(SERVER, what, tmp_path / "entries", **caches)
