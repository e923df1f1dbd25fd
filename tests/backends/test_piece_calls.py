"""How the compiled pieces of a graph are called."""

from __future__ import annotations

import collections
import sys

import pytest
import torch

import tracer

BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)]
WIDTH = 8


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.narrow = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 16), torch.nn.Linear(16, WIDTH)

    def forward(self, x, scale):
        h = torch.nn.functional.gelu(self.wide(self.norm(x)) * scale)
        return x + self.narrow(h.sin().cos().tanh()) * scale.sum()


class Stack(torch.nn.Module):
    def __init__(self, count=4):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block() for _ in range(count)])

    def forward(self, x):
        scale = x.mean()[None]
        for block in self.blocks:
            x = block(x, scale)
        return x, scale


def stack(backend, **settings):
    torch.manual_seed(0)
    model = Stack()
    return model, tracer.compile(model, backend=backend, repeated="outline", fullgraph=True, **settings)


def functions_called(call, *args):
    """How often Python functions run, by their names, and the result."""
    names = collections.Counter()
    sys.setprofile(lambda frame, event, _: names.update([frame.f_code.co_name]) if event == "call" else None)
    try:
        result = call(*args)
    finally:
        sys.setprofile(None)
    return names, result


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_code_of_pieces_is_called_alone_where_gradients_are_off(backend):
    model, compiled = stack(backend)
    for length in (5, 6, 7):
        x = torch.randn(length, WIDTH)
        with torch.no_grad():
            compiled(x)
            names, found = functions_called(compiled, x)
        assert names["runtime_wrapper"] <= 1  # around what is returned, whose sizes may vary
        torch.testing.assert_close(found, model(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_pieces_with_gradients_are_called_with_all_that_surrounds_their_code(backend):
    model, compiled = stack(backend)
    for _ in range(3):
        x = torch.randn(5, WIDTH)
        names, (found, _) = functions_called(compiled, x)
        assert names["runtime_wrapper"] >= 4 and found.requires_grad
        torch.testing.assert_close(torch.autograd.grad(found.sum(), model.blocks[0].wide.weight),
                                   torch.autograd.grad(model(x)[0].sum(), model.blocks[0].wide.weight))  # fmt: skip


def test_gradients_that_are_on_now_and_then_are_as_the_program_has_them():
    model, compiled = stack("aot_eager")
    model.requires_grad_(False)
    x = torch.randn(5, WIDTH)
    for enabled in (False, False, True, True, False, True):
        with torch.set_grad_enabled(enabled):
            assert all(map(torch.equal, compiled(x), model(x)))
            assert torch.is_grad_enabled() is enabled


@pytest.mark.full
def test_a_profile_shows_the_graphs_of_inductor():
    _, compiled = stack("inductor")
    x = torch.randn(5, WIDTH)
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        with torch.profiler.profile() as profile:
            compiled(x)
    assert sum("CompiledFxGraph" in event.name for event in profile.events()) >= 4


@pytest.mark.full
def test_a_result_that_is_an_argument_to_a_compiler_has_memory_of_its_own_at_each_call():
    class Adding(torch.nn.Module):
        def forward(self, x, zeros):
            return torch.relu(x).sin().cos().tanh().exp().abs().sqrt() * 0 + x + torch.zeros_like(zeros)

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList([Adding() for _ in range(4)])

        def forward(self, x):
            seen = []
            for block in self.blocks:
                x = block(x, x)
                seen.append(x)
            return seen

    model = Twice()
    compiled = tracer.compile(model, backend="inductor", repeated="outline", fullgraph=True)
    x = torch.randn(5, WIDTH)
    with torch.no_grad():
        for _ in range(4):
            found = compiled(x)
            torch.testing.assert_close(found, model(x))
            assert len({each.data_ptr() for each in (x, *found)}) == 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_loaded_from_a_file_calls_code_alone(backend, tmp_path):
    model, compiled = stack(backend)
    x = torch.randn(5, WIDTH)
    with torch.no_grad():
        for _ in range(3):
            expected = compiled(x)
        assert tracer.save(compiled, tmp_path / "file").saved == 1
        again = tracer.compile(model, backend=backend, repeated="outline", fullgraph=True)
        assert tracer.load(again, tmp_path / "file").loaded == 1
        again(x)
        names, found = functions_called(again, x)
    assert all(map(torch.equal, found, expected))
    assert names["runtime_wrapper"] <= 1
