"""Exceptions under the frame hook: of the program, cached code, callbacks and guards; and recursion that goes too deep."""

from __future__ import annotations

import sys
import traceback
from types import FunctionType

import pytest

from tests.csrc.calls import callee, caller, run_under
from tests.csrc.entries import Recorder, entry, fresh
from tracer._C import SKIP, Dispatcher, Region

pytestmark = pytest.mark.usefixtures("nothing_is_left_switched_on")


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


def test_nothing_is_traced_where_few_calls_can_still_be_nested():
    nested: list[object] = []
    for _ in range(250):
        nested = [nested]

    def ask(*_: object) -> None:
        assert repr(nested)

    def down(n):
        return 0 if n == 0 else 1 + again(n - 1)

    again = Dispatcher(Region(ask), down)
    assert again(650) == 650
