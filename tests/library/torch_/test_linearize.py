"""`torch.func.linearize`: the function that it gives is captured where it is called in the same graph."""

from __future__ import annotations

import pytest
import torch
from torch import func, nn

import tracer
from tests.support import breaks, captured_made, check

X = torch.arange(12.0).view(3, 4) / 7
T = torch.linspace(-1, 1, 12).view(3, 4)
MODEL = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)])
BACKENDS = ("eager", "aot_eager")


def _once(x, t):
    output, jvp = func.linearize(lambda a: a.sin() * 2, x)
    return output, jvp(t)


def _several_times(x, t):
    _, jvp = func.linearize(torch.tanh, x)
    return [jvp(t * k) for k in range(3)]


def _structures(x, t):
    def function(given, factor):
        return {"a": given["u"].sin() * factor, "b": (factor.cos(), given["u"].sum())}

    output, jvp = func.linearize(function, {"u": x}, t)
    return output, jvp({"u": t}, x)


def _gradient(x, t):
    output, jvp = func.linearize(func.grad(lambda a: (a.sin() ** 3).sum()), x)
    return output, jvp(t)


def _module(x, t):
    with torch.no_grad():
        output, jvp = func.linearize(MODEL, x)
        return output, jvp(t), jvp(t + 1)


def _without_tangent(x, t):
    output, jvp = func.linearize(lambda a: (a * 2, x.sin()), x)
    return output, jvp(t)


CAPTURED = {
    "once": _once,
    "several times": _several_times,
    "structures": _structures,
    "a gradient": _gradient,
    "a module": _module,
}


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("dynamic", [False, True])
def test_linearize_is_captured(name, dynamic):
    captured_made(CAPTURED[name], lambda: ((X.clone(), T.clone()), {}), dynamic=dynamic, as_written=True)


@pytest.mark.parametrize("name", CAPTURED)
def test_linearize_is_compiled(name):
    program = CAPTURED[name]
    torch.testing.assert_close(tracer.optimize("aot_eager", fullgraph=True)(program)(X, T), program(X, T))


def test_the_function_is_not_traced_again_at_each_call():
    graph = captured_made(_several_times, lambda: ((X, T), {})).graphs[0].graph
    modules = [node.args[0].target for node in graph.nodes if getattr(node.target, "__name__", "") == "run_linearized"]
    assert len(modules) == 3 and len(set(modules)) == 1


def _written(x, t):
    x = x.clone()
    output, jvp = func.linearize(lambda a: a.sin() * a, x)
    x.add_(1)
    return output, jvp(t)


def _draws(x, t):
    torch.manual_seed(0)
    _, jvp = func.linearize(lambda a: nn.functional.dropout(a, 0.5), x)
    return jvp(t)


def _has_effect(x, t):
    seen = []
    _, jvp = func.linearize(lambda a: seen.append(1) or a * a, x)
    return jvp(t), seen


def _of_numbers(x, t):
    try:
        func.linearize(lambda a, b: a * b, x, 2)
    except AttributeError as error:
        return x + 1, str(error)


def _wrong_tangent(x, t):
    _, jvp = func.linearize(torch.sin, x)
    try:
        jvp(t[0])
    except RuntimeError as error:
        return x + 1, str(error)


def _mapped(x, t):
    _, jvp = func.linearize(torch.sin, x)
    return torch.vmap(jvp)(torch.stack([t, x]))


def _with_history(x, t):
    x = x.detach().requires_grad_()
    output, jvp = func.linearize(torch.sin, x)
    return output, jvp(t)


BREAKING = {
    "an input that is written to": _written,
    "random numbers": _draws,
    "an effect": _has_effect,
    "a number": _of_numbers,
    "a tangent of another size": _wrong_tangent,
    "vmap of the function": _mapped,
    "a result without a tangent": _without_tangent,  # PyTorch gives a Parameter
    "an input with a gradient": _with_history,
}


@pytest.mark.parametrize("name", BREAKING)
def test_what_a_graph_cannot_hold_is_left_to_cpython(name):
    breaks(BREAKING[name], X, T)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_function_leaves_the_region(backend):
    def program(x):
        return func.linearize(torch.sin, x * 2)

    output, jvp = tracer.optimize(backend)(program)(X)
    assert torch.equal(output, (X * 2).sin())
    assert torch.allclose(jvp(T), (X * 2).cos() * T) and torch.allclose(jvp(X), (X * 2).cos() * X)


def test_in_a_level_of_forward_ad_it_raises_as_in_cpython():
    def program(x, t):
        with torch.autograd.forward_ad.dual_level():
            return func.linearize(torch.sin, x)[1](t)

    assert isinstance(check(program, X, T).error, RuntimeError)
