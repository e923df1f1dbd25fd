"""Attributes of Python modules that are not there when the frame is traced."""

from __future__ import annotations

import math
import sys
import types

import pytest
import torch

from tests.support import captured, captured_made, check
from tests.support.graphs import Graphs
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(4.0)


@pytest.fixture
def module():
    made = sys.modules["a_module_of_the_test"] = types.ModuleType("a_module_of_the_test")
    yield made
    del sys.modules[made.__name__]


def traced(fn):
    return compiled(fn, Settings(backend="eager", name="check"))


def test_an_attribute_that_appears_later(module):
    def fn(x):
        return x * 2 if hasattr(module, "feature") else x - 1

    compiled_fn = traced(fn)
    assert torch.equal(compiled_fn(X), X - 1)
    module.feature = True
    assert torch.equal(compiled_fn(X), X * 2)
    del module.feature
    assert torch.equal(compiled_fn(X), X - 1)


def test_an_attribute_that_is_missing(module):
    def fn(x):
        y = x + 1
        try:
            return module.nothing
        except AttributeError as error:
            return y, str(error)

    captured(fn, X)


def test_the_getattr_of_a_module_is_traced_through_and_does_not_run_meanwhile(module):
    asked = module.asked = []
    text = "def __getattr__(name):\n    asked.append(name)\n    if name == 'lazy': return 3\n    raise AttributeError(name)"
    exec(text, vars(module))

    def fn(x):
        return x * module.lazy + hasattr(module, "nothing")

    captured_made(fn, lambda: ((X,), {}), reset=asked.clear)
    asked.clear()
    traced(fn)(X)
    assert [name for name in asked if not name.startswith("__")] == ["lazy", "nothing"]


def test_a_module_class_of_the_program(module):
    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            value = 5 if name == "late" else 7
            setattr(self, name, value)
            return value

    module.__class__ = Lazy

    def fn(x):
        return x * module.late

    captured_made(fn, lambda: ((X,), {}), reset=lambda: vars(module).pop("late", None))
    captured(fn, X)  # it is there now


def test_a_module_class_that_watches_every_read(module):
    reads = []

    class Watching(types.ModuleType):
        def __getattribute__(self, name):
            if not name.startswith("__"):
                reads.append(name)
            return super().__getattribute__(name)

    module.value = 2
    module.__class__ = Watching

    def fn(x):
        return x * module.value

    assert torch.equal(traced(fn)(X), X * 2)
    assert reads.count("value") == 1


def test_operators_found_when_they_are_asked_for():
    def fn(x):
        return torch.ops.aten.sinh(x), hasattr(torch.ops.aten, "no_such_operator")

    check(fn, X)


def test_loaded_modules_by_name():
    def f(x):
        y = x + 1 if "math" in sys.modules and "no.such" not in sys.modules else x
        try:
            sys.modules["no.such"]
        except KeyError as error:
            return y * sys.modules["math"].floor(2.5), error.args, sys.modules.get("no.such", 5), sys.modules.get("sys") is sys

    captured(f, X)
    graphs = Graphs()
    compiled_f = compiled(f, Settings(backend=graphs.backend, name="check"))
    compiled_f(X)
    sys.modules["another.module"] = math
    compiled_f(X)
    assert len(graphs) == 1
    sys.modules["no.such"] = math
    try:
        assert compiled_f(X) is f(X) is None
    finally:
        del sys.modules["no.such"], sys.modules["another.module"]
    assert torch.equal(compiled_f(X)[0], f(X)[0]) and len(graphs) == 1


def test_what_lists_the_loaded_modules_breaks_the_graph():
    def f(x):
        return x + 1, len(sys.modules) > 5, next(iter(sys.modules)) in sys.modules.copy()

    assert check(f, X).breaks


def test_module_whose_class_watches_its_attributes():
    class Watched(types.ModuleType):
        def __getattribute__(self, name):
            log.append(name)
            return types.ModuleType.__getattribute__(self, name)

        def __setattr__(self, name, value):
            log.append((name, value))
            types.ModuleType.__setattr__(self, name, value)

    log = []
    module = Watched("watched")

    def fn(x):
        module.rate = 2
        return x * module.rate

    log.clear()
    fn(torch.ones(2))
    expected = list(log)
    log.clear()
    compiled(fn, Settings())(torch.ones(2))
    assert log == expected


def test_dict_of_a_module_cannot_be_replaced():
    module = types.ModuleType("plain")

    def fn(x):
        try:
            module.__dict__ = {}
        except (TypeError, AttributeError) as error:
            return x, str(error)

    check(fn, torch.ones(2))


class Lazy(types.ModuleType):
    """Reads what it lacks from a table, and keeps it."""

    @property
    def doubled(self):
        return 2 * self.base

    def scaled(self, x):
        return x * self.base

    def __getattr__(self, name):
        if name not in ("two", "three"):
            raise AttributeError(f"nothing like {name}")
        value = {"two": 2, "three": 3}[name]
        setattr(self, name, value)
        return value


@pytest.mark.parametrize("registered", [False, True])
def test_a_class_of_modules_computes_attributes(registered, monkeypatch):
    module = Lazy("lazy_module_of_a_test")
    module.base = 3
    if registered:
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def program(x):
        return x * module.two, module.two, module.doubled, hasattr(module, "four"), module.scaled(x), module.three

    def forget():
        for name in ("two", "three"):
            vars(module).pop(name, None)

    captured_made(program, lambda: ((X,), {}), reset=forget)
    assert module.two == 2 and "two" in vars(module)
    captured(program, X)


class Dispatching(types.ModuleType):
    factor = 4

    @staticmethod
    def doubled(x):
        return 2 * x

    @classmethod
    def scaled(cls, x):
        return x * cls.factor


def test_a_class_of_modules_holds_functions_and_values():
    module = Dispatching("dispatching_module_of_a_test")
    captured(lambda x: (module.doubled(x), module.scaled(x), x + module.factor), X)
