"""Float arguments that vary, with every backend: Python's results to the last bit, for -0.0, nan and infinities too."""

from __future__ import annotations

import math
import random

import pytest
import torch

import tracer
from tests.support.outcomes import outcome
from tracer.backends import torch_compilers

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
    "natural_logarithm": lambda t, s: t * math.log(abs(s) + 1),
    "exponential": lambda t, s: t * math.exp(-abs(s)),
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


OPERATIONS = {
    "add with alpha": lambda x, y, a: torch.add(x, y, alpha=-a),
    "add_ with alpha": lambda x, y, a: x.clone().add_(y, alpha=-a),
    "addcdiv": lambda x, y, a: torch.addcdiv(x, y, y + 3, value=-a),
    "clamp": lambda x, y, a: x.clamp(min=-a, max=a),
    "power": lambda x, y, a: x**a,
    "full": lambda x, y, a: torch.full((3,), a),
    "leaky_relu": lambda x, y, a: torch.nn.functional.leaky_relu(-x, a),
    "each add with alpha": lambda x, y, a: torch._foreach_add([x, y], [y, x], alpha=-a),
    "each mul": lambda x, y, a: torch._foreach_mul([x, y], a),
    "each addcdiv": lambda x, y, a: torch._foreach_addcdiv([x], [y], [y + 3], [-a]),
    "beside one whose value is needed": lambda x, y, a: x * a + torch.pow(y, -a),
    "without gradients": lambda x, y, a: without_gradients(x, y, a),
}


def without_gradients(x, y, a):
    with torch.no_grad():
        return torch.lerp(x, y, a)  # the value of this one may be needed


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_takes_each_value_of_a_float(name, backend):
    operation = OPERATIONS[name]
    compiled = tracer.compile(operation, backend=backend)
    x, y = torch.rand(3) + 0.1, torch.rand(3) + 0.1
    for value in (0.1, 0.08, 0.06, 0.6, 0.04):
        torch.testing.assert_close(
            compiled(x, y, value), operation(x, y, value), **({"rtol": 0, "atol": 0} if backend != "inductor" else {})
        )
        assert torch.is_grad_enabled()
    decides = backend == "inductor" and name == "without gradients"  # Inductor's lerp asks which half the weight is in
    assert len(tracer.region_of(compiled).entries()) == (3 if decides else 2)  # the first value is a constant


DECISIONS = {
    "the order of two": lambda x, a: torch.nn.functional.hardtanh(x, -0.3, a),
    "whether it is zero": lambda x, a: torch.addmm(x, x, x, beta=a),
    "an order of a norm": lambda x, a: x.norm(a),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_what_a_compiler_decides_on_a_float_becomes_a_guard(name):
    compiled = tracer.compile(DECISIONS[name], backend="aot_eager")
    x = torch.arange(9.0).reshape(3, 3) / 10
    for value in (0.5, 0.6, 0.7, 0.8, 0.0, -0.5, math.inf, 0.9):
        assert bits(outcome(compiled, x, value)) == bits(outcome(DECISIONS[name], x, value)), value
        if value == 0.8:
            assert len(tracer.region_of(compiled).entries()) == 2  # the first value is a constant


FUSED = {"Adam": {"amsgrad": True}, "AdamW": {}, "SGD": {"momentum": 0.9}, "Adagrad": {}}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", FUSED)
def test_a_fused_step_is_compiled_once_for_all_learning_rates(name, backend):
    trained = []
    for compile in (lambda fn: fn, lambda fn: tracer.compile(fn, backend=backend)):
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(2))]
        optimizer = getattr(torch.optim, name)(parameters, lr=0.1, fused=True, **FUSED[name])
        step = compile(lambda optimizer=optimizer: optimizer.step())
        for _ in range(5):
            for parameter in parameters:
                parameter.grad = parameter.detach() * 0.9
            step()
            optimizer.param_groups[0]["lr"] *= 0.7
        trained.append([parameter.detach() for parameter in parameters])
    assert all(map(torch.equal, *trained))
    assert len(tracer.region_of(step).entries()) == 2  # the first step makes the state


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_a_fused_step_is_compiled_once_where_a_schedule_moves_the_rate_and_the_momentum(backend):
    trained = []
    for compile in (lambda fn: fn, lambda fn: tracer.compile(fn, backend=backend)):
        parameter = torch.nn.Parameter(torch.linspace(-1, 1, 6))
        optimizer = torch.optim.Adam([parameter], lr=0.1, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
        step = compile(lambda optimizer=optimizer: optimizer.step())
        for _ in range(6):
            parameter.grad = parameter.detach() * 0.9
            step()
            schedule.step()
        trained.append(parameter.detach())
    assert torch.equal(*trained)
    assert len(tracer.region_of(step).entries()) == 2  # the first step makes the state


def test_an_operation_whose_overload_takes_tensors_of_one_dtype_is_compiled_once_for_all_floats():
    compiled = tracer.compile(lambda x, q: torch.quantile(x.sin(), q) * 2, backend="aot_eager")
    x = torch.linspace(-1, 1, 7)
    for q in (0.1, 0.25, 0.4, 0.8):
        assert torch.equal(compiled(x, q), torch.quantile(x.sin(), q) * 2)
    assert len(tracer.region_of(compiled).entries()) == 2  # the first value is a constant


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "Adagrad"])
def test_a_training_step_is_compiled_once_for_all_learning_rates(optimizer):
    trained = []
    for compile in (lambda fn: fn, lambda fn: tracer.compile(fn, backend="aot_eager")):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        own = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(own, 0.8)

        def step(x, model=model, own=own):
            own.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            own.step()
            return loss

        compiled = compile(step)
        for _ in range(5):
            compiled(torch.ones(3, 4))
            schedule.step()
        trained.append((model.weight.detach(), compiled))
    (plain, _), (traced, compiled) = trained
    assert torch.equal(plain, traced)
    graphs = [entry for entry in tracer.region_of(compiled).entries() if entry.guarded_code.graph is not None]
    assert len(graphs) <= 4  # without gradients yet, and with; each with the first learning rate, and with others


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_gradients_flow_through_operations_that_take_a_float_as_a_number(backend):
    def program(x, w, a):
        y = torch.add(x, w, alpha=a) ** 2
        return (torch.nn.functional.leaky_relu(y, a) * torch.pow(w.abs() + 1, a)).sum()

    compiled = tracer.compile(program, backend=backend)
    for value in (0.1, 0.2, 0.3, 0.4):
        first, second = ([torch.rand(4, 3).requires_grad_() for _ in range(2)] for _ in range(2))
        for one, other in zip(first, second, strict=True):
            other.data.copy_(one.data)
        program(*first, value).backward()
        compiled(*second, value).backward()
        for one, other in zip(first, second, strict=True):
            torch.testing.assert_close(other.grad, one.grad)


def test_what_was_assumed_of_a_float_and_data_is_checked_beside_the_compiled_graph(caplog):
    """As the step of Adam with a momentum that varies: the divisor is not 0."""

    def program(x, t, a):
        return torch.addcdiv(x, x, x, value=1 / (1 - a ** t.item())), x + 1

    compiled = tracer.compile(program, backend="aot_eager", fullgraph=True)
    x, t = torch.rand(4, 3), torch.tensor(3.0)
    for value in (0.1, 0.2, 0.3, 0.4):
        for expected, seen in zip(program(x, t, value), compiled(x, t, value), strict=True):
            torch.testing.assert_close(seen, expected)
    assert tracer.stats(compiled)["compiles"] == 2
    assert not [record for record in caplog.records if record.name.startswith("tracer")]  # the graph itself gave each result
    with pytest.raises(ZeroDivisionError):
        compiled(x, t, 1.0)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_a_float_that_is_computed_from_ints_is_given_as_an_input_where_the_compiler_has_no_code_for_it(backend):
    def remainder(x, k):
        return x + float(k % 3), k / (k % 3 + 1)

    def chosen(x, k):
        return x * float(torch.sym_ite(k > 2, k, 1))

    x = torch.randn(4, 3)
    for program in (remainder, chosen):
        compiled = tracer.compile(program, backend=backend, dynamic=True, fullgraph=True)
        for k in (5, 7, 12, 8):
            torch.testing.assert_close(compiled(x, k), program(x, k))
        assert compiled.stats()["compiles"] == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_exp_and_log_of_numbers_that_vary_are_in_the_graph(backend):
    def program(t, s, n):
        decayed = math.exp(-s) * t
        return decayed if math.exp(-s) > 0.1 else -decayed, t * math.log(n) + math.log(t.shape[0])

    compiled = tracer.compile(program, backend=backend, dynamic=True)
    t = torch.randn(5)
    for s, n in ((0.5, 3), (0.7, 4), (5.5, 9), (1.5, 2), (3.5, 8)):
        torch.testing.assert_close(compiled(t, s, n), program(t, s, n), rtol=0, atol=0)
    assert compiled.stats()["compiles"] <= 3
    for s, n in ((-800.0, 3), (0.5, 0)):
        with pytest.raises((OverflowError, ValueError)):
            compiled(t, s, n)


STEPS = {"done": 1}


def explores_by_chance(x):
    """The policy of a tutorial: less and less at random."""
    threshold = math.exp(-STEPS["done"] / 20)
    STEPS["done"] += 1
    if random.random() > threshold:
        return x * 2
    return x + 1


def scales_and_explores_by_chance(x):
    threshold = math.exp(-STEPS["done"] / 20)
    STEPS["done"] += 1
    drawn = random.random()
    scaled = x * threshold
    return scaled * 2 if drawn > threshold else scaled + 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("policy", [explores_by_chance, scales_and_explores_by_chance])
def test_a_float_of_a_count_is_compared_with_a_drawn_number(policy, backend):
    found = []
    for run in (policy, tracer.compile(policy, backend=backend)):
        STEPS["done"] = 1
        random.seed(5)
        found.append([run(torch.ones(2)) for _ in range(8)])
    torch.testing.assert_close(*found, rtol=1e-6, atol=0)


def test_a_graph_of_numbers_alone_is_not_given_to_a_compiler(monkeypatch):
    def counts(x, n):
        return n // 2 + x.shape[0] * 3

    def refuse(*_, **__):
        raise AssertionError("a graph of numbers was compiled")

    monkeypatch.setattr(torch_compilers, "aot_module_simplified", refuse)
    traced = tracer.compile(counts, backend="aot_eager", dynamic=True)
    for n in (3, 5):
        assert traced(torch.ones(n), n) == n // 2 + n * 3
    assert traced.stats()["compiles"] == 1
