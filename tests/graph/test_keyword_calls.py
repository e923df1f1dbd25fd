"""Calls in a graph whose keywords are words of Python, or no names at all."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured
from tracer import logs, user_marks


def test_a_keyword_that_is_a_word_of_python_is_captured():
    checked = captured(lambda x: (x + 1).random_(**{"from": -10, "to": 10}) * 2, torch.zeros(5))
    assert checked.operations == ["add", "random__with_from", "mul"]


def test_the_code_of_such_a_graph_is_python():
    with logs.capture("graph_code") as records:
        tracer.optimize()(lambda x: x.clone().random_(**{"from": -10}, to=10))(torch.zeros(5))
    assert "random__with_from(clone, -10, to = 10)" in records[0].text
    compile(records[0].text.partition("=====\n")[2], "graph", "exec")


@pytest.mark.parametrize("keyword", ["class", "None", "__debug__", "not a name", "größe"])
def test_an_allowed_function_may_have_any_keyword(keyword):
    @tracer.allow_in_graph
    def takes(x, other=0, **options):
        return x * options[keyword] + other

    try:
        captured(lambda x: takes(x, other=3, **{keyword: x + 2}), torch.ones(3))
    finally:
        user_marks.graph_policy.discard(takes)


def test_backends_that_compile_run_such_a_graph():
    @tracer.allow_in_graph
    def takes(x, **options):
        return x * options["class"]

    compiled = tracer.optimize("aot_eager", fullgraph=True)(lambda x: takes(x, **{"class": x + 2}))
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))


def test_such_a_graph_can_be_saved_and_exported(tmp_path):
    def program(x):
        return x.clone().random_(**{"from": 3, "to": 4}) + x

    x = torch.ones(4)
    compiled = tracer.optimize()(program)
    compiled(x)
    tracer.save(compiled, tmp_path / "entries")
    again = tracer.optimize()(program)
    tracer.load(again, tmp_path / "entries")
    again.seal()
    assert torch.equal(again(x), program(x))
    module, _ = tracer.export(program)(x)
    assert torch.equal(module(x), program(x))
