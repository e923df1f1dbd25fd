"""Threads, forks and other evaluation functions in the process."""

from __future__ import annotations

import sys
import threading

import pytest

from tests.csrc.calls import callee
from tests.csrc.entries import Recorder, entry, fresh
from tests.support.processes import run_python
from tracer import _C
from tracer._C import Dispatcher, Region, active_region, set_stance_c, swap_active


def add_one(x):
    return x + 1


def twice(x):
    return add_one(x) + add_one(x)


def in_threads(*functions):
    """Runs each in a thread; raises what they raised."""
    problems = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if problems:
        raise problems[0]
    assert not any(thread.is_alive() for thread in threads)


def test_the_region_of_one_thread_is_not_that_of_another():
    region = Region(Recorder())
    seen = []
    before = swap_active(region)
    try:
        in_threads(lambda: seen.append(active_region()))
    finally:
        swap_active(before)
    assert seen == [None]


def test_leaving_on_one_thread_leaves_the_other_on():
    ask = Recorder()
    entered, left = threading.Event(), threading.Event()

    def long_one():
        def f(x):
            entered.set()
            assert left.wait(30)
            return twice(x)

        assert Dispatcher(Region(ask), f)(1) == 4

    def short_one():
        assert entered.wait(30)
        assert Dispatcher(Region(Recorder()), fresh(twice))(1) == 4
        left.set()

    in_threads(long_one, short_one)
    assert ask.names.count("add_one") == 2 and ask.names.count("twice") == 1
    assert _C.hook_count() == 0


def test_two_threads_in_regions_of_their_own_offer_every_callee():
    counts = {}

    def run(name):
        ask = Recorder()
        call = Dispatcher(Region(ask), fresh(twice))
        for n in range(2000):
            assert call(n) == 2 * n + 2
        counts[name] = ask.names.count("add_one")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(*(lambda name=name: run(name) for name in "ab"))
    finally:
        sys.setswitchinterval(before)
    assert counts == {"a": 4000, "b": 4000}
    assert _C.hook_count() == 0


def test_threads_share_a_region_whose_entries_change_under_them():
    def cached(x):
        return ("cached", x)

    def answer(region, func, args):
        wanted = args[0]
        return entry(cached, lambda x: sum(range(20)) > 0 and x == wanted)

    region = Region(answer)
    call = Dispatcher(region, fresh(add_one))

    def run(seed):
        for n in range(3000):
            k = (n * seed) % 7
            assert call(k) == ("cached", k)
            if n % 50 == 0:
                found = region.entries()
                if found:
                    found[-1].valid = False
            if n % 500 == 499:
                region.clear()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(*(lambda seed=seed: run(seed) for seed in (1, 2, 3, 5)))
    finally:
        sys.setswitchinterval(before)


def test_a_thread_that_ends_with_a_region_active_gives_it_up():
    region = Region(Recorder())
    in_threads(lambda: swap_active(region) and None)
    assert _C.hook_count() == 0
    count = sys.getrefcount(region)
    in_threads(lambda: swap_active(region) and None)
    assert sys.getrefcount(region) == count


def test_the_stance_is_of_one_thread():
    seen = []
    before = set_stance_c(2)
    try:
        in_threads(lambda: seen.append(set_stance_c(-1)))
    finally:
        set_stance_c(before)
    assert seen == [-1]


def test_a_thread_that_has_taken_no_stance_has_that_of_the_process():
    call, seen = Dispatcher(Region(Recorder(callee=entry(lambda x: "cached", lambda x: True))), fresh(callee)), []
    assert _C.set_stance_of_process(2) == 0
    try:
        in_threads(lambda: (set_stance_c(0), seen.append(call(1))))
        in_threads(lambda: seen.append(call(1)))
    finally:
        assert _C.set_stance_of_process(0) == 2
    assert seen == ["cached", 2]
    for wrong in (-1, 3):
        with pytest.raises(ValueError):
            _C.set_stance_of_process(wrong)


FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
import torch
from tests.csrc.entries import Recorder, entry, fresh
from tracer import _C
from tracer._C import Dispatcher, Region

def add_one(x): return x + 1
def twice(x): return add_one(x) * 2

inside, done = threading.Event(), threading.Event()
def waits(x):
    inside.set()
    done.wait(30)
    return x
ask = Recorder(add_one=entry(lambda x: 100))
call = Dispatcher(Region(ask), twice)
assert call(1) == 200
thread = threading.Thread(target=lambda: Dispatcher(Region(Recorder()), waits)(1))
thread.start()
inside.wait(30)
assert _C.hook_count() == 1

def in_child(x):
    assert os.fork is not None
    pid = os.fork()
    if pid == 0:
        try:
            assert _C.hook_count() == 1, _C.hook_count()  # this thread's; the other thread is gone, its claim too
            assert call(1) == 200
            fresh_ask = Recorder(add_one=entry(lambda x: 7))
            assert Dispatcher(Region(fresh_ask), fresh(twice))(1) == 14
            assert fresh_ask.names == ["twice", "add_one"]
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

code = Dispatcher(Region(Recorder()), in_child)(1)
done.set()
thread.join()
assert _C.hook_count() == 0
sys.exit(code)
"""


def test_a_forked_child_starts_clean_and_serves():
    run_python(FORK)


def test_development_mode_finds_nothing_to_complain_about():
    done = run_python(
        """
        import torch
        from tests.csrc.entries import Recorder, entry, fresh
        from tracer._C import Dispatcher, Region

        def add_one(x, *, k=1): return x + k
        def twice(x): return add_one(x) + add_one(x, k=2)

        for answer in (None, entry(lambda x, k: 10)):
            call = Dispatcher(Region(Recorder(add_one=answer)), fresh(twice))
            print([call(n) for n in range(3)])
        """,
        options=("-X", "dev"),
    )
    assert done.stdout == "[3, 5, 7]\n[20, 20, 20]\n"


# The function that torch.compile installs: either may be first, on any thread. One process each, for it stays loaded.
TORCH_COMPILE = """
import threading, torch
from tests.csrc.entries import Recorder, entry, fresh
from tracer import _C
from tracer._C import Dispatcher, Region

graphs = []
def backend(gm, inputs):
    graphs.append(gm)
    return gm.forward
def compiled(function):
    return torch.compile(function, backend=backend)

def add_one(x): return x + 1
def twice(x): return add_one(x) * 2
ones = torch.ones(3)
"""


def test_torch_compile_inside_a_region():
    run_python(
        TORCH_COMPILE
        + """
peer = compiled(lambda x: (torch._dynamo.graph_break(), x * 3)[1])
def outer(x):
    x = add_one(x)
    x = peer(x)
    return add_one(x)
ask = Recorder(add_one=entry(lambda x: x + 10))
call = Dispatcher(Region(ask), outer)
for _ in range(3):
    assert torch.equal(call(ones), ones * 43), call(ones)
assert len(graphs) == 1 and ask.names.count("add_one") == 1, (graphs, ask.names)
assert _C.hook_count() == 0
assert torch.equal(compiled(add_one)(ones), ones + 1) and len(graphs) == 2
assert torch.equal(call(ones), ones * 43)
"""
    )


def test_a_region_inside_torch_compile():
    run_python(
        TORCH_COMPILE
        + """
ask = Recorder(add_one=entry(lambda x: x + 10))
call = torch._dynamo.disable(Dispatcher(Region(ask), twice))
def outer(x):
    x = x * 3
    x = call(x)
    return add_one(x)
peer = compiled(outer)
for _ in range(3):
    assert torch.equal(peer(ones), ones * 27), peer(ones)
assert ask.names.count("add_one") == 1, ask.names
assert len(graphs) >= 1
assert torch.equal(twice(ones), ones * 4)
# nested once more: a region in torch.compile in a region
again = Dispatcher(Region(Recorder()), lambda x: peer(x))
assert torch.equal(again(ones), ones * 27)
assert _C.hook_count() == 0
"""
    )


def test_torch_compile_and_regions_on_threads_that_enter_and_leave_in_any_order():
    run_python(
        TORCH_COMPILE
        + """
import sys
def run_peer(seed):
    for n in range(60):
        peer = compiled(lambda x: add_one(x) * 3) if n % 20 == 0 else peer
        assert torch.equal(peer(ones), ones * 6)
def run_region(seed):
    for n in range(300):
        ask = Recorder()
        call = Dispatcher(Region(ask), fresh(twice))
        assert torch.equal(call(ones), ones * 4)
        assert ask.names[0] == "twice"
problems = []
def guarded(run, seed):
    try: run(seed)
    except BaseException as error: problems.append(error); raise
compiled(add_one)(ones)
threads = [threading.Thread(target=guarded, args=(run, n)) for n, run in enumerate([run_peer, run_region, run_region])]
sys.setswitchinterval(1e-5)
for t in threads: t.start()
for t in threads: t.join()
assert not problems, problems
assert _C.hook_count() == 0
ask = Recorder()
assert torch.equal(Dispatcher(Region(ask), fresh(twice))(ones), ones * 4)
assert ask.names == ["twice", "add_one"]
before = len(graphs)
assert torch.equal(compiled(twice)(ones), ones * 4) and len(graphs) == before + 1
"""
    )


def test_evaluators_in_a_ring_do_not_recurse():
    """torch.compile goes on top of ours while ours is on top of torch.compile's."""
    run_python(
        TORCH_COMPILE
        + """
step = [threading.Event() for _ in range(4)]
def wait(n): assert step[n].wait(60)

@torch._dynamo.disable
def first_pause():
    step[0].set(); wait(1)
def peer_function(x):
    x = x + 1
    first_pause()
    return x * 2
def run_peer():
    assert torch.equal(compiled(peer_function)(ones), ones * 4)

def region_function(x):
    step[1].set()                      # ours lies on torch.compile's
    thread.join()
    inner = compiled(lambda x: x * 5)  # and torch.compile's goes on ours
    return inner(add_one(x))
thread = threading.Thread(target=run_peer)
thread.start()
wait(0)
ask = Recorder(add_one=entry(lambda x: x + 10))
assert torch.equal(Dispatcher(Region(ask), region_function)(ones), ones * 55)
assert _C.hook_count() == 0
assert torch.equal(compiled(twice)(ones), ones * 4)
assert torch.equal(Dispatcher(Region(Recorder()), fresh(twice))(ones), ones * 4)
"""
    )


def small(x):
    return "small"


def large(x):
    return "large"


def undecided(entries):
    """A decision that leaves out none."""
    return _C.Decision(entries, (), (), ((-1, (), tuple(range(len(entries))), -1, -1),))


def two_entries():
    return entry(small, lambda x: x < 10), entry(large, lambda x: x >= 10)


def test_one_thread_makes_a_decision_and_the_others_do_not_wait_for_it():
    begun, served, asked = threading.Event(), threading.Event(), []

    def slow(entries):
        asked.append(len(entries))
        begun.set()
        assert served.wait(60)
        return undecided(entries)

    region, function = Region(Recorder(), slow), fresh(add_one)
    for made in two_entries():
        region.install(function.__code__, function.__globals__, made)
    call = Dispatcher(region, function)

    def second():
        assert begun.wait(60)
        assert [call(1), call(20), call(2)] == ["small", "large", "small"]
        served.set()

    in_threads(lambda: call(1), second)
    assert call(3) == "small" and asked == [2]


def test_what_tells_a_ready_entry_from_others_is_made_before_a_call_sees_it():
    asked = []

    def decide(entries):
        asked.append([call(1), len(entries)])
        return undecided(entries)

    region, function = Region(Recorder(), decide), fresh(add_one)
    call = Dispatcher(region, function)
    first, second = two_entries()
    region.install(function.__code__, function.__globals__, first, True)
    region.install(function.__code__, function.__globals__, second, True)
    assert [call(1), call(20)] == ["small", "large"] and asked == [["small", 2]]


def test_a_decision_that_fails_keeps_no_ready_entry_out(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    region, function = Region(Recorder(), lambda entries: 1 // 0), fresh(add_one)
    for made in two_entries():
        region.install(function.__code__, function.__globals__, made, True)
    call = Dispatcher(region, function)
    assert [call(1), call(20)] == ["small", "large"] and reported
