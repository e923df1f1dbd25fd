"""set_stance: what compiled functions do when no entry serves a call."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

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


def on_another_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_a_stance_for_all_threads_holds_on_those_that_run_and_those_that_begin():
    made = tracer.optimize("eager")(lambda x: x * 2 if not tracer.is_compiling() else x * 3)
    made(torch.ones(2))
    with ThreadPoolExecutor(1) as runs_already:
        runs_already.submit(made, torch.ones(2)).result()
        with tracer.set_stance("force_eager", all_threads=True):
            assert runs_already.submit(made, torch.ones(2)).result().tolist() == [2, 2]
            assert on_another_thread(lambda: made(torch.ones(2))).tolist() == [2, 2] and made(torch.ones(2)).tolist() == [2, 2]
        assert runs_already.submit(made, torch.ones(2)).result().tolist() == [3, 3]
    with tracer.set_stance("fail_on_recompile", all_threads=True), pytest.raises(tracer.exc.RecompileError):
        on_another_thread(lambda: made(torch.ones(3)))


def test_the_stance_that_a_thread_takes_for_itself_goes_first():
    with tracer.set_stance("force_eager", all_threads=True):
        with tracer.set_stance("eager_on_recompile"):
            assert stances.current() == "eager_on_recompile" and on_another_thread(stances.current) == "force_eager"
            with tracer.set_stance("fail_on_recompile", all_threads=True):  # of this thread, too
                assert stances.current() == on_another_thread(stances.current) == "fail_on_recompile"
            assert stances.current() == "eager_on_recompile"
            with tracer.set_stance("default"):
                assert stances.current() == "force_eager"
        assert stances.current() == "force_eager"
    assert stances.current() == "default"


def test_a_function_runs_under_a_stance_for_all_threads():
    @tracer.set_stance("fail_on_recompile", all_threads=True)
    def inside():
        return stances.current(), on_another_thread(stances.current)

    assert stances.current() == "default" and inside() == ("fail_on_recompile",) * 2 and stances.current() == "default"


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
