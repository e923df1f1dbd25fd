"""What servers run into with shapes that are guessed from calls, and what a declared domain makes of it."""

from __future__ import annotations

import importlib
import random
import re
import warnings

import pytest
import torch

import tracer
from tests.support.regions import entries
from tracer import config


def test_a_first_request_with_equal_sizes_fixes_nothing():
    def f(x, y):
        return x.sum(1) + y.sum(1)

    made = tracer.optimize("eager", shapes="x: B, S; y: B, T; B in 2..64; S in 2..64; T in 2..64")(f)
    made(torch.ones(8, 8), torch.ones(8, 8))  # batch, length and width happen to be equal
    with tracer.set_stance("fail_on_recompile"):
        for b, s, t in ((8, 9, 8), (3, 8, 8), (8, 8, 2), (5, 6, 7)):
            x, y = torch.randn(b, s), torch.randn(b, t)
            assert torch.equal(made(x, y), f(x, y))


def test_a_batch_of_one_that_comes_late_finds_an_entry():
    def f(x):
        return torch.nn.functional.layer_norm(x * 2, (6,)).sum(1)

    made = tracer.optimize("eager", shapes="x: B, _; B in 1..64")(f)
    assert tracer.precompile(made, example=torch.randn(8, 6))
    made.seal()
    for batch in (8, 64, 3, 1):
        x = torch.randn(batch, 6)
        assert torch.equal(made(x), f(x))


def test_many_shapes_beyond_the_recompile_limit_neither_compile_nor_warn():
    def f(x):
        return x.sum(1) * sum(2**k for k in range(6) if x.shape[0] > 2**k)

    with config.patch(recompile_limit=2), warnings.catch_warnings():
        warnings.simplefilter("error")
        made = tracer.optimize("eager", shapes="x: B, _; B in 1..64")(f)
        found = tracer.precompile(made, example=torch.randn(8, 6))
        assert found and len(found.covering) > 2
        draw = random.Random(0)
        for _ in range(200):
            x = torch.randn(draw.randint(1, 64), 6)
            assert torch.equal(made(x), f(x))
    assert len(entries(made)) == len(found.covering) == made.stats()["compiles"]


def deep_in_a_library(x):
    return [row for row in range(x.shape[0])]


def test_one_hidden_line_that_fixes_a_size_is_named():
    def f(x):
        rows = deep_in_a_library(x)
        return x.sum() + len(rows)

    found = tracer.precompile(tracer.optimize("eager")(f), "x: B, S; B in 2..64; S in 2..64", torch.ones(3, 3), max_entries=3)
    assert found.status == "budget" and "return [row for row in range(x.shape[0])]" in str(found)
    assert all(text.startswith("B == ") for text in found.regions())


def test_an_entry_for_one_model_does_not_count_for_another():
    models = [torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)]

    def f(x, which):
        return models[which](x)

    made = tracer.optimize("eager", shapes="x: B, _; B in 2..9")(f)
    assert tracer.precompile(made, example=(torch.ones(2, 4), 0))
    assert tracer.coverage(made, example=(torch.ones(2, 4), 1)).status == "uncovered"


def test_an_entry_of_another_mode_does_not_count():
    made = tracer.optimize("eager", shapes="x: B; B in 2..9")(lambda x: x * 2)
    with torch.no_grad():
        assert tracer.precompile(made, example=torch.ones(2))
    found = tracer.coverage(made, example=torch.ones(2))
    assert found.status == "uncovered" and "grad_mode" in found.entries[0].refused


# -- under marks, without a declared domain ------------------------------------------------------------------------------


def marked(*shape):
    x = torch.randn(*shape)
    tracer.mark_dynamic(x, 0)
    return x


def test_three_lines_that_fix_a_size_together_are_named_and_no_others():
    def f(x):
        y = x.sum()
        if x.shape[0] != 100:
            y = y + 1
        if x.shape[0] > 5:
            y = y + 2
        if x.shape[0] % 4 == 0:
            y = y * 3
        if x.shape[0] < 50:
            y = y - 4
        if x.shape[0] < 12:
            y = y - 5
        return y

    with pytest.raises(tracer.exc.ConstraintViolationError) as raised:
        tracer.optimize("eager")(f)(marked(8))
    text, first = str(raised.value), f.__code__.co_firstlineno
    assert "== 8, by these 3 lines together" in text
    assert re.findall(r"test_pitfalls\.py:(\d+) in f", text) == [str(first + line) for line in (4, 6, 10)]


LIBRARY = """
import torch

def normalise(x):
    return _centre(x) / 2

def _centre(x):
    return _Blocks().apply(x)

class _Blocks:
    def apply(self, x):
        return x - sum(part.mean() for part in _parts(x))

def _parts(x):
    return [x[at] for at in range(int(x.shape[0]))]  # hidden
"""


def test_a_line_deep_in_a_library_that_fixes_a_marked_size_is_named(tmp_path, monkeypatch):
    (tmp_path / "norms_of_others.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    library = importlib.import_module("norms_of_others")

    def f(x):
        return library.normalise(x * 2) + 1

    with pytest.raises(tracer.exc.ConstraintViolationError) as raised:
        tracer.optimize("eager")(f)(marked(6, 3))
    assert f"norms_of_others.py:{LIBRARY[: LIBRARY.index('# hidden')].count(chr(10)) + 1} in _parts" in str(raised.value)
    found = tracer.precompile(tracer.optimize("eager")(f), "x: B, S; B in 2..64; S in 2..9", torch.ones(3, 3), max_entries=2)
    assert found.status == "budget" and "# hidden" in str(found)


def test_sizes_that_are_equal_by_chance_cost_few_more_traces_and_leave_one_entry():
    def f(x, y):
        return x.sum(1).sum() + y.sum(1).sum()

    made = tracer.optimize("eager", dynamic=True)(f)
    draw = random.Random(0)
    made(torch.ones(8, 8), torch.ones(8, 8))
    for _ in range(50):
        x, y = torch.randn(draw.randint(2, 9), draw.randint(2, 9)), torch.randn(draw.randint(2, 9), draw.randint(2, 9))
        assert torch.equal(made(x, y), f(x, y))
    assert made.stats()["compiles"] <= 4 and len(entries(made)) == 1  # each time one equality less


def test_a_batch_of_one_that_comes_late_is_one_trace_and_no_more():
    def f(x):
        return torch.nn.functional.layer_norm(x * 2, (6,)).sum(1)

    made = tracer.optimize("eager")(f)
    for batch in (8, 64, 3, 1, 5, 1, 64, 2, 1):
        x = torch.randn(batch, 6)
        assert torch.equal(made(x), f(x))
    assert made.stats()["compiles"] == 3  # 8; 2 and more, in place of 8; 1
    with tracer.config.patch(specialize_zero_one="by_need"):
        made = tracer.optimize("eager")(lambda x: (x * 2).relu())
        for batch in (8, 64, 3, 1, 5, 1, 64, 2, 1):
            made(torch.randn(batch, 6))
    assert made.stats()["compiles"] == 2 and len(entries(made)) == 1
