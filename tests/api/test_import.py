"""Importing tracer: light, and clear about what it cannot work with."""

from __future__ import annotations

import pytest

import tracer
from tests.support.processes import run_python
from tools import private_names
from tracer import platform_check
from tracer.platform_check import build_problem, python_problem, torch_problem


def test_import_loads_neither_solver_nor_fake_tensors_nor_dynamo():
    heavy = ["sympy", "z3", "torch._dynamo", "torch._functorch.aot_autograd", "tracer.runtime.region_state"]
    done = run_python(f"import sys, tracer; print([m for m in {heavy} if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_the_first_compile_which_imports_the_most_keeps_no_frame_of_its_caller():
    done = run_python("""
        import gc, weakref, torch, tracer

        def caller():
            model = torch.nn.Linear(2, 2)
            tracer.compile(model, backend="eager")(torch.ones(2))
            return weakref.ref(model)

        model = caller()
        gc.collect()
        print(model())
    """)
    assert done.stdout.strip() == "None", done.stderr


def test_every_public_name_exists():
    assert all(hasattr(tracer, name) for name in tracer.__all__)


@pytest.mark.parametrize(
    ("implementation", "version", "words"),
    [("cpython", (3, 99, 1), "needs CPython 3.11, 3.12, 3.13 or 3.14; this is 3.99.1"), ("pypy", (3, 11, 0), "this is pypy")],
)
def test_another_python_is_refused(implementation, version, words):
    assert words in python_problem(implementation, version)
    assert all(python_problem("cpython", version) is None for version in [(3, 11, 9), (3, 12, 1), (3, 13, 0), (3, 14, 0)])


def test_a_python_that_is_partly_tested_is_refused_unless_asked_for(monkeypatch):
    monkeypatch.setattr(platform_check, "TRIED_PYTHON", ((3, 98),))
    assert "set TRACER_TRY_PYTHON=1" in python_problem("cpython", (3, 98, 0))
    assert python_problem("cpython", (3, 98, 0), tries=True) is None
    assert "needs CPython 3.11, 3.12, 3.13 or 3.14" in python_problem("cpython", (3, 99, 1), tries=True)


@pytest.mark.parametrize(("version", "fits"), [("2.13.0+cpu", True), ("2.14.1", True), ("2.12.0", False), ("2.15.0a0", True)])
def test_an_older_torch_is_refused(version, fits):
    problem = torch_problem(version)
    assert problem is None if fits else f"this is torch {version}" in problem


def test_an_extension_built_for_another_torch_is_refused_and_says_how_to_rebuild():
    assert build_problem("2.13.1+cpu", "2.13.0") is None
    words = build_problem("2.14.1+cu130", "2.13.0")
    assert "built for torch 2.13.0; this is torch 2.14.1+cu130" in words and "run `make`" in words


def test_importing_with_an_extension_for_another_torch_says_so():
    done = run_python("import torch; torch.__version__ = '2.99.0'; import tracer", fails=True)
    assert "ImportError: the extension tracer._C was built for torch" in done.stderr and "run `make`" in done.stderr


# The versions are looked at when tracer.platform_check runs, which the package imports first.
PREPARED = """
import importlib.util, sys, torch
path = importlib.util.find_spec("tracer").submodule_search_locations[0]
from importlib.machinery import PathFinder
spec = PathFinder.find_spec("tracer._C", [path])
extension = importlib.util.module_from_spec(spec)
sys.modules["tracer._C"] = extension
spec.loader.exec_module(extension)
torch.__version__ = extension.built_for_torch = "2.99.0"
"""


def test_a_newer_torch_that_has_what_is_used_of_it_is_accepted_with_a_warning():
    done = run_python(f"{PREPARED}import tracer; print(tracer.compile(lambda x: x + 1)(torch.ones(1)).item())")
    assert done.stdout.strip() == "2.0" and "torch 2.99.0 is newer than those that shapetracer was tested with" in done.stderr


def test_a_newer_torch_that_lacks_something_is_refused_by_its_name():
    done = run_python(f"{PREPARED}del torch._C._set_neg; import tracer", fails=True)
    assert "ImportError: torch 2.99.0 is newer" in done.stderr and "lacks what it uses: torch._C._set_neg." in done.stderr


def test_the_list_of_private_names_is_what_the_sources_use():
    assert private_names.text() == private_names.LIST.read_text()


def test_importing_under_another_python_says_what_to_do():
    done = run_python("import sys; sys.version_info = (3, 99, 1, 'final', 0); import tracer", fails=True)
    assert "ImportError: shapetracer needs CPython 3.11, 3.12, 3.13 or 3.14; this is 3.99.1" in done.stderr


def test_a_missing_extension_says_what_to_do():
    done = run_python("import sys; sys.modules['tracer._C'] = None; import tracer", fails=True)
    assert "the extension tracer._C cannot be loaded" in done.stderr and "make" in done.stderr
