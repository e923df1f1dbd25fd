"""How far the translator goes into functions that a frame calls, and where it says that it is."""

from __future__ import annotations

import torch

import tracer
from tests.support import breaks, captured
from tracer import logs

X = torch.ones(3)


def nested(x, depth):
    return nested(x + 1, depth - 1) if depth else x


def test_calls_within_calls_are_one_graph():
    assert captured(lambda x: nested(x, 20), X).operations == ["add"] * 20


def test_calls_that_are_nested_too_deep_break_the_graph():
    assert "inline-depth" in breaks(lambda x: nested(x, 130), X).break_ids


def test_a_break_names_the_lines_of_all_frames_from_the_outermost_on():
    def inner(x):
        tracer.graph_break()
        return x + 1

    def outer(x):
        return inner(x * 2)

    (reason,) = breaks(outer, X).breaks[:1]
    assert [place.function for place in reason.user_stack][-2:] == ["outer", "inner"]


def test_steps_are_logged_with_the_stack_and_indented_by_depth():
    def callee(y):
        return y + 1

    with logs.capture("trace") as records:
        captured(lambda x: callee(x), X)
    texts = [record.text for record in records]
    assert any(text.startswith("TRACE LOAD_FAST x") for text in texts)
    assert any(text.startswith("  TRACE BINARY_OP") and "[TensorVariable(l_x_), ConstantVariable(1)]" in text for text in texts)
