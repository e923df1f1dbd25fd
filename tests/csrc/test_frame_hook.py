"""The frame hook: which frames are offered, what runs with the hook on, and what passes through unharmed."""

from __future__ import annotations

import asyncio
import cProfile
import sys
import traceback
from types import FunctionType

import pytest

from tests.csrc.entries import Recorder, always, entry, fresh
from tracer import _C
from tracer._C import SKIP, Dispatcher, Region, active_region, never_trace, set_stance_c, swap_active


@pytest.fixture(autouse=True)
def nothing_is_left_switched_on():
    yield
    assert active_region() is None and _C.hook_count() == 0
    assert set_stance_c(0) == 0


def run_under(region, function, *args):
    """Calls `function` with the region active: its frame and those it calls are offered."""
    before = swap_active(region)
    try:
        return function(*args)
    finally:
        swap_active(before)


def callee(x):
    return x + 1


def caller(x):
    return callee(x) * 2


def test_callees_are_offered_and_replaced():
    def cached(x):
        return x + 100

    ask = Recorder(callee=entry(cached))
    assert Dispatcher(Region(ask), fresh(caller))(1) == 202
    assert ask.names == ["caller", "callee"]
    assert ask.asked[1][1] == (1,)


def test_an_entry_that_needs_no_hook_runs_with_no_region_active():
    seen = []

    def cached(x):
        seen.append(active_region())
        return callee(x)

    namespace = {"seen": seen, "active_region": active_region, "callee": callee}
    for needs_hook in (False, True):
        made = entry(FunctionType(_without_closure(cached), namespace), needs_hook=needs_hook, globals=namespace)
        ask = Recorder(caller=made)
        region = Region(ask)
        call = Dispatcher(region, fresh(caller))
        assert call(1) == call(1) == 2
        assert seen == [region if needs_hook else None] * 2
        assert ask.names == ["caller"] + ["callee"] * 2 * needs_hook
        del seen[:]


def _without_closure(function):
    """The code of a function whose free variables are read as globals."""
    namespace: dict[str, object] = {}
    exec("def cached(x):\n    seen.append(active_region())\n    return callee(x)", namespace)
    assert isinstance(namespace["cached"], FunctionType) and function.__code__.co_freevars
    return namespace["cached"].__code__


def test_a_hit_on_a_callee_switches_the_hook_as_its_entry_says():
    regions = []

    def outer(x):
        regions.append(active_region())
        x = inner(x)
        regions.append(active_region())
        return x

    def inner(x):
        raise AssertionError("never run")

    namespace: dict[str, object] = {"regions": regions, "active_region": active_region}
    exec("def cached(x):\n    regions.append(active_region())\n    return -x", namespace)
    ask = Recorder(inner=entry(namespace["cached"], globals=namespace))
    region = Region(ask)
    assert Dispatcher(region, outer)(3) == -3
    assert regions == [region, None, region]


def test_skipped_and_never_traced_code_leaves_the_hook_on_for_callees():
    ask = Recorder(caller=SKIP)
    region = Region(ask)
    f = fresh(caller)
    call = Dispatcher(region, f)
    assert call(1) == call(1) == 4
    assert ask.names == ["caller", "callee", "callee"]
    del ask.asked[:]
    g = fresh(caller)
    never_trace(g.__code__)
    assert run_under(region, g, 1) == 4
    assert [name for name in ask.names if name != "swap_active"] == ["callee"]
    with pytest.raises(TypeError):
        never_trace(g)


def test_code_that_is_marked_with_its_callees_runs_in_cpython_with_all_that_it_calls():
    ask = Recorder()
    region = Region(ask)
    f = fresh(caller)
    never_trace(f.__code__, callees=True)
    assert run_under(region, lambda: (f(1), callee(1))) == (4, 2)
    assert [name for name in ask.names if name in ("caller", "callee")] == ["callee"]  # that of the lambda


def test_a_callback_may_mark_the_code_that_it_is_asked_about():
    def twice(x):
        return caller(x) + caller(x)

    class Marking(Recorder):
        def __call__(self, region, func, args):
            if func is caller:
                never_trace(func.__code__, callees=True)
            return super().__call__(region, func, args)

    ask = Marking(caller=SKIP)
    code = caller.__code__
    caller.__code__ = code.replace()  # the mark is for good
    try:
        assert Dispatcher(Region(ask), twice)(1) == 8
    finally:
        caller.__code__ = code
    assert ask.names == ["twice", "caller"]


def test_cached_code_is_never_offered():
    namespace: dict[str, object] = {}
    exec("def cached(x):\n    return x if x == 0 else again(x - 1)", namespace)
    made = entry(namespace["cached"], needs_hook=True, globals=namespace)
    namespace["again"] = FunctionType(made.code, namespace, "again")  # a plain function over the cached code
    ask = Recorder(callee=made)
    assert Dispatcher(Region(ask), fresh(callee))(5) == 0
    assert ask.names == ["callee"]


def test_class_and_module_bodies_are_not_offered():
    def f():
        class Body:
            x = callee(1)

        exec("y = callee(2)", globals(), namespace)
        return Body.x

    namespace: dict[str, int] = {}
    ask = Recorder()
    assert Dispatcher(Region(ask), f)() == 2 and namespace == {"y": 3}
    assert ask.names == ["f", "callee", "callee"]


def test_comprehensions_and_lambdas_are_offered_generators_are_not():
    def generator(n):
        for i in range(n):
            yield callee(i)

    def f(n):
        return sum(generator(n)), [i for i in range(n)], sum(i for i in range(n)), (lambda: n)()

    ask = Recorder()
    assert Dispatcher(Region(ask), f)(3) == (6, [0, 1, 2], 3, 3)
    assert ask.names == ["f", "callee", "callee", "callee", "<listcomp>", "<lambda>"]


def test_generators_keep_send_throw_and_close():
    events = []

    def generator():
        try:
            got = yield 1
            events.append(got)
            yield 2
        except ValueError as error:
            events.append(str(error))
            yield callee(2)
        finally:
            events.append("closed")

    def f():
        g = generator()
        first = next(g), g.send("sent"), g.throw(ValueError("thrown"))
        g.close()
        return first

    assert Dispatcher(Region(Recorder()), f)() == (1, 2, 3)
    assert events == ["sent", "thrown", "closed"]


def test_a_decorated_generator_function_and_coroutine_still_work():
    def generator(n):
        yield from range(n)

    async def coroutine(n):
        await asyncio.sleep(0)
        return n

    async def stream(n):
        for i in range(n):
            yield i

    ask = Recorder()
    region = Region(ask)
    assert list(Dispatcher(region, generator)(3)) == [0, 1, 2]
    assert asyncio.run(Dispatcher(region, coroutine)(3)) == 3

    async def collect():
        return [i async for i in Dispatcher(region, stream)(3)]

    assert asyncio.run(collect()) == [0, 1, 2]
    assert ask.names == []


def test_coroutines_under_an_active_region():
    async def inner(n):
        await asyncio.sleep(0)
        return callee(n)

    def f(n):
        return asyncio.run(inner(n))

    assert Dispatcher(Region(Recorder()), f)(1) == 2


def test_exceptions_of_the_original_pass_through_with_their_traceback():
    def inner():
        raise KeyError("inside")

    def f():
        try:
            inner()
        except KeyError as error:
            raise ValueError("outside") from error

    call = Dispatcher(Region(Recorder()), f)
    with pytest.raises(ValueError, match="outside") as caught:
        call()
    assert isinstance(caught.value.__cause__, KeyError)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]
    assert frames == ["f", "inner"]
    assert sys.exc_info() == (None, None, None)


def test_exceptions_of_cached_code_pass_through():
    def f(x):
        return inner(x)

    def inner(x):
        return x

    def cached(x):
        raise ZeroDivisionError(x)

    call = Dispatcher(Region(Recorder(inner=entry(cached))), f)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="7"):
            call(7)
        with pytest.raises(ZeroDivisionError, match="8"):
            call(x=8)


def test_exceptions_of_the_callback_pass_through():
    def complain(region, func, args):
        raise LookupError(func.__name__)

    def f(x):
        try:
            return inner(x)
        except LookupError as error:
            return error.args

    def inner(x):
        return x

    with pytest.raises(LookupError, match="caller"):
        Dispatcher(Region(complain), fresh(caller))(1)
    assert Dispatcher(Region(Recorder(inner=complain)), f)(1) == ("inner",)
    for kind in (KeyboardInterrupt, SystemExit):

        def interrupt(region, func, args, kind=kind):
            raise kind

        with pytest.raises(kind):
            Dispatcher(Region(interrupt), fresh(caller))(1)


def test_an_exception_in_a_guard_is_a_miss_but_not_an_interrupt():
    problem: BaseException = ValueError("in a guard")

    def check(x):
        raise problem

    ask = Recorder(callee=entry(callee, check))
    f = fresh(callee)
    call = Dispatcher(Region(ask), f)
    assert call(1) == call(1) == 2
    assert len(ask.asked) == 2
    for problem in (KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(problem)):
            call(1)
        with pytest.raises(type(problem)):
            run_under(call.region, f, 1)
    assert len(ask.asked) == 2


@pytest.mark.parametrize("kind", [RecursionError, MemoryError])
def test_a_guard_out_of_stack_or_memory_is_no_reason_to_trace(kind):
    fail = []

    def check(x):
        if fail:
            raise kind
        return True

    ask = Recorder(callee=entry(caller, check))
    call = Dispatcher(Region(ask), fresh(callee))
    call(1)
    fail.append(True)
    assert call(1) == 2  # the original
    assert len(ask.asked) == 1
    fail.clear()
    assert call(1) == 4


def test_a_check_fn_that_is_its_own_dispatcher_ends():
    calls = []

    def answer(region, func, args):
        return entry(caller, calls[0])

    call = Dispatcher(Region(answer), fresh(callee))
    calls.append(call)
    call(1)
    assert call(1) in (2, 4)


def test_deep_recursion_ends_in_recursion_error():
    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    ask = Recorder(deep=SKIP)
    call = Dispatcher(Region(ask), deep)
    assert call(300) == 300
    with pytest.raises(RecursionError):
        call(100_000)
    assert call(300) == 300

    def through_dispatcher(n):
        return 0 if n == 0 else 1 + again(n - 1)

    again = Dispatcher(Region(Recorder()), through_dispatcher)
    assert again(100) == 100
    with pytest.raises(RecursionError):
        again(100_000)
    assert again(100) == 100


def test_recursion_through_an_entry_ends_in_recursion_error():
    namespace: dict[str, object] = {}
    exec("def cached(n):\n    return 0 if n == 0 else 1 + again(n - 1)", namespace)
    original = FunctionType(namespace["cached"].__code__.replace(co_name="f"), namespace, "f")
    again = Dispatcher(Region(Recorder(f=entry(namespace["cached"], globals=namespace))), original)
    namespace["again"] = again
    assert again(200) == 200
    with pytest.raises(RecursionError):
        again(100_000)
    assert again(200) == 200


def test_callback_guard_and_cached_code_may_call_decorated_code():
    inner_ask = Recorder(callee=entry(caller))
    inner = Dispatcher(Region(inner_ask), fresh(callee))
    log = []

    def check(x):
        log.append(("check", inner(x), active_region()))
        return True

    def answer(region, func, args):
        log.append(("callback", inner(*args), active_region()))
        return entry(cached, check, globals={"inner": inner})

    namespace: dict[str, object] = {}
    exec("def cached(x):\n    return inner(x) + 1000", namespace)
    cached = namespace["cached"]
    call = Dispatcher(Region(answer), fresh(caller))
    assert call(1) == 1004 and call(2) == 1006
    assert log == [("callback", 4, None), ("check", 6, None)]
    assert inner_ask.names == ["callee"]


def test_a_callback_that_leaves_a_region_active_is_tidied_up():
    stray = Region(Recorder())

    def answer(region, func, args):
        swap_active(stray)
        return entry(caller, check)

    def check(x):
        swap_active(stray)
        return True

    call = Dispatcher(Region(answer), fresh(callee))
    for _ in range(3):
        assert call(1) == 4
        assert active_region() is None and _C.hook_count() == 0


def test_a_callback_may_be_called_for_the_frame_of_a_caller_in_progress():
    """Recursion while tracing: the callback calls the very function it is asked about."""
    f = fresh(callee)
    depth = []

    def answer(region, func, args):
        if len(depth) < 3:
            depth.append(1)
            call(*args)
        return None

    call = Dispatcher(Region(answer), f)
    assert call(1) == 2 and len(depth) == 3


def test_stances():
    def cached(x):
        return "cached"

    ask = Recorder(callee=entry(cached, lambda x: x == 1))
    call = Dispatcher(Region(ask), fresh(callee))
    assert call(1) == "cached"
    assert set_stance_c(1) == 0  # run only
    assert call(1) == "cached" and call(2) == 3
    assert set_stance_c(2) == 1  # disabled
    assert call(1) == 2
    assert Dispatcher(call.region, fresh(caller))(1) == 4
    assert set_stance_c(0) == 2
    assert ask.names == ["callee"]
    for wrong in (3, -1):
        with pytest.raises(ValueError):
            set_stance_c(wrong)


def test_swap_active_nests_and_rejects_other_objects():
    one, two = Region(print), Region(print)
    never_trace(test_swap_active_nests_and_rejects_other_objects.__code__)
    assert swap_active(one) is None
    assert _C.hook_count() == 1
    assert swap_active(two) is one and active_region() is two
    assert swap_active(None) is two
    assert _C.hook_count() == 0
    with pytest.raises(TypeError):
        swap_active(1)


def test_cells_made_from_arguments_work_in_the_original_and_in_cached_code():
    def f(x):
        def inner():
            nonlocal x
            x += 1
            return x

        return inner() + inner()

    ask = Recorder()
    assert Dispatcher(Region(ask), f)(1) == 5
    assert ask.names == ["f", "inner", "inner"]
    assert Dispatcher(Region(Recorder(f=entry(f))), f)(1) == 5


def test_callee_closures_use_the_cells_of_the_calling_function():
    def make(n):
        def inner(x):
            return n + x

        return inner

    def make_cached(n):
        def cached(x):
            return n * 100 + x

        return cached

    def f(x):
        return [make(n)(x) for n in (1, 2, 3)]

    closures = []

    def check(x, closure):
        closures.append(closure[0].cell_contents)
        return True

    ask = Recorder(inner=entry(make_cached(0), check), make=SKIP)
    assert Dispatcher(Region(ask), f)(5) == [105, 205, 305]
    assert ask.names.count("inner") == 1 and closures == [2, 3]


def test_settrace_sees_the_program_and_changes_nothing():
    events = []

    def trace(frame, event, arg):
        events.append((event, frame.f_code.co_name))
        return trace

    ask = Recorder()
    call = Dispatcher(Region(ask), fresh(caller))
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert call(1) == 4 and call(2) == 6
    finally:
        sys.settrace(before)
    assert [event for event in events if event[0] == "call" and event[1] in ("caller", "callee")] == [
        ("call", "caller"),
        ("call", "callee"),
    ] * 2
    assert "trace" not in ask.names
    assert ask.names.count("caller") == 2


def test_settrace_with_a_hit():
    lines = []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "callee":
            lines.append(event)
        return trace

    call = Dispatcher(Region(Recorder(caller=entry(caller))), fresh(caller))
    call(1)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert call(1) == 4
    finally:
        sys.settrace(before)
    assert lines == ["call", "line", "return"]


def test_trace_and_profile_functions_may_be_switched_by_the_program():
    def f(x):
        sys.setprofile(lambda *args: None)
        x = callee(x)
        sys.setprofile(None)
        return callee(x)

    assert Dispatcher(Region(Recorder()), f)(1) == 3


def test_cprofile_counts_what_ran():
    call = Dispatcher(Region(Recorder(callee=entry(callee))), fresh(caller))
    profile = cProfile.Profile()
    profile.enable()
    try:
        assert [call(n) for n in range(10)] == [(n + 1) * 2 for n in range(10)]
    finally:
        profile.disable()
    assert any(entry.code.co_name == "callee" for entry in profile.getstats() if not isinstance(entry.code, str))


def test_finalizers_and_weakref_callbacks_run_under_the_hook():
    class Loud:
        def __del__(self):
            log.append("deleted")

    log: list[str] = []

    def f():
        Loud()
        return len(log)

    assert Dispatcher(Region(Recorder()), f)() == 1


def test_locals_and_frames_look_as_in_cpython():
    def f(a, *args, k=1, **kwargs):
        b = 2
        frame = sys._getframe()
        assert frame.f_code is f.__code__ and frame.f_back.f_code.co_name == here
        return sorted(locals())

    here = sys._getframe().f_code.co_name
    call = Dispatcher(Region(Recorder()), f)
    assert call(1, 2, z=3) == f(1, 2, z=3)


def test_an_entry_for_any_arguments_serves_both_ways_in():
    """Through the dispatcher and through the hook: one entry."""
    f = fresh(callee)
    ask = Recorder(callee=entry(lambda x: "cached", always))
    region = Region(ask)
    assert Dispatcher(region, f)(1) == "cached"
    assert run_under(region, f, 1) == "cached"
    assert ask.names.count("callee") == 1
