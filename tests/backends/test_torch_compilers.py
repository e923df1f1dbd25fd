"""The backends that torch's own compilers are."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.config

import tracer


def compiled_and_dropped(backend: str, requires_grad: bool) -> list[weakref.ref[Any]]:
    """References to a function that was compiled and called, what it closes over, its argument and the compiled function."""
    constant, x = torch.ones(3), torch.ones(3, requires_grad=requires_grad)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + constant

    compiled = tracer.compile(program, backend=backend)
    for _ in range(2):
        compiled(x)
    return [weakref.ref(each) for each in (program, constant, x, compiled)]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_was_compiled_is_freed_with_the_function(backend, requires_grad):
    references = compiled_and_dropped(backend, requires_grad)
    gc.collect()
    assert [each() for each in references] == [None] * 4


# Without `fallback_random`, Inductor draws other numbers.
@pytest.mark.parametrize(("backend", "fallback_random"), [("aot_eager", False), ("aot_eager", True), ("inductor", True)])
def test_a_backward_pass_does_not_draw_again_what_the_forward_pass_drew(backend, fallback_random):
    def program(x: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(3)
        return torch.nn.functional.dropout(x.sin(), 0.5).exp().sum() + noise.sum()

    def state_behind(fn: Callable[..., Any]) -> torch.Tensor:
        torch.manual_seed(0)
        fn(torch.ones(5, requires_grad=True)).backward()
        return torch.get_rng_state()

    with torch._inductor.config.patch(fallback_random=fallback_random):
        traced = state_behind(tracer.compile(program, backend=backend))
    assert torch.equal(traced, state_behind(program))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_backward_pass_does_not_test_again_what_the_forward_pass_tested(backend):
    """Numbers that are drawn for it would be others, and may not pass the test."""

    def program(x: torch.Tensor) -> torch.Tensor:
        labels = torch.randint(0, 3, (4,))
        return (torch.nn.functional.one_hot(labels, 3) * x).square().sum()

    with torch._inductor.config.patch(fallback_random=True):
        compiled = tracer.compile(program, backend=backend, fullgraph=True)
        for fn in (compiled, program):
            x = torch.ones(4, 3, requires_grad=True)
            loss = fn(x)
            before = torch.get_rng_state()
            loss.backward()
            assert torch.equal(before, torch.get_rng_state())
            assert x.grad.count_nonzero() == 4


def sample_gamma(x: torch.Tensor) -> torch.Tensor:
    return torch.distributions.Gamma(x, x + 1).rsample().sum()


def fake_quantise_channels(x: torch.Tensor) -> torch.Tensor:
    rows = x.unsqueeze(1).expand(-1, 3) * 1
    return torch.fake_quantize_per_channel_affine(rows, torch.ones(3), torch.zeros(3, dtype=torch.int32), 1, 0, 255).sum()


@pytest.mark.filterwarnings("ignore:A graph of")
@pytest.mark.parametrize("program", [sample_gamma, fake_quantise_channels], ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_torch_cannot_differentiate_for_sizes_that_vary_runs_as_written(backend, program):
    compiled = tracer.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for size in (2, 4):
        found = []
        for fn in (compiled, program):
            torch.manual_seed(0)
            x = torch.full((size,), 1.4, requires_grad=True)
            fn(x).backward()
            found.append(x.grad)
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("scale", [0.1, torch.tensor(0.1)], ids=["number", "tensor"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_operator_for_which_only_the_trace_has_a_rule_is_compiled_for_sizes_that_vary(backend, scale):
    def program(x: torch.Tensor) -> torch.Tensor:
        zero_point = torch.tensor(3, dtype=torch.int32) if isinstance(scale, torch.Tensor) else 3
        return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 255) * 2

    compiled = tracer.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for size in (3, 5):
        x = torch.randn(size, 4, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        compiled(x).sum().backward()
        program(y).sum().backward()
        assert torch.equal(compiled(x), program(x)) and torch.equal(x.grad, y.grad)
