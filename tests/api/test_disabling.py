"""disable, run, graph_break, is_compiling."""

from __future__ import annotations

import threading

import pytest
import torch

import tracer
from tracer import _C, user_marks
from tracer.exc import UserError

X = torch.ones(3)


def plus_one(x):
    return x + 1


def test_a_disabled_function_keeps_its_name_and_is_not_compiled(graphs):
    fn = tracer.disable(plus_one)
    assert fn.__name__ == "plus_one" and fn.__wrapped__ is plus_one
    assert tracer.optimize(graphs.backend)(fn) is fn
    assert torch.equal(fn(X), X + 1) and len(graphs) == 0


def test_disabling_what_was_compiled_gives_the_plain_function(graphs):
    fn = tracer.disable(tracer.optimize(graphs.backend)(plus_one))
    assert torch.equal(fn(X), X + 1) and len(graphs) == 0


def test_a_disabled_callee_breaks_the_graph_and_runs_in_cpython(graphs):
    seen = []

    @tracer.disable(reason="it logs")
    def effect(x):
        seen.append(_C.active_region())
        return x * 2

    @tracer.optimize(graphs.backend)
    def fn(x):
        return effect(x + 1) - 3

    for _ in range(2):
        assert torch.equal(fn(X), (X + 1) * 2 - 3)
    assert len(graphs) == 2 and seen == [None, None]


def test_disable_recursive_false_still_traces_callees(graphs):
    def inner(x):
        return x.sin() + 1

    @tracer.disable(recursive=False)
    def middle(x):
        return inner(x) * 2

    @tracer.optimize(graphs.backend)
    def fn(x):
        return middle(x + 1) - 3

    assert torch.equal(fn(X), ((X + 1).sin() + 1) * 2 - 3)
    assert len(graphs) == 3


def test_methods_classes_and_modules_can_be_disabled(graphs):
    module = torch.nn.Linear(3, 3)
    plain = tracer.disable(module)
    assert torch.equal(plain(X), module(X)) and isinstance(plain, torch.nn.Module)
    assert list(plain.state_dict()) == ["weight", "bias"]
    assert tracer.optimize(graphs.backend)(plain) is plain

    class Thing:
        @tracer.disable
        def method(self, x):
            return x + 1

        @tracer.disable
        @staticmethod
        def static(x):
            return x + 2

    assert torch.equal(Thing().method(X), X + 1) and torch.equal(Thing.static(X), X + 2)
    tracer.disable(Thing)
    Thing()
    with pytest.raises(TypeError, match="can be called"):
        tracer.disable(3)


def test_disable_is_a_context_manager_too():
    scope = tracer.disable()
    with scope, scope:
        assert _C.active_region() is None

    @scope
    def fn(x):
        return x

    assert fn(1) == 1


def test_scopes_of_threads_do_not_mix():
    scope, barrier, stances = tracer.run(), threading.Barrier(2), []

    def work():
        with scope:
            barrier.wait()
        stances.append(_C.set_stance_c(-1))

    threads = [threading.Thread(target=work) for _ in range(2)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert stances == [-1, -1]


def test_run_uses_entries_and_makes_none(graphs):
    fn = tracer.compile(plus_one, backend=graphs.backend, dynamic=False)
    fn(X)
    only = tracer.run(fn)
    assert torch.equal(only(X), X + 1) and torch.equal(only(torch.ones(5)), torch.ones(5) + 1)
    assert len(graphs) == 1
    with tracer.run():
        fn(torch.ones(6))
    assert len(graphs) == 1
    fn(torch.ones(7))
    assert len(graphs) == 2


def test_run_restores_the_stance_when_the_function_raises():
    @tracer.run
    def fn():
        raise KeyError

    with pytest.raises(KeyError):
        fn()
    assert _C.set_stance_c(-1) == -1


def test_run_takes_modules(graphs):
    module = torch.nn.Linear(3, 3)
    assert torch.equal(tracer.run(tracer.optimize(graphs.backend)(module))(X), module(X))
    assert len(graphs) == 0


def test_graph_break_and_is_compiling_do_nothing_eagerly():
    assert tracer.graph_break() is None and tracer.graph_break(msg="here") is None
    assert tracer.is_compiling() is False


def test_graph_break_splits_the_graph(graphs):
    @tracer.optimize(graphs.backend)
    def fn(x):
        x = x + 1
        tracer.graph_break("on purpose")
        return x * 2

    assert torch.equal(fn(X), (X + 1) * 2) and len(graphs) == 2


def test_is_compiling_is_true_while_traced(graphs):
    @tracer.optimize(graphs.backend)
    def fn(x):
        return x + 1 if tracer.is_compiling() else x - 1

    assert torch.equal(fn(X), X + 1)


def test_an_allowed_function_is_one_operation_of_the_graph(graphs):
    @tracer.allow_in_graph
    def opaque(x):
        return x.sin() + x.cos()

    fn = tracer.optimize(graphs.backend)(lambda x: opaque(x) * 2)
    assert torch.equal(fn(X), opaque(X) * 2)
    assert len(graphs) == 1 and graphs.operations == 2


def test_a_disallowed_function_breaks_the_graph(graphs):
    tracer.disallow_in_graph(torch.sub)
    try:
        fn = tracer.optimize(graphs.backend)(lambda x: torch.sub(x + 1, 1) * 2)
        assert torch.equal(fn(X), X * 2) and len(graphs) == 2
    finally:
        user_marks.graph_policy.discard(torch.sub)


def test_a_disallowed_python_function_runs_in_cpython_with_all_that_it_calls(graphs):
    @tracer.disallow_in_graph
    def by_cpython(x):
        assert not tracer.is_compiling()
        return plus_one(x.sin()).cos()

    fn = tracer.optimize(graphs.backend)(lambda x: by_cpython(x * 3) * 2)
    assert torch.equal(fn(X), by_cpython(X * 3) * 2)
    assert len(graphs) == 2 and graphs.operations == 2


class Doubling:
    def __call__(self, x):
        return x * 2

    def method(self, x):
        return x * 3


def forbidden_things():
    def function(x):
        return x + 1

    owner, module = Doubling(), torch.nn.ReLU()
    yield "function", function, lambda x: function(x)
    yield "given to map", function, lambda x: list(map(function, [x]))
    yield "torch", torch.sub, lambda x: torch.sub(x, 1)
    yield "method of tensors", torch.Tensor.mul, lambda x: x.mul(2)
    yield "bound method", owner.method, lambda x: owner.method(x)
    yield "object", owner, lambda x: owner(x)
    yield "module", module, lambda x: module(x)
    yield "class", Doubling, lambda x: Doubling()(x)
    yield "compiled", (compiled := tracer.optimize()(plus_one)), lambda x: compiled(x)


@pytest.mark.parametrize(("forbidden", "program"), [pytest.param(*rest, id=name) for name, *rest in forbidden_things()])
def test_a_forbidden_call_in_traced_code_is_an_error_at_its_line(forbidden, program):
    tracer.forbid_in_graph(forbidden)
    try:
        with pytest.raises(UserError, match="tracer.forbid_in_graph forbids that\n  Hint: .*disallow_in_graph") as caught:
            tracer.optimize()(program)(X)
        assert caught.value.where.lineno == program.__code__.co_firstlineno and program(X) is not None
    finally:
        user_marks.graph_policy.discard(getattr(forbidden, "__func__", forbidden))


def test_a_handler_in_the_program_does_not_catch_a_forbidden_call():
    @tracer.forbid_in_graph
    def never(x):
        return x + 1

    @tracer.optimize()
    def fn(x):
        try:
            return never(x)
        except Exception:
            return x

    with pytest.raises(UserError):
        fn(X)


def test_a_forbidden_function_that_cpython_calls_is_not_traced(graphs):
    @tracer.forbid_in_graph
    def never(x):
        return x + 1

    @tracer.disable(recursive=False)
    def calls(x):
        return never(x), plus_one(x)

    fn = tracer.optimize(graphs.backend)(lambda x: calls(x * 2)[0] * 2)
    assert torch.equal(fn(X), (X * 2 + 1) * 2)
    assert graphs.operations == 3  # without the sum in `never`


def test_an_assumed_constant_is_called_once(graphs):
    calls = []

    @tracer.assume_constant_result
    def constant():
        calls.append(1)
        return 7

    fn = tracer.optimize(graphs.backend)(lambda x: x + constant())
    fn(X), fn(X)
    assert torch.equal(fn(X), X + 7) and len(calls) == 1


def test_traced_code_goes_through_a_function_of_run(graphs):
    only = tracer.run(plus_one)
    traced = tracer.compile(lambda x: only(x) * 2, backend=graphs.backend, fullgraph=True)
    assert torch.equal(traced(X), (X + 1) * 2)
    assert len(graphs) == 1
