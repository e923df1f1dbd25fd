"""Calls that miss: what they cost, what an error keeps of them, and when guards are explained."""

from __future__ import annotations

import copy
import functools
import pickle
import weakref

import pytest
import torch

import tracer
from tests.support.checking import collect_garbage
from tracer.guards import manager
from tracer.metrics import counters


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x, mask=None, *, scale=1):
        y = self.linear(x) * scale
        return y if mask is None else y * mask


@pytest.fixture
def texts(monkeypatch):
    """The names of the functions that guards were compiled to."""
    seen = []
    define = manager.define
    monkeypatch.setattr(
        manager, "define", lambda printed, name, filename: seen.append(filename) or define(printed, name, filename)
    )
    return seen


def sealed(model=None, shapes="x: B, _; B in 2..64", **settings):
    compiled = tracer.compile((model or Scorer()).eval(), shapes=shapes, **settings)
    with torch.no_grad():
        compiled(torch.ones(3, 4))
    compiled.seal()
    return compiled


def sizes_one_by_one(*sizes):
    compiled = tracer.compile(lambda x: x + 1, dynamic=False, recompile_limit=20)
    with torch.no_grad():
        for size in sizes:
            compiled(torch.ones(size))
    compiled.seal()
    return compiled


def refused(compiled, *args, **kwargs):
    with torch.no_grad(), pytest.raises(tracer.exc.SealedError) as told:
        compiled(*args, **kwargs)
    return told.value.with_traceback(None)


BAD = {
    "dtype": ((torch.ones(3, 4, dtype=torch.float64),), "dtype mismatch. expected torch.float32, actual torch.float64"),
    "rank": ((torch.ones(3, 4, 1),), "rank mismatch. expected 2, actual 3"),
    "size out of the domain": ((torch.ones(65, 4),), "is 65, but it was declared as 2 <= B <= 64"),
    "static size": ((torch.ones(3, 5),), "size mismatch at index 1. expected 4, actual 5"),
    "no tensor": ((None,), "type of L['x'] was Tensor, is NoneType"),
    "strides": ((torch.ones(4, 3).t(),), "stride mismatch"),
    "another argument": ((torch.ones(3, 4), torch.ones(2)), "explain() says which guards fail"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_refusal_says_in_a_line_what_is_wrong_and_compiles_no_text(what, texts):
    compiled = sealed()
    args, words = BAD[what]
    error = refused(compiled, *args)
    assert words in str(error).partition("\n")[0] and not texts, texts
    assert "no entry serves this call" in error.explain()


def test_arguments_behind_a_wrapper_are_named_as_the_function_names_them(texts):
    class Wrapped(Scorer):
        @functools.wraps(Scorer.forward)
        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs)

    compiled = sealed(Wrapped())
    seen = []
    stop = tracer.add_callback(seen.append, "miss")
    text = str(refused(compiled, x=torch.ones(3, 4, dtype=torch.float64)))
    stop()
    assert "tensor 'L['x']' dtype mismatch. expected torch.float32, actual torch.float64" in text and not texts
    assert [str(each) for each in seen[0].inputs] == ["L['x']: float64[3, 4]"]


def test_what_entries_expect_is_told_of_all_of_them():
    compiled = sizes_one_by_one(2, 3, 4)
    assert "size mismatch at index 0. expected 4 or 3 or 2, actual 9" in str(refused(compiled, torch.ones(9)))


def test_an_error_keeps_no_tensor_and_explains_the_call_all_the_same():
    compiled = sealed()
    x, mask = torch.ones(3, 4), [torch.ones(3, 2)]
    gone = [weakref.ref(x), weakref.ref(mask[0])]
    error = refused(compiled, x, mask)
    del x, mask
    collect_garbage()
    assert [reference() for reference in gone] == [None, None]
    assert "L['mask']" in error.explain()


def test_an_explanation_is_made_when_it_is_asked_for_and_once_for_each_cause():
    compiled = sealed()
    made = counters["explanations"]["made"]
    errors = [refused(compiled, torch.ones(3, 4, dtype=dtype)) for dtype in (torch.float64, torch.float64, torch.int64)]
    assert [str(error) for error in errors] and counters["explanations"]["made"] == made
    texts = [error.explain() for error in (*errors, *errors)]
    assert counters["explanations"]["made"] == made + 2
    assert texts[0] == texts[1] == texts[3] and "torch.float64" in texts[0] and "torch.int64" in texts[2]


def test_a_model_that_has_changed_is_another_cause():
    model = Scorer()
    compiled = sealed(model)
    wrong = torch.ones(3, 4, dtype=torch.float64)
    made = counters["explanations"]["made"]
    assert "L['x']' dtype mismatch" in refused(compiled, wrong).explain() == refused(compiled, wrong).explain()
    assert counters["explanations"]["made"] == made + 1
    model.linear.weight.requires_grad_(False)
    assert refused(compiled, wrong).explain() and counters["explanations"]["made"] == made + 2


def test_an_explanation_holds_for_the_modes_of_the_call_and_not_of_who_asks():
    compiled = sealed()
    with pytest.raises(tracer.exc.SealedError) as told:
        compiled(torch.ones(3, 4))
    with torch.no_grad():
        assert "global state changed: grad_mode was False, is True" in str(told.value)
        assert "global state changed: grad_mode was False, is True" in told.value.explain()
    error = refused(compiled, torch.ones(3, 5))
    assert "grad_mode" not in error.explain() and "size mismatch" in error.explain()


def test_an_error_outlives_what_was_compiled():
    compiled = sealed()
    error = refused(compiled, torch.ones(3, 5))
    del compiled
    collect_garbage()
    assert "is gone" in str(error) and "is gone" in error.explain()


def test_errors_are_copied_and_pickled_as_their_text():
    error = refused(sealed(), torch.ones(3, 5))
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(again) is tracer.exc.SealedError and str(again) == str(error) and again.explain() == str(error)
    assert "size mismatch" in repr(error) and "size mismatch" in error.message and "precompile" in error.hint
    with pytest.raises(AttributeError, match="masage"):
        error.masage


def test_a_stance_that_forbids_recompiles_asks_no_guards_until_it_is_asked(texts):
    compiled = tracer.compile(lambda x, n: x * n)
    compiled(torch.ones(3), 2)
    with tracer.set_stance("fail_on_recompile"), pytest.raises(tracer.exc.RecompileError) as told:
        compiled(torch.ones(3), 7)
    assert not texts and "L['n'] == 2  (seen 7)" in told.value.explain()


def test_of_many_entries_the_last_used_are_explained():
    compiled = sizes_one_by_one(*range(2, 14))
    text = refused(compiled, torch.ones(90)).explain()
    assert text.count("size mismatch") == 8 and "expected 13" in text and "and 4 entries more" in text


def test_what_was_not_kept_is_said_and_not_mistaken_for_a_cause():
    class Options:
        __slots__ = ("scale",)

        def __init__(self, scale):
            self.scale = scale

    compiled = tracer.compile(lambda x, options: x * options.scale)
    with torch.no_grad():
        compiled(torch.ones(3), Options(2))
    compiled.seal()
    error = refused(compiled, torch.ones(3), Options(3))
    assert "the value of L['options'] was not kept" in error.explain()


def test_a_call_out_of_the_domain_waits_for_no_trace_and_asks_no_entry(monkeypatch):
    from tracer.runtime import region_state

    compiled = tracer.compile(lambda x: x + 1, shapes="x: B; B in 2..8")
    compiled(torch.ones(3))
    monkeypatch.setattr(region_state, "find_entry", lambda *args: pytest.fail("entries were asked"))
    with pytest.raises(tracer.exc.ConstraintViolationError, match="is 9, but it was declared as 2 <= B <= 8"):
        compiled(torch.ones(9))
