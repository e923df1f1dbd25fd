"""Importing tracer: light, and clear about what it cannot work with."""

from __future__ import annotations

import pytest

import tracer
from tests.support.processes import run_python
from tracer.platform_check import python_problem, torch_problem


def test_import_loads_neither_solver_nor_fake_tensors_nor_dynamo():
    heavy = ["sympy", "z3", "torch._dynamo", "torch._functorch.aot_autograd", "tracer.runtime.region_state"]
    done = run_python(f"import sys, tracer; print([m for m in {heavy} if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_every_public_name_exists():
    assert all(hasattr(tracer, name) for name in tracer.__all__)


@pytest.mark.parametrize(
    ("implementation", "version", "words"),
    [("cpython", (3, 12, 1), "needs CPython 3.11; this is 3.12.1"), ("pypy", (3, 11, 0), "this is pypy")],
)
def test_another_python_is_refused(implementation, version, words):
    assert words in python_problem(implementation, version)
    assert python_problem("cpython", (3, 11, 9)) is None


@pytest.mark.parametrize(("version", "fits"), [("2.13.0+cpu", True), ("2.13.1", True), ("2.12.0", False), ("3.0.0a0", False)])
def test_only_the_torch_it_was_built_for_is_accepted(version, fits):
    problem = torch_problem(version)
    assert problem is None if fits else f"this is torch {version}" in problem


def test_importing_under_another_python_says_what_to_do():
    done = run_python("import sys; sys.version_info = (3, 12, 1, 'final', 0); import tracer", fails=True)
    assert "ImportError: shapetracer needs CPython 3.11; this is 3.12.1" in done.stderr


def test_a_missing_extension_says_what_to_do():
    done = run_python("import sys; sys.modules['tracer._C'] = None; import tracer", fails=True)
    assert "the extension tracer._C cannot be loaded" in done.stderr and "make" in done.stderr
