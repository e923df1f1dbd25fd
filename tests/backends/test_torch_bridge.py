"""aot_eager and inductor through the bridge, on static inputs: right numbers, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tracer.backends.calling import resolve_backend
from tracer.backends.torch_bridge import Bridge
from tracer.exc import BackendCompilerFailed


def captured(fn, *inputs):
    """The graph of `fn`, which returns a tuple, and fakes of its inputs in a mode that the compilers don't know."""
    mode = FakeTensorMode()
    return torch.fx.symbolic_trace(fn), [mode.from_tensor(t) if isinstance(t, torch.Tensor) else t for t in inputs]


def layer(x, weight, bias):
    return (torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias)).softmax(-1),)


def parameters():
    torch.manual_seed(0)
    return torch.randn(5, 3), nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_forward_and_backward_are_bitwise_eager(backend):
    x, weight, bias = parameters()
    compiled = resolve_backend(backend)(*captured(layer, x, weight, bias))
    (expected,) = layer(x, weight, bias)
    assert torch.equal(compiled(x, weight, bias)[0], expected)
    got = torch.autograd.grad(compiled(x, weight, bias)[0][:, 0].sum(), [weight, bias])
    wanted = torch.autograd.grad(expected[:, 0].sum(), [weight, bias])
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


def test_inductor_forward_and_backward_are_close():
    x, weight, bias = parameters()
    compiled = resolve_backend("inductor")(*captured(layer, x, weight, bias))
    (expected,) = layer(x, weight, bias)
    torch.testing.assert_close(compiled(x, weight, bias)[0], expected)
    got = torch.autograd.grad(compiled(x, weight, bias)[0][:, 0].sum(), [weight, bias])
    wanted = torch.autograd.grad(expected[:, 0].sum(), [weight, bias])
    torch.testing.assert_close(got, wanted)


def test_real_inputs_serve_as_well():
    x, weight, bias = parameters()
    compiled = resolve_backend("aot_eager")(torch.fx.symbolic_trace(layer), [x, weight, bias])
    assert torch.equal(compiled(x, weight, bias)[0], layer(x, weight, bias)[0])


def test_mutated_inputs_are_mutated():
    def bump(x, y):
        x.add_(y)
        return (x * 2,)

    a, b = torch.ones(3), torch.arange(3.0)
    compiled = resolve_backend("aot_eager")(*captured(bump, a, b))
    (out,) = compiled(a, b)
    assert torch.equal(a, 1 + torch.arange(3.0)) and torch.equal(out, a * 2)


def test_views_of_one_storage_stay_views_of_one_storage():
    def bump(x, y):
        x.add_(1)
        return (y * 2,)

    def run(fn):
        base = torch.zeros(4)
        return fn(base[:3], base[1:])[0], base

    mode = FakeTensorMode()
    base = mode.from_tensor(torch.zeros(4))
    with mode:
        inputs = [base[:3], base[1:]]
    compiled = resolve_backend("aot_eager")(torch.fx.symbolic_trace(bump), inputs)
    (got, got_base), (wanted, wanted_base) = run(compiled), run(bump)
    assert torch.equal(got, wanted) and torch.equal(got_base, wanted_base)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(3, 4),
        lambda: torch.randn(4, 3).t(),
        lambda: torch.randn(3, 1, 5).expand(3, 4, 5),
        lambda: torch.randn(10)[3:7],
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
        lambda: torch.randn(2, 3).to_sparse(),
        lambda: nn.Parameter(torch.randn(3)),
        lambda: torch.randn(3, requires_grad=True) * 2,
        lambda: torch.tensor(3),
        lambda: torch.empty(0, 4),
    ],
)
def test_inputs_keep_their_metadata(make):
    real = make()
    with torch.no_grad():
        own = FakeTensorMode().from_tensor(real)
    (fake,) = Bridge([own]).inputs()
    for name in ("shape", "dtype", "device", "layout", "requires_grad", "is_leaf"):
        assert getattr(fake, name) == getattr(real, name), name
    assert fake.is_conj() == real.is_conj() and isinstance(fake, nn.Parameter) == isinstance(real, nn.Parameter)
    if real.layout == torch.strided:
        assert fake.stride() == real.stride() and fake.storage_offset() == real.storage_offset()


def test_unknown_options_are_refused():
    with pytest.raises(BackendCompilerFailed, match="takes no options="):
        resolve_backend("aot_eager", options={"x": 1})(*captured(layer, *parameters()))
