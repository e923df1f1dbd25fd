"""Backends behind the decorator: right results at many sizes, training, and failures that change nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tracer
from tests.backends.programs import mlp, weight_and_bias
from tracer.backends.calling import resolve_backend
from tracer.exc import BackendCompilerFailed

BACKENDS = ["eager", "aot_eager", "inductor"]


def gradients(fn, x, weight, bias):
    return torch.autograd.grad(fn(x, weight, bias).sum(), [weight, bias])


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_compiles_serve_every_size_forward_and_backward(backend):
    compiles = []

    def counting(gm, example_inputs):
        compiles.append(gm)
        return resolve_backend(backend)(gm, example_inputs)

    fn, (weight, bias) = tracer.compile(mlp, backend=counting), weight_and_bias()
    for rows in (6, 7, 12, 5, 33):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(fn(x, weight, bias), mlp(x, weight, bias))
        torch.testing.assert_close(gradients(fn, x, weight, bias), gradients(mlp, x, weight, bias))
    assert len(compiles) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_module_is_trained(backend):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    start = {name: value.clone() for name, value in model.state_dict().items()}
    x, y = torch.randn(16, 3), torch.randn(16, 1)

    def trained(module):
        model.load_state_dict(start)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (module(x) - y).square().mean().backward()
            optimizer.step()
        return [p.detach().clone() for p in model.parameters()]

    torch.testing.assert_close(trained(tracer.compile(model, backend=backend)), trained(model))


def test_the_example_inputs_are_what_torchs_own_tools_accept():
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

    seen = []

    def theirs(gm, example_inputs):
        seen.append(example_inputs)
        return aot_module_simplified(gm, example_inputs, fw_compiler=lambda g, _: make_boxed_func(g.forward))

    fn, (weight, bias) = tracer.compile(mlp, backend=theirs), weight_and_bias()
    for rows in (6, 7, 12):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(gradients(fn, x, weight, bias), gradients(mlp, x, weight, bias))
    assert len(seen) == 2 and any(isinstance(value, torch.SymInt) for value in seen[1])


def test_real_inputs_are_the_programs_own():
    given = []

    @tracer.register_backend("keeps_real_inputs", real_inputs=True)
    def keeps_real_inputs(gm, example_inputs):
        given.extend(example_inputs)
        return gm.forward

    x = torch.randn(2, 3)
    tracer.compile(lambda x: x + 1, backend="keeps_real_inputs")(x)
    assert given == [x]


class Broken:
    """A backend that fails until it is repaired."""

    def __init__(self, failure):
        self.failure = failure

    def __call__(self, gm, example_inputs):
        return gm.forward if self.failure is None else self.failure()


def raise_error(kind):
    def fail():
        raise kind("not today")

    return fail


@pytest.mark.parametrize(
    ("failure", "words"), [(raise_error(ZeroDivisionError), "ZeroDivisionError: not today"), (lambda: 3, "returned 3")]
)
@pytest.mark.parametrize("suppress", [True, False])
def test_a_failing_backend_is_an_error_and_leaves_nothing_behind(failure, words, suppress):
    backend, effects = Broken(failure), []

    def program(x):
        effects.append(len(effects))
        return x + 1

    fn, x = tracer.optimize(backend)(program), torch.ones(2)
    with tracer.config.patch(suppress_errors=suppress), pytest.raises(BackendCompilerFailed, match=words):
        fn(x)
    assert effects == [] and tracer.region_of(fn).entries() == []
    backend.failure = None
    assert torch.equal(fn(x), x + 1) and effects == [0]
    assert len(tracer.region_of(fn).entries()) == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_interrupts_in_a_backend_are_never_swallowed(stop):
    fn = tracer.optimize(Broken(raise_error(stop)))(lambda x: x + 1)
    with tracer.config.patch(suppress_errors=True), pytest.raises(stop):
        fn(torch.ones(2))


def test_a_backend_may_call_decorated_code():
    inner = tracer.compile(lambda x: x * 3)

    def backend(gm, example_inputs):
        assert torch.equal(inner(torch.ones(2)), torch.full((2,), 3.0))
        return gm.forward

    fn = tracer.optimize(backend)(lambda x: x - 1)
    assert torch.equal(fn(torch.ones(2)), torch.zeros(2))
    assert len(tracer.region_of(inner).entries()) == 1


def test_inductor_takes_modes_and_options():
    fn = tracer.compile(lambda x: x.sin() + 1, backend="inductor", options={"max_fusion_size": 8})
    torch.testing.assert_close(fn(torch.ones(5)), torch.ones(5).sin() + 1)
    bad = tracer.compile(lambda x: x.sin() + 1, backend="inductor", mode="no such mode")
    with pytest.raises(BackendCompilerFailed, match="no such mode"):
        bad(torch.ones(5))


def test_inductor_compiles_without_freezing_and_says_so():
    model = torch.nn.Linear(3, 2).eval()
    compiled = tracer.compile(model, backend="inductor", options={"freezing": True})
    x = torch.ones(4, 3)
    with torch.no_grad():
        with pytest.warns(UserWarning, match="without freezing"):
            torch.testing.assert_close(compiled(x), model(x))
        model.weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))


def test_guards_of_a_backend_belong_to_the_entry():
    def looks_at_sizes(gm, example_inputs):
        from tracer.backends.torch_bridge import compile_with

        def decide(graph, inputs):
            sizes = [value for value in inputs if isinstance(value, torch.SymInt)]
            assert all(size % 2 == 0 for size in sizes)
            return graph.forward

        return compile_with(decide, gm, example_inputs)

    fn = tracer.compile(lambda x: x + 1, backend=looks_at_sizes, dynamic=True)
    fn(torch.ones(6))
    assert "% 2 == 0" in tracer.region_of(fn).entries()[0].guarded_code.guards_text
    fn(torch.ones(8))
    assert len(tracer.region_of(fn).entries()) == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_backward_pass_behind_a_graph_break_is_not_traced_again(backend):
    def step(x, weight):
        loss = (x * weight).sin().sum()
        tracer.graph_break()
        loss.backward()
        return loss

    compiled = tracer.compile(step, backend=backend)
    functions = set()
    end = tracer.add_callback(lambda event: functions.add(event.function.partition(".<resume")[0]), "compile")
    try:
        for _ in range(3):
            weight, expected = (torch.arange(4.0).requires_grad_() for _ in range(2))
            torch.testing.assert_close(compiled(torch.ones(4), weight), step(torch.ones(4), expected))
            torch.testing.assert_close(weight.grad, expected.grad)
    finally:
        end()
    assert {name.rpartition(".")[2] for name in functions} == {"step"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(0, 4), (8, 0), (0, 0)])
def test_empty_inputs_are_compiled_where_sizes_of_0_are_not_told_apart(backend, shape):
    def parts(x):
        halves = torch.stack(x.chunk(4), 0) if x.shape[0] % 2 == 0 else x
        return x.unsqueeze(0).expand(2, *x.shape).sum(0), halves * x.shape[0] // 2, x.shape[1] // 2

    with tracer.config.patch(specialize_zero_one="by_need"):
        compiled = tracer.compile(parts, backend=backend, dynamic=True)
        for given in (shape, (8, 5), shape, (6, 4)):
            x = torch.arange(float(given[0] * given[1])).reshape(given)
            torch.testing.assert_close(compiled(x), parts(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_are_inverted_and_conditions_compared_in_compiled_graphs(backend):
    def bits(x, y):
        n, m = x.shape[0], y.shape[0]
        return x * 2, ~n, ~(n > m), (n > m) ^ (m > 2), (n > m) ^ True, torch.ones(~n & 3)

    compiled = tracer.compile(bits, backend=backend, dynamic=True)
    for n, m in ((5, 3), (4, 9), (9, 2)):
        got, expected = compiled(torch.ones(n), torch.ones(m)), bits(torch.ones(n), torch.ones(m))
        torch.testing.assert_close(got, expected)
        assert [type(value) for value in got] == [type(value) for value in expected]


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_a_backward_pass_runs_twice_where_the_graph_is_retained(backend):
    x, weight, bias = torch.randn(5, 3), *weight_and_bias()
    for call in (mlp, tracer.compile(mlp, backend=backend)):
        weight.grad = None
        loss = call(x, weight, bias).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        if call is mlp:
            expected = weight.grad
    torch.testing.assert_close(weight.grad, expected)
