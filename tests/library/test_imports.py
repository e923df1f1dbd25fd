"""Imports inside functions, and questions about what is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util

import torch

from tests.support import breaks, captured

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


def test_a_first_import_breaks():
    def fn(x):
        try:
            import no_such_module_anywhere  # noqa: F401
        except ImportError as error:
            return x + 1, str(error)

    breaks(fn, X)


def test_whether_a_package_is_installed():
    def fn(x):
        return x + 1, is_installed("torch")[0], is_installed("math"), is_installed("no_such_module_anywhere")

    captured(fn, X)
