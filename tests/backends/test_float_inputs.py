"""Float arguments that vary, with every backend: Python's results to the last bit, for -0.0, nan and infinities too."""

from __future__ import annotations

import math

import pytest
import torch

import tracer
from tests.support.outcomes import outcome

PROGRAMS = {
    "itself": lambda t, s: t * s,
    "absolute": lambda t, s: t * abs(s),
    "negated": lambda t, s: t + abs(-s) * -s,
    "zero_with_a_sign": lambda t, s: t * (s * 0),
    "remainder": lambda t, s: t * (s % 0.3),
    "divmod": lambda t, s: t * divmod(s, 0.7)[1] + s // 0.7,
    "square": lambda t, s: t * s**2,
    "power": lambda t, s: t * 2**s,
    "root": lambda t, s: t * math.sqrt(abs(s)),
    "logarithm": lambda t, s: t * math.log2(abs(s) + 1),
    "sine": lambda t, s: t * math.sin(s) + t * math.tanh(s),
    "less": lambda t, s: t if s < 2.0 else -t,
    "not_less": lambda t, s: t if not s < 2.0 else -t,
    "between": lambda t, s: t if 0 < s < 2 else -t,
    "not_between": lambda t, s: t if not (s > 0 and s < 2) else -t,
    "not_itself": lambda t, s: t if s == s else -t,
    "truth": lambda t, s: t if s else -t,
    "not_outside": lambda t, s: t if not (s < 0 or s > 2) else -t,
    "larger": lambda t, s: t * max(s, 2.0) + min(1.0, s),
    "torch_max_min": lambda t, s: t * torch.sym_max(s, 2.0) + torch.sym_min(1.0, s),
    "without_a_branch": lambda t, s: t * torch.sym_ite(s < 2.0, s, 1.0),
    "rounded": lambda t, s: t * round(s, 1) + s,
    "rounded_to_an_int": lambda t, s: t * round(s / 3) + s if abs(s) < 99 else t,
    "a_size_from_a_float": lambda t, s: torch.zeros(math.floor(abs(s)) + 2) + s if abs(s) < 99 else t,
    "an_int_from_a_float": lambda t, s: t + int(s / 2) if math.isfinite(s) else t,
    "filled": lambda t, s: torch.full((2,), s, dtype=torch.float64),
    "used_twice": lambda t, s: (t * s, t + s, s, s * 2),
    "with_a_size": lambda t, s: t * (s * t.shape[0]) + t.shape[0] / 3,
    "whole": lambda t, s: t if (s * 2).is_integer() else -t,
}
VALUES = [2.5, 1.5, 0.1, -3.7, -0.0, 0.0, math.nan, math.inf, -math.inf, 5e-324, 1e20, 2.0]


def bits(value):
    """Equal where values are the same to the sign of zero; any nan is nan."""
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), repr(value.tolist())
    return repr(value)


def without_signs_of_zeros(value):
    if isinstance(value, tuple):
        return tuple(map(without_signs_of_zeros, value))
    return value + 0.0 if isinstance(value, (float, torch.Tensor)) else value


def assert_results_are_pythons(program, backend, values=VALUES, seen=lambda value: value):
    t = torch.tensor([1.0, -2.0], dtype=torch.float64)
    with tracer.config.patch(recompile_limit=64):
        compiled = tracer.optimize(backend)(program)
        for value in values:
            assert bits(seen(outcome(compiled, t, value))) == bits(seen(outcome(program, t, value))), value
    return compiled


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_pythons(name, backend):
    assert_results_are_pythons(PROGRAMS[name], backend)


def test_one_graph_serves_ordinary_floats():
    for name in ("itself", "square", "remainder", "absolute", "zero_with_a_sign", "sine", "root", "rounded"):
        graphs = []

        def backend(gm, example_inputs, graphs=graphs):
            graphs.append(gm)
            return gm.forward

        assert_results_are_pythons(PROGRAMS[name], backend, [2.5, 1.5, 0.1, 7.25, -3.7])
        assert len(graphs) == 2, name  # the first value is a constant


def test_gradients_flow_through_what_a_float_scales():
    def program(t, s):
        return (t * (s**2)).sum()

    compiled = tracer.optimize("aot_eager")(program)
    for value in (2.5, -1.5, 0.1):
        first, second = (torch.ones(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
        program(first, value).backward()
        compiled(second, value).backward()
        assert torch.equal(first.grad, second.grad)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "logarithm"])  # C's log2 is another
def test_results_are_pythons_with_inductor(name):
    assert_results_are_pythons(
        PROGRAMS[name], "inductor", VALUES[:5], without_signs_of_zeros
    )  # its C++ is compiled with -fno-signed-zeros


def test_floats_that_are_results_do_not_pass_through_the_compiler():
    results = []

    def compiler(gm, inputs):
        results.append(gm.graph.output_node().args[0])
        return gm.forward

    compiled = tracer.optimize(compiler)(PROGRAMS["used_twice"])
    for value in (2.5, 1.5, 0.1):
        compiled(torch.ones(2), value)
    assert [len(each) for each in results] == [2, 2]


def test_a_learning_rate_that_is_divided_by_a_step_count_may_vary():
    trained = []
    for compile in (lambda fn: fn, lambda fn: tracer.compile(fn, backend="aot_eager")):
        parameter = torch.nn.Parameter(torch.ones(4))
        optimizer = torch.optim.Adagrad([parameter], lr=0.5)
        step = compile(lambda optimizer=optimizer: optimizer.step())
        for _ in range(4):
            parameter.grad = torch.full((4,), 0.3)
            step()
            optimizer.param_groups[0]["lr"] *= 0.1
        trained.append(parameter.detach())
    assert torch.equal(*trained)
