"""SteadyCall: calls are forwarded in C until something changes that may decide where they go."""

from __future__ import annotations

import gc
import weakref

import pytest

from tracer import _C
from tracer._C import STEP


class Forwarding(_C.SteadyCall):
    """Hands its calls on to `called` with what it owns in front."""

    def __init__(self, owned):
        self.owned = owned
        self.decided = 0
        self.steady = _C.Steady(1, ((STEP.ROOT, -1, 0), (STEP.ATTR, 0, "owned")), (1,))

    def _tracer_decide(self, *args, **kwargs):
        self.decided += 1
        self.steady.keep(self.steady.look(self), self)
        self._tracer_hold(self.steady, called)
        return called(self.owned, *args, **kwargs)


def called(owned, *args, **kwargs):
    if args == ("raise",):
        raise ValueError(owned)
    return owned, args, kwargs


def test_python_decides_once_while_nothing_moves():
    call = Forwarding("a")
    for arguments in ((), (1,), (1, 2, 3), tuple(range(40))):
        assert call(*arguments) == ("a", arguments, {})
        assert call(*arguments, k=1, j=2) == ("a", arguments, {"k": 1, "j": 2})
    assert call.decided == 1


def test_python_decides_anew_when_something_has_moved():
    call = Forwarding("a")
    call()
    for owned in ("b", "c", "d"):
        call.owned = owned
        assert call(1) == call(1) == (owned, (1,), {})
    assert call.decided == 4


def test_what_moves_without_meaning_is_not_asked_about():
    call = Forwarding("a")
    call()
    for other in range(5):
        call.other = other
        assert call(1) == ("a", (1,), {})
    assert call.decided == 1


def test_another_class_decides_for_itself():
    class Other(Forwarding):
        def _tracer_decide(self, *args, **kwargs):
            return "other"

    call = Forwarding("a")
    call()
    call.__class__ = Other
    assert call() == "other"


def test_errors_come_through():
    call = Forwarding("a")
    for _ in range(3):
        with pytest.raises(ValueError, match="a"):
            call("raise")


def test_without_a_decision_the_method_is_asked_for():
    with pytest.raises(AttributeError, match="_tracer_decide"):
        _C.SteadyCall()()


def test_it_takes_a_steady_of_one_root_and_one_value():
    call = Forwarding("a")
    with pytest.raises(ValueError, match="one root"):
        call._tracer_hold(_C.Steady(1, ((STEP.ROOT, -1, 0),), ()), called)
    with pytest.raises(TypeError):
        call._tracer_hold(None, called)


def test_it_dies_with_its_last_reference_and_in_a_cycle():
    call = Forwarding("a")
    call()
    gone = weakref.ref(call)
    del call
    assert gone() is None
    call = Forwarding("a")
    call.me = call
    call()
    gone = weakref.ref(call)
    del call
    gc.collect()
    assert gone() is None


def test_what_a_call_is_given_outlives_a_decision_made_during_it():
    class Owned:
        pass

    call = Forwarding(Owned())
    seen = []

    def replacing(owned):
        call.owned = None
        call._tracer_hold(call.steady, called)
        gc.collect()
        seen.append(type(owned))

    call()
    call._tracer_hold(call.steady, replacing)
    call()
    assert seen == [Owned]
