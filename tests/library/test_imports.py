"""Imports inside functions, and questions about what is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import types

import pytest
import torch

import tracer
from tests.support import captured, check

X = torch.arange(3.0)


def is_installed(name):
    found = importlib.util.find_spec(name) is not None
    version = "none"
    if found:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "unknown"
    return found, version


def test_imports_of_what_is_imported():
    def fn(x):
        import math as m
        from collections import OrderedDict as Ordered

        import torch.nn.functional as functional

        return functional.relu(x) * m.floor(2.5), Ordered(a=1), importlib.import_module("math").pi

    captured(fn, X)


def _words(import_it):
    try:
        import_it()
    except ImportError as error:
        return type(error), error.args, error.name, error.path


def _a_module():
    import no_such_module_anywhere  # noqa: F401


def _inside_a_package():
    import torch.nothing_of_this_name.inside  # noqa: F401


def _inside_a_module():
    import math.nothing  # noqa: F401


def _a_name():
    from torch.nn import no_such_layer, functional  # noqa: F401, I001


def _by_name():
    importlib.import_module("no_such_module_anywhere.inside")


@pytest.mark.parametrize("import_it", [_a_module, _inside_a_package, _inside_a_module, _a_name, _by_name])
def test_an_import_of_what_is_not_there_raises_what_cpython_raises(import_it):
    captured(lambda x: (x + 1, _words(import_it)), X)


def test_a_module_that_comes_later_is_imported(monkeypatch):
    def fn(x):
        try:
            import comes_later_than_the_trace as found
        except ImportError:
            return x
        return x * found.factor

    traced = tracer.compile(fn, fullgraph=True)
    assert torch.equal(traced(X), X)
    module = types.ModuleType("comes_later_than_the_trace")
    module.factor = 3
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert torch.equal(traced(X), X * 3)


def test_a_module_that_computes_its_attributes_is_asked(monkeypatch):
    module = types.ModuleType("computes_attributes_of_a_test")

    def computed(name):
        if name != "factor":
            raise AttributeError(name)
        return 2

    module.__getattr__ = computed
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def fn(x):
        from computes_attributes_of_a_test import factor

        return x * factor

    check(fn, X)


def test_whether_a_package_is_installed():
    def fn(x):
        return x + 1, is_installed("torch")[0], is_installed("math"), is_installed("no_such_module_anywhere")

    captured(fn, X)
