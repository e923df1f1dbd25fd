"""The docstrings of the public API: each has an example, and the examples run."""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest
import torch

import tracer
from tests.support import collect_garbage
from tracer import exc, logs
from tracer.backends import registry

FUNCTIONS = [name for name in tracer.__all__ if inspect.isroutine(getattr(tracer, name))]
CLASSES = [name for name in tracer.__all__ if inspect.isclass(getattr(tracer, name))]
RAISE_NOTHING = frozenset(
    ("run", "is_compiling", "list_backends", "reset", "region_of", "record", "maybe_mark_dynamic", "graph_break")
)
ELSEWHERE = ("unpin", "unseal", "load")  # the example of the function that they undo


def examples_of(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", inspect.getdoc(getattr(tracer, name)) or "", re.DOTALL)


def test_every_public_function_has_an_example():
    assert [name for name in FUNCTIONS if not examples_of(name)] == [name for name in FUNCTIONS if name in ELSEWHERE]


def test_every_public_class_and_error_has_a_docstring():
    found = [getattr(tracer, name) for name in CLASSES] + [getattr(exc, name) for name in exc.__all__]
    assert len(found) > 15 and not [each for each in found if not each.__dict__.get("__doc__")]


def test_every_public_function_that_takes_something_says_what_it_raises():
    docs = {name: inspect.getdoc(getattr(tracer, name)) or "" for name in FUNCTIONS}
    assert {name for name, doc in docs.items() if not re.search(r"[Rr]aise|Error", doc)} <= RAISE_NOTHING


@pytest.mark.parametrize("name", [name for name in (*FUNCTIONS, *CLASSES) if examples_of(name)])
def test_the_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    before = logs.enabled()
    try:
        for example in examples_of(name):
            path = tmp_path / f"{name}.py"
            path.write_text(textwrap.dedent(example))
            exec(compile(path.read_text(), path, "exec"), {"torch": torch, "tracer": tracer, "__name__": "example"})
    finally:
        logs.set_logs(all=False, **dict.fromkeys(before, True))
        collect_garbage()
