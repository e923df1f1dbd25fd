"""set_stance: what compiled functions do on one thread when no entry serves a call."""

from __future__ import annotations

import threading

import pytest
import torch

import tracer
from tests.support.regions import entries
from tracer.runtime import stances


def test_force_eager_runs_the_original_whatever_there_is():
    made = tracer.optimize("eager")(lambda x: x * 2 if not tracer.is_compiling() else x * 3)
    assert made(torch.ones(2)).tolist() == [3, 3]
    with tracer.set_stance("force_eager"):
        assert made(torch.ones(2)).tolist() == [2, 2]
    assert made(torch.ones(2)).tolist() == [3, 3]


def test_eager_on_recompile_uses_entries_and_makes_none():
    made = tracer.optimize("eager")(lambda x: x * 2 if not tracer.is_compiling() else x * 3)
    made(torch.ones(2))
    with tracer.set_stance("eager_on_recompile"):
        assert made(torch.ones(2)).tolist() == [3, 3] and made(torch.ones(1)).tolist() == [2]
    assert len(entries(made)) == 1


def test_fail_on_recompile_raises_at_a_miss_with_the_guards_that_fail():
    made = tracer.optimize("eager")(lambda x: x * 2)
    made(torch.ones(2))
    with tracer.set_stance("fail_on_recompile"):
        made(torch.ones(2))
        with pytest.raises(tracer.exc.RecompileError, match="size mismatch"):
            made(torch.ones(3))
    made(torch.ones(3))


def test_eager_then_compile_learns_from_the_first_call_what_varies():
    def f(x, parts, n):
        return x.sum() * n + parts[0].sum()

    made = tracer.optimize("eager")(f)
    with tracer.set_stance("eager_then_compile"):
        made(torch.ones(4), [torch.ones(2)], 3)
        assert len(entries(made)) == 0
        made(torch.ones(5), [torch.ones(3)], 4)
        made(torch.ones(6), [torch.ones(8)], 7)
    assert len(entries(made)) == 1


def test_a_stance_is_of_its_thread():
    made = tracer.optimize("eager")(lambda x: x * 2)
    with tracer.set_stance("fail_on_recompile"):
        thread = threading.Thread(target=made, args=(torch.ones(3),))
        thread.start()
        thread.join()
    assert len(entries(made)) == 1


def test_stances_nest_stay_and_decorate():
    tracer.set_stance("force_eager")
    try:
        with tracer.set_stance("eager_on_recompile"):
            with tracer.set_stance("default"):
                assert stances.current() == "default"
            assert stances.current() == "eager_on_recompile"
        assert stances.current() == "force_eager"
    finally:
        tracer.set_stance("default")

    @tracer.set_stance("fail_on_recompile")
    def inside():
        return stances.current()

    assert stances.current() == "default" and inside() == "fail_on_recompile" and stances.current() == "default"
    with pytest.raises(tracer.exc.UserError, match="no stance 'eager'"):
        tracer.set_stance("eager")
