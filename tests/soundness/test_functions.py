"""What can change about the functions, globals and closures that a trace went through is noticed."""

from __future__ import annotations

import functools
import operator
import sys
import types

import pytest
import torch

import tracer
from tests.soundness.watching import Watched, noticed, traced

X = torch.tensor([1.0, 2.0, 3.0])
FACTOR = 2
TABLE = {"k": 2}
ITEMS = [1, 2]


def helper(x):
    return x + 1


def uses_helper(x):
    return helper(x) * 2


def uses_constant(x):
    return x * FACTOR


@pytest.fixture
def other_module():
    """A module of its own, whose functions are traced through."""
    module = types.ModuleType("tests_of_soundness_other")
    exec(
        "RATE = 3\n"
        "def inner(x): return x * RATE\n"
        "def outer(x): return inner(x) + 1\n"
        "class Scale:\n"
        "    by = 2\n"
        "    def __call__(self, x): return x * self.by\n",
        module.__dict__,
    )
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_a_global_function_patched(monkeypatch):
    noticed(uses_helper, (X,), lambda: monkeypatch.setitem(globals(), "helper", lambda x: x - 1))


def test_the_code_of_a_global_function_replaced(monkeypatch):
    def change():
        monkeypatch.setattr(helper, "__code__", (lambda x: x * 9).__code__)

    noticed(uses_helper, (X,), change)


def test_the_code_of_the_decorated_function_replaced():
    def fn(x):
        return x + 1

    watched = traced(fn, (X,))
    fn.__code__ = (lambda x: x * 9).__code__
    watched(X)


def test_a_global_constant_changed(monkeypatch):
    noticed(uses_constant, (X,), lambda: monkeypatch.setitem(globals(), "FACTOR", 3))


def test_a_global_of_another_type(monkeypatch):
    noticed(uses_constant, (X,), lambda: monkeypatch.setitem(globals(), "FACTOR", 2.0))


def test_a_global_that_becomes_a_tensor(monkeypatch):
    noticed(uses_constant, (X,), lambda: monkeypatch.setitem(globals(), "FACTOR", torch.ones(3)))


def test_a_global_that_goes_away(monkeypatch):
    watched = traced(uses_constant, (X,))
    monkeypatch.delitem(globals(), "FACTOR")
    assert isinstance(watched(X), NameError)


def test_a_global_container_changed_in_place(monkeypatch):
    def fn(x):
        return x * TABLE["k"] + len(ITEMS)

    monkeypatch.setitem(globals(), "TABLE", {"k": 2})
    monkeypatch.setitem(globals(), "ITEMS", [1])
    noticed(fn, (X,), lambda: TABLE.__setitem__("k", 7))
    noticed(fn, (X,), lambda: ITEMS.append(7))


def test_a_global_that_hides_a_builtin(monkeypatch):
    noticed(lambda x: x * len([1, 2]), (X,), lambda: monkeypatch.setitem(globals(), "len", lambda l: 100))


def test_a_builtin_replaced(monkeypatch):
    import builtins

    watched = traced(lambda x: x * max(1, 2), (X,))
    monkeypatch.setattr(builtins, "max", lambda *a: 100)
    try:
        expected, seen = X * 100, watched.compiled(X)
    finally:
        monkeypatch.undo()
    assert torch.equal(expected, seen)


def test_a_function_of_torch_replaced(monkeypatch):
    noticed(lambda x: torch.relu(x), (X,), lambda: monkeypatch.setattr(torch, "relu", lambda x: x * 100))
    monkeypatch.undo()
    functional = torch.nn.functional
    noticed(lambda x: functional.relu(x), (X,), lambda: monkeypatch.setattr(functional, "relu", lambda x: x * 100))


def test_a_module_alias_replaced(monkeypatch):
    class Fake:
        @staticmethod
        def relu(x):
            return x * 5

    monkeypatch.setitem(globals(), "functional", torch.nn.functional)
    noticed(lambda x: functional.relu(x), (X,), lambda: monkeypatch.setitem(globals(), "functional", Fake))  # noqa: F821


def test_globals_of_an_inlined_module(other_module):
    outer = other_module.outer
    fn = lambda x: outer(x)
    noticed(fn, (X,), lambda: setattr(other_module, "RATE", 4))
    noticed(fn, (X,), lambda: setattr(other_module, "inner", lambda x: x - 1))
    noticed(lambda x: other_module.outer(x), (X,), lambda: setattr(other_module, "outer", lambda x: x - 7))


def test_classes_of_an_inlined_module(other_module):
    scale = other_module.Scale()
    fn = lambda x: scale(x)
    noticed(fn, (X,), lambda: setattr(other_module.Scale, "by", 4))
    noticed(fn, (X,), lambda: setattr(scale, "by", 5))
    noticed(fn, (X,), lambda: setattr(other_module.Scale, "__call__", lambda self, x: x + 100))
    noticed(lambda x: other_module.Scale()(x), (X,), lambda: setattr(other_module, "Scale", lambda: lambda x: x))


def test_the_globals_of_a_function_that_belongs_to_no_module():
    namespace = {"RATE": 3}
    exec("def inner(x): return x * RATE", namespace)
    inner = namespace["inner"]
    noticed(lambda x: inner(x), (X,), lambda: namespace.__setitem__("RATE", 4))


# --------------------------------------------------------------------------------------------- closures


def test_a_closure_cell_changed():
    factor = 2

    def fn(x):
        return x * factor

    def change():
        nonlocal factor
        factor = 3

    noticed(fn, (X,), change)


def test_a_closure_cell_of_an_inlined_function_changed():
    factor = 2

    def inner(x):
        return x * factor

    def change():
        nonlocal factor
        factor = 3

    noticed(lambda x: inner(x) + 1, (X,), change)


def test_a_closure_cell_that_is_emptied():
    factor = 2

    def fn(x):
        return x * factor  # noqa: F821

    watched = traced(fn, (X,))
    del factor
    assert isinstance(watched(X), NameError)


def test_a_function_in_a_closure_replaced():
    def first(x):
        return x + 1

    chosen = first

    def fn(x):
        return chosen(x) * 2

    def change():
        nonlocal chosen
        chosen = torch.neg

    noticed(fn, (X,), change)


def make_adder(n):
    def add(x):
        return x + n

    return add


def make_scaler(n):
    def scale(x):
        return x * n + FACTOR

    return scale


def test_closures_of_one_code_with_different_cells():
    first, second = make_adder(1), make_adder(10)
    compiled = [tracer.optimize()(f) for f in (first, second)]
    for _ in range(3):
        assert [c(X).tolist() for c in compiled] == [(X + 1).tolist(), (X + 10).tolist()]


def test_closures_of_one_code_called_in_turn():
    adders = [make_adder(n) for n in (1, 10, 100)]
    watched = Watched(lambda x, add: add(x) * 2)
    for add in (*adders, *adders):
        watched(X, add)


def test_closures_of_one_code_with_other_globals():
    watched = Watched(lambda x, add: add(x) * FACTOR)
    add = make_scaler(1)
    others = types.FunctionType(add.__code__, {"FACTOR": 5}, closure=add.__closure__)
    for each in (add, add, others, others, add):
        watched(X, each)
    assert watched.traces == 2


@pytest.mark.parametrize("before", [3, 3.0])
def test_a_function_of_one_code_that_has_other_globals_takes_the_place_of_another(before):
    holder = types.SimpleNamespace(act=make_scaler(before), a=1, b=2, c=3, d=4, e=5)

    def fn(x):
        return holder.act(x) + holder.a + holder.b + holder.c + holder.d + holder.e

    def change():
        holder.act = types.FunctionType(holder.act.__code__, {"FACTOR": 5}, closure=holder.act.__closure__)

    noticed(fn, (X,), change)


def test_cells_that_hold_tensors_are_inputs():
    watched = Watched(lambda x, add: add(x) * 2)
    for value in (torch.ones(3), torch.zeros(3), torch.randn(3)):
        watched(X, make_adder(value))


# --------------------------------------------------------------------------------------------- defaults


def test_defaults_and_keyword_defaults_of_the_decorated_function():
    def fn(x, by=2, *, plus=1):
        return x * by + plus

    noticed(fn, (X,), lambda: setattr(fn, "__defaults__", (5,)))
    noticed(fn, (X,), lambda: setattr(fn, "__kwdefaults__", {"plus": 7}))
    noticed(fn, (X,), lambda: fn.__kwdefaults__.__setitem__("plus", 8))


def test_defaults_of_an_inlined_function():
    def inner(x, by=2, *, plus=1):
        return x * by + plus

    fn = lambda x: inner(x)
    noticed(fn, (X,), lambda: setattr(inner, "__defaults__", (5,)))
    noticed(fn, (X,), lambda: setattr(inner, "__kwdefaults__", {"plus": 7}))
    noticed(fn, (X,), lambda: inner.__kwdefaults__.__setitem__("plus", 8))


def test_a_mutable_default():
    def inner(x, by=[2]):
        return x * by[0]

    noticed(lambda x: inner(x), (X,), lambda: inner.__defaults__[0].__setitem__(0, 3))


def test_a_partial_whose_function_has_changed():
    def inner(x, by):
        return x * by

    by = [2]
    partial = functools.partial(lambda x, by: inner(x, by[0]), by=by)
    noticed(lambda x: partial(x), (X,), lambda: by.__setitem__(0, 5))
    watched = Watched(lambda x, p: p(x))
    for function, argument in ((operator.mul, 2), (operator.mul, 3), (operator.add, 3)):
        watched(X, functools.partial(function, argument))


def test_a_nested_function_that_lives_across_a_break_is_not_traced_at_each_call():
    def fn(x):
        def shifted(y):
            return y + 1

        tracer.graph_break()
        return shifted(x)

    graphs = []
    compiled = tracer.compile(fn, backend=lambda gm, inputs: graphs.append(gm) or gm)
    for _ in range(4):
        assert torch.equal(compiled(X), X + 1)
    assert len(graphs) == 1


def test_a_global_function_that_dies_as_it_is_replaced_is_named_as_the_reason(other_module):
    outer = other_module.outer
    watched = traced(lambda x: outer(x), (X,))
    exec("def inner(x): return x - 1", vars(other_module))
    watched(X)
    (reason,) = watched.reasons
    assert "['tests_of_soundness_other'].inner (<function inner>) was guarded and is gone" in reason
    exec("def inner(x): return x - 2", vars(other_module))
    with tracer.set_stance("fail_on_recompile"), pytest.raises(tracer.errors.RecompileError, match="is gone"):
        watched.compiled(X)


@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__module__", "__doc__"])
def test_the_names_and_the_docstring_of_a_function(name):
    def named():
        """Before."""

    noticed(lambda x: (x + 1, getattr(named, name)), (X,), lambda: setattr(named, name, "after"))
