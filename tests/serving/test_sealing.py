"""seal: what a miss does instead of a trace; the worker that traces beside the requests."""

from __future__ import annotations

import re
import threading
import warnings

import pytest
import torch

import tracer
from tests.serving.test_coverage import branching
from tests.support.processes import run_python
from tests.support.regions import entries
from tracer import config
from tracer.serving import background, sealing

DOMAIN = "x: B, S; B in 1..256; S in 1..4096"


def compiled_with_one_entry():
    """With one entry, for 2 <= B <= 8 and S % 128 != 0."""
    made = tracer.optimize("eager", shapes=DOMAIN)(branching)
    made(torch.randn(4, 5))
    tracer.coverage(made, example=torch.randn(4, 5))
    return made


def test_a_miss_of_a_sealed_function_is_an_error_with_the_nearest_covered_shape():
    made = compiled_with_one_entry()
    made.seal()
    assert torch.equal(made(x := torch.randn(8, 3)), branching(x))
    with pytest.raises(tracer.exc.SealedError) as told:
        made(torch.randn(9, 100))
    assert "is sealed, and no entry serves this call, at B = 9, S = 100: " in str(told.value) and "precompile" in str(told.value)
    text = told.value.explain()
    assert "at B = 9, S = 100 (the nearest covered shape is B = 8, S = 100)" in text
    assert "2 <= L['x'].size()[0] <= 8" in text and len(entries(made)) == 1


def test_a_shape_outside_of_the_domain_and_another_difference_are_told_apart():
    made = compiled_with_one_entry()
    made.seal("error")
    with pytest.raises(tracer.exc.SealedError, match="is 999, but it was declared as 1 <= B <= 256"):
        made(torch.randn(999, 3))
    with pytest.raises(tracer.exc.SealedError, match="dtype mismatch. expected torch.float32, actual torch.float64") as told:
        made(torch.randn(4, 3, dtype=torch.float64))
    assert re.search("which is a covered shape: something else differs.*\n.*dtype mismatch", told.value.explain())
    assert "the nearest covered call has torch.float32 in place of torch.float64" in told.value.explain()


def test_what_has_no_declared_shapes_is_sealed_too():
    made = tracer.optimize("eager")(lambda x: x * 2)
    made(torch.ones(3))
    made.seal()
    with pytest.raises(tracer.exc.SealedError, match="size mismatch"):
        made(torch.ones(4))
    made.unseal()
    assert torch.equal(made(torch.ones(4)), torch.full((4,), 2.0))


def test_a_sealed_miss_can_run_eagerly_and_warns_once():
    made = compiled_with_one_entry()
    made.seal("eager")
    with pytest.warns(UserWarning, match="is sealed, and no entry serves this call, at B = 9, S = 100"):
        assert torch.equal(made(x := torch.randn(9, 100)), branching(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(made(x := torch.randn(19, 100)), branching(x))
    assert len(entries(made)) == 1


def test_callees_of_a_sealed_miss_are_not_asked_about_and_are_traced_again_once_it_is_unsealed():
    def inner(x):
        return x * 2

    def outer(x):
        tracer.graph_break()
        return sum(inner(x) for _ in range(5))

    made = tracer.optimize("eager")(outer)
    made.seal("background")
    for policy in ("background", "eager"):
        made.seal(policy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert made(torch.ones(2)).tolist() == [10, 10]
        assert sealing.wait(60)
        made.unseal()
        tracer.region_of(made).reset()
    assert tracer.stats(made)["misses"] == 2
    assert made(torch.ones(2)).tolist() == [10, 10] and len(entries(made)) > 1


@tracer.disable
def forget_all():
    tracer.reset()


@pytest.mark.filterwarnings("ignore:.*is sealed")
def test_what_is_behind_a_break_is_no_call_of_the_function_whose_shapes_are_declared():
    def f(x, y):
        z = x + y
        forget_all()  # the resume function is known by nobody when it is called
        return z * 2

    made = tracer.optimize("eager", shapes="x: B; y: B; B in 2..9")(f)
    for policy in (None, "eager", "background"):
        if policy is not None:
            made.seal(policy)
        for size in (3, 4):
            assert torch.equal(made(torch.ones(size), torch.ones(size)), torch.full((size,), 4.0))
        assert sealing.wait(60)
    assert made.stats()["undeclared"] == 0


def test_modules_and_objects_are_sealed_by_method_and_by_function():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1

    class Adder:
        def __call__(self, x):
            return x + 1

    class Own(Model):
        def seal(self):
            return "own"

    for made in (tracer.compile(Model()), tracer.optimize()(Adder())):
        made(torch.ones(2))
        made.seal()
        with pytest.raises(tracer.exc.SealedError):
            made(torch.ones(3))
    assert tracer.compile(Own()).seal() == "own"
    with pytest.raises(AttributeError, match="sael"):
        tracer.compile(Model()).sael()
    own = tracer.compile(Own())
    tracer.seal(own)
    with pytest.raises(tracer.exc.SealedError, match="no entry"):
        own(torch.ones(3))


@pytest.mark.parametrize(("target", "policy"), [(branching, "error"), (None, "raise")])
def test_what_cannot_be_sealed_is_refused(target, policy):
    with pytest.raises(tracer.exc.UserError):
        tracer.seal(target or tracer.optimize()(branching), policy)


# -- in the background -------------------------------------------------------------------------------------------


def test_a_miss_is_traced_beside_the_request_which_runs_eagerly():
    made = compiled_with_one_entry()
    made.seal("background")
    assert torch.equal(made(x := torch.randn(9, 100)), branching(x))
    assert sealing.wait(60) and len(entries(made)) == 2
    assert made.lookup(torch.randn(200, 77)) is not None


def test_many_threads_with_novel_shapes_compile_each_region_once_and_get_what_eager_gives():
    made = compiled_with_one_entry()
    made.seal("background")
    wrong = []

    def client(seed):
        chance = torch.Generator().manual_seed(seed)
        for _ in range(60):
            b, s = (int(torch.randint(1, high, (1,), generator=chance)) for high in (257, 300))
            x = torch.randn(b, s)
            if not torch.equal(made(x), branching(x)):
                wrong.append((b, s))

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sealing.wait(60) and not wrong
    found = tracer.coverage(made, example=torch.randn(4, 5))
    assert len(found.covering) == len(entries(made)) <= 6
    assert len(set(found.regions())) == len(entries(made))  # none was compiled twice
    assert tracer.region_of(made).stats["compile"] == len(entries(made))


def test_the_worker_traces_under_the_torch_state_of_the_request():
    made = tracer.optimize("eager", shapes="x: B; B in 2..9")(lambda x: x * 2)
    made.seal("background")
    for scope in (torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad):
        with scope():
            made(torch.ones(3))
            assert sealing.wait(60)
            assert made.lookup(torch.ones(5)) is not None
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_settings_of_the_request_hold_for_its_trace():
    made = tracer.optimize("eager")(lambda x: x * 2)
    made.seal("background")
    with config.patch(assume_static_by_default=False):
        made(torch.ones(3))
    assert sealing.wait(60) and made.lookup(torch.ones(7)) is not None


def test_random_numbers_that_are_drawn_meanwhile_are_not_drawn_again():
    drawn = []

    def slow_backend(gm, example_inputs):
        drawn.append(torch.rand(1).item())  # as a request would on its thread
        return gm.forward

    made = tracer.optimize(slow_backend, shapes="x: B; B in 2..9")(lambda x: x * 2)
    made.seal("background")
    torch.manual_seed(0)
    made(torch.ones(3))
    assert sealing.wait(60)
    torch.manual_seed(0)
    assert drawn == [torch.rand(1).item()]
    made(torch.ones(3))
    torch.manual_seed(0)
    first = torch.rand(1).item()
    assert torch.rand(1).item() != first


def test_what_lies_outside_of_the_domain_is_not_queued():
    made = compiled_with_one_entry()
    made.seal("background")
    assert torch.equal(made(x := torch.randn(300, 5)), branching(x))
    assert sealing.wait(60) and len(entries(made)) == 1 and tracer.region_of(made).stats["undeclared"] == 1


def test_a_request_does_not_suffer_from_a_backend_that_fails():
    def failing(gm, example_inputs):
        raise RuntimeError("no")

    made = tracer.optimize(failing)(lambda x: x * 2)
    made.seal("background")
    for _ in range(3):
        assert torch.equal(made(torch.ones(3)), torch.full((3,), 2.0))
        assert sealing.wait(60)
    assert len(entries(made)) == 0


def test_calls_alike_that_give_no_entry_are_tried_again_after_ever_more_misses():
    tried = []

    def failing(gm, example_inputs):
        tried.append(made.stats()["sealed_misses"])
        raise RuntimeError("no")

    made = tracer.optimize(failing, dynamic=False)(lambda x: x * 2)
    made.seal("background")
    for _ in range(16):
        made(torch.ones(3))
        assert sealing.wait(60)
    assert tried == [1, 3, 7, 15]
    made(torch.ones(4))
    assert sealing.wait(60) and len(tried) == 5  # another call is tried at once


def test_what_waits_can_be_forgotten_and_is_taken_when_it_is_missed_again():
    begun, going_on = threading.Event(), threading.Event()

    def slow_backend(gm, example_inputs):
        begun.set()
        assert going_on.wait(60)
        return gm.forward

    made = tracer.optimize(slow_backend, dynamic=False)(lambda x: x * 2)
    made.seal("background")
    made(torch.ones(3))
    assert begun.wait(60)
    made(torch.ones(4))
    background.WORKER.forget()
    going_on.set()
    assert sealing.wait(60) and len(entries(made)) == 1
    made(torch.ones(4))
    assert sealing.wait(60) and len(entries(made)) == 2


def test_a_miss_like_one_that_waits_asks_nothing_that_takes_long(monkeypatch):
    made = tracer.optimize("eager", shapes="x: B; B in 2..64")(lambda x: x * 2)
    made.seal(on_miss="background")
    asked, begun, go = [], threading.Event(), threading.Event()
    state = tracer.region_of(made)
    real, traced = state.declared_shapes, state.trace_in_background
    monkeypatch.setattr(state, "declared_shapes", lambda *args: asked.append(1) or real(*args))
    monkeypatch.setattr(state, "trace_in_background", lambda *args: begun.set() or go.wait(30) and traced(*args))
    x = torch.ones(3)
    made(x)
    assert begun.wait(30)
    before = len(asked)
    for _ in range(5):
        assert torch.equal(made(x), x * 2)
    assert len(asked) == before == 1
    go.set()
    assert sealing.wait(30) and len(entries(made)) == 1 and made.lookup(x) is not None


def test_more_calls_than_can_wait_are_left_alone(monkeypatch):
    monkeypatch.setattr(background, "MOST_WAITING", 0)
    made = compiled_with_one_entry()
    made.seal("background")
    made(torch.randn(9, 100))
    assert sealing.wait(60) and len(entries(made)) == 1


# -- what happens is told ----------------------------------------------------------------------------------------


def test_callbacks_are_told_what_happens_and_their_errors_go_no_further():
    def f(x):
        tracer.graph_break()
        return x * 2

    seen, compiles = [], []

    def failing(event):
        raise RuntimeError("of a callback")

    removes = [tracer.add_callback(seen.append), tracer.add_callback(compiles.append, "compile"), tracer.add_callback(failing)]
    try:
        made = tracer.optimize("eager", name="mine")(f)
        made(torch.ones(3))
        made(torch.ones(4))
    finally:
        for remove in removes:
            remove()
    made(torch.ones(5, 5))
    kinds = [event.kind for event in seen]
    assert {"miss", "compile", "recompile", "break", "evict"} == set(kinds)
    assert kinds.count("compile") == len(compiles) >= 2
    assert all(event.region == "mine" for event in seen) and all(event.seconds > 0 for event in compiles)
    with pytest.raises(ValueError, match="no event 'hit'"):
        tracer.add_callback(print, "hit")


SCRIPT = """
import os, torch, tracer
from tests.serving.test_sealing import branching, sealing
made = tracer.optimize("eager")(branching)
made.seal("background")
for size in range(2, 30):
    made(torch.randn(size, 5))
"""


def test_a_process_ends_while_calls_wait():
    done = run_python(SCRIPT)
    assert "Traceback" not in done.stderr, done.stderr


AT_WORK = """
import threading, torch, tracer

begun = threading.Event()

def backend(gm, example_inputs):
    begun.set()
    x = torch.ones(64, 64)
    while True:
        try:
            x = (x @ x).tanh()
        except Exception:
            pass

made = tracer.optimize(backend)(lambda x: x * 2)
made.seal("background")
made(torch.ones(3))
assert begun.wait(300)
print("ends", flush=True)
"""


def test_a_process_ends_while_a_backend_is_at_work_in_the_background():
    done = run_python(AT_WORK)
    assert done.stdout == "ends\n" and not done.stderr, done.stderr


HALF_MADE = """
import atexit, threading

class Broken:
    def __del__(self):
        raise RuntimeError("of another thread")

atexit.register(lambda: Broken())  # runs last, as the tracer is imported behind it

import torch, tracer

begun = threading.Event()

class Resource:
    def __init__(self):
        begun.set()
        while True:
            pass
        self.handle = 1

    def __del__(self):
        self.handle

def backend(gm, example_inputs):
    Resource()

made = tracer.optimize(backend)(lambda x: x * 2)
made.seal("background")
made(torch.ones(3))
assert begun.wait(300)
"""


def test_objects_that_the_end_of_a_process_leaves_half_made_are_not_reported():
    done = run_python(HALF_MADE)
    assert "handle" not in done.stderr, done.stderr
    assert "of another thread" in done.stderr


def test_a_forked_child_has_a_worker_of_its_own():
    fork = """
pid = os.fork()
if pid == 0:
    made(torch.randn(31, 7))
    os._exit(0 if sealing.wait(60) and made.lookup(torch.randn(31, 7)) is not None else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    run_python(SCRIPT + "assert sealing.wait(60)\n" + fork)


def test_what_traces_need_is_loaded_when_the_seal_is_made_and_not_beside_requests():
    program = """
import sys, torch, tracer
made = tracer.optimize("eager")(lambda x: x * 2)
assert "z3" not in sys.modules
made.seal("background")
assert "z3" in sys.modules
"""
    run_python(program)
