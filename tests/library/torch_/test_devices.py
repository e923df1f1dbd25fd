"""What programs ask of accelerators. Where torch has none, one is made up; `test_streams_of_cuda.py` asks a real one."""

from __future__ import annotations

import types

import pytest
import torch

import tracer
from tests.support import breaks, captured
from tests.support.regions import entries
from tracer.library.torch_ import devices

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture
def cards(monkeypatch):
    """Two cards of CUDA, and which one is the current."""
    properties = types.SimpleNamespace(major=9, minor=0, name="A card", multi_processor_count=132, uuid=object())
    state = types.SimpleNamespace(current=0, captured=False)
    monkeypatch.setattr("torch.cuda._lazy_init", lambda: None)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda._get_device_properties", lambda index: properties, raising=False)
    monkeypatch.setattr("torch._C._cuda_getDevice", lambda: state.current, raising=False)
    monkeypatch.setattr("torch._utils._get_current_device_index", lambda: state.current)
    monkeypatch.setattr("torch.cuda.graphs._cuda_isCurrentStreamCapturing", lambda: state.captured)
    return state


def compiled(fn):
    return tracer.optimize(fullgraph=True)(fn)


def test_what_never_changes_is_a_constant():
    captured(lambda x: (x + 1, torch.cuda.is_initialized(), torch.cuda.get_arch_list(), torch.accelerator.device_count()), X)


def test_the_current_device_is_guarded(cards):
    run = compiled(lambda x: x + torch.cuda.current_device())
    assert torch.equal(run(X), X)
    cards.current = 1
    assert torch.equal(run(X), X + 1)
    assert torch.equal(run(X), X + 1) and len(entries(run)) == 2


def test_properties_of_a_device_are_constants(cards):
    def fn(x):
        properties = torch.cuda.get_device_properties("cuda")
        capability = torch.cuda.get_device_capability(torch.device("cuda", 1))
        return x * properties.multi_processor_count, capability, torch.cuda.get_device_name(0), properties

    run = compiled(fn)
    for _ in range(2):
        tensor, *others = run(X)
        assert torch.equal(tensor, X * 132) and others[:2] == [(9, 0), "A card"] and others[2].minor == 0
    assert len(entries(run)) == 1


def test_a_device_that_there_is_not_raises_as_in_the_program(cards):
    run = tracer.optimize()(lambda x: (x, torch.cuda.get_device_properties(7)))
    with pytest.raises(AssertionError, match="Invalid device id"):
        run(X)


def test_a_context_of_the_current_device_changes_nothing(cards):
    def fn(x):
        with torch.cuda.device(0), torch.cuda.device_of(x):
            torch.cuda.set_device("cuda:0") if x.is_cuda else None
            return x + 1

    assert torch.equal(compiled(fn)(X), X + 1)


def test_another_device_breaks_the_graph(cards):
    def fn(x):
        with torch.cuda.device(1):
            return x + 1

    with pytest.raises(tracer.errors.Unsupported, match="another device"):
        compiled(fn)(X)


def test_whether_a_stream_is_captured_is_guarded(cards):
    run = compiled(lambda x: x + 1 if torch.cuda.is_current_stream_capturing() else x)
    assert torch.equal(run(X), X)
    cards.captured = True
    assert torch.equal(run(X), X + 1)


def test_whether_a_stream_of_the_graph_is_captured_breaks_the_graph(cards):
    def fn(x):
        with torch.cpu.stream(torch.cpu.Stream()):
            return x + 1 if torch.cuda.is_current_stream_capturing() else x

    with pytest.raises(tracer.errors.Unsupported, match="is_current_stream_capturing"):
        compiled(fn)(X)


def test_memory_figures_break_the_graph():
    breaks(lambda x: (x + 1, torch.cuda.memory_allocated()), X)


def test_what_the_processor_can_is_known_in_the_first_call():
    torch.cpu.get_capabilities.cache_clear()
    captured(lambda x: (x + 1, torch.cpu._is_avx2_supported(), torch.cpu.get_capabilities()["architecture"]), X)


def test_an_entry_is_for_processors_that_can_the_same(monkeypatch):
    run = compiled(lambda x: x + 1 if torch.cpu._is_amx_tile_supported() else x - 1)
    torch.cpu.get_capabilities.cache_clear()
    before = run(X)
    able = not torch.cpu._is_amx_tile_supported()
    monkeypatch.setattr("torch._C._cpu._get_cpu_capability", lambda: {"amx_tile": able})
    for cached in (torch.cpu.get_capabilities, devices.cpu_capabilities):
        cached.cache_clear()
    try:
        assert torch.equal(run(X) - before, torch.full_like(X, 2.0 if able else -2.0))
    finally:
        for cached in (torch.cpu.get_capabilities, devices.cpu_capabilities):
            cached.cache_clear()
