"""The frame hook: which frames are offered, what runs with the hook on, and what passes through unharmed."""

from __future__ import annotations

import asyncio
import sys
from types import FunctionType

import pytest

from tests.csrc.calls import callee, caller, run_under
from tests.csrc.entries import Recorder, always, entry, fresh
from tracer import _C
from tracer._C import SKIP, Dispatcher, Region, active_region, never_trace, set_stance_c, swap_active

pytestmark = pytest.mark.usefixtures("nothing_is_left_switched_on")


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
    own_frame = [] if sys.version_info >= (3, 12) else ["<listcomp>"]  # where a comprehension is not inlined
    assert ask.names == ["f", "callee", "callee", "callee", *own_frame, "<lambda>"]


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
    assert set_stance_c(1) == -1  # run only
    assert call(1) == "cached" and call(2) == 3
    assert set_stance_c(2) == 1  # disabled
    assert call(1) == 2
    assert Dispatcher(call.region, fresh(caller))(1) == 4
    assert set_stance_c(-1) == 2
    assert ask.names == ["callee"]
    for wrong in (3, -2):
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


def test_an_entry_for_any_arguments_serves_both_ways_in():
    """Through the dispatcher and through the hook: one entry."""
    f = fresh(callee)
    ask = Recorder(callee=entry(lambda x: "cached", always))
    region = Region(ask)
    assert Dispatcher(region, f)(1) == "cached"
    assert run_under(region, f, 1) == "cached"
    assert ask.names.count("callee") == 1
