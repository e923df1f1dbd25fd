"""Dispatcher: arguments bound as CPython binds them, attributes of a function, closures, the resume limit."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import types
import weakref

import pytest

from tests.csrc.entries import Recorder, entry, fresh
from tests.support.outcomes import outcome
from tracer import _C
from tracer._C import Dispatcher, Region


def plain(a, b):
    return a, b


def defaults(a, b=2, c=3):
    return a, b, c


def positional_only(a, b=2, /, c=3):
    return a, b, c


def keyword_only(a, *, b, c=3):
    return a, b, c


def varargs(a, b=2, *args):
    return a, b, args


def varkeywords(a, /, b=2, **kwargs):
    return a, b, kwargs


def everything(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    return a, b, c, args, d, e, kwargs


def nothing():
    return ()


CALLS = [
    ((), {}),
    ((1,), {}),
    ((1, 20), {}),
    ((1, 20, 30), {}),
    ((1, 20, 30, 40, 50), {}),
    ((), {"a": 1}),
    ((1,), {"b": 20}),
    ((1,), {"c": 30}),
    ((1,), {"a": 10}),
    ((1,), {"d": 4}),
    ((1, 2), {"b": 20}),
    ((1,), {"z": 26, "y": 25, "d": 40}),
    ((1, 2, 3, 4), {"d": 40, "e": 50, "a": 10}),
    ((), {"b": 2, "a": 1}),
    ((1,), {"b": 5, "c": 6, "d": 7, "e": 8}),
]
FUNCTIONS = [plain, defaults, positional_only, keyword_only, varargs, varkeywords, everything, nothing]


def slots_as_positionals(function):
    """Code that takes the slots as plain positionals and returns what the function does."""
    order = list(inspect.signature(function).parameters)  # what the functions above return; *args before keyword-only
    names = function.__code__.co_varnames[: len(order)]
    namespace: dict[str, object] = {}
    exec(f"def cached({', '.join(names)}): return ({''.join(name + ', ' for name in order)})", namespace)
    return namespace["cached"]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("hit", [True, False], ids=["hit", "miss"])
def test_arguments_are_bound_as_cpython_binds_them(function, hit):
    f = fresh(function)
    replacement = slots_as_positionals(function)
    ask = Recorder(**{function.__name__: (lambda region, func, args: entry(replacement)) if hit else None})
    call = Dispatcher(Region(ask), f)
    for args, kwargs in CALLS * 2:
        assert outcome(call, *args, **kwargs) == outcome(function, *args, **kwargs), (args, kwargs)
    if hit:
        assert len(ask.asked) == 1
    assert _C.hook_count() == 0


def test_the_callback_gets_the_slots_in_order():
    ask = Recorder()
    Dispatcher(Region(ask), fresh(everything))(1, 2, 3, 4, d=5, q=6)
    assert ask.asked == [("everything", (1, 2, 3, 5, 5, (4,), {"q": 6}))]


def test_a_str_subclass_as_keyword_is_left_to_cpython():
    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            return str.__eq__(self, other)

    ask = Recorder(defaults=entry(slots_as_positionals(defaults)))
    call = Dispatcher(Region(ask), fresh(defaults))
    assert call(1, **{Name("b"): 20}) == (1, 20, 3)
    assert call(1, **{Name("b"): 21}) == (1, 21, 3)
    assert ask.names.count("defaults") == 1


def test_changed_defaults_and_code_are_seen():
    f = fresh(defaults)
    call = Dispatcher(Region(Recorder(defaults=entry(slots_as_positionals(defaults)))), f)
    assert call(1) == (1, 2, 3)
    f.__defaults__ = (20, 30)
    assert call(1) == (1, 20, 30)
    f.__code__ = plain.__code__
    f.__defaults__ = None
    ask = Recorder()
    other = Dispatcher(Region(ask), f)
    assert other(1, 2) == (1, 2)


def test_replacing_the_code_of_the_function_does_not_run_its_old_entries():
    f = fresh(plain)

    def cached(a, b):
        return "cached"

    region = Region(Recorder(plain=entry(cached)))
    call = Dispatcher(region, f)
    assert call(1, 2) == "cached"
    region.callback.answers.clear()
    f.__code__ = fresh(plain).__code__
    assert call(1, 2) == (1, 2)


def test_many_arguments_with_a_closure():
    cell = "free"
    names = ", ".join(f"a{i}" for i in range(40))
    namespace: dict[str, object] = {}
    exec(f"def outer(cell):\n def many({names}): return (cell, {names})\n return many", namespace)
    many = namespace["outer"](cell)
    seen = []

    def check(*slots):
        seen.append(slots)
        return True

    made = entry(many, check)
    call = Dispatcher(Region(Recorder(many=made)), many)
    for _ in range(3):
        assert call(*range(40)) == ("free", *range(40))
    assert seen[-1] == (*range(40), many.__closure__)


def test_it_binds_as_a_method_and_carries_attributes():
    class Thing:
        @functools.partial(Dispatcher, Region(Recorder()))
        def method(self, x):
            """Doc."""
            return self, x

    thing = Thing()
    assert thing.method(1) == (thing, 1) and Thing.method(thing, 2) == (thing, 2)
    assert isinstance(thing.method, types.MethodType) and isinstance(Thing.method, Dispatcher)
    call = Dispatcher(Region(Recorder()), fresh(defaults))
    functools.update_wrapper(call, defaults)
    assert call.__wrapped__ is defaults and call.__name__ == "defaults" and call.__module__ == __name__
    assert inspect.signature(call) == inspect.signature(defaults)
    call.anything = 1
    assert call.__dict__["anything"] == 1
    assert weakref.ref(call)() is call
    assert "defaults" in repr(call)
    with pytest.raises(AttributeError):
        call.function = plain


def test_it_takes_a_region_and_a_function():
    for wrong in ((None, plain), (Region(print), print), (Region(print),), (Region(print), plain, -1)):
        with pytest.raises((TypeError, ValueError)):
            Dispatcher(*wrong)


def test_with_closure_is_the_same_function_over_other_cells():
    def make(n):
        def f(x, y=5, *, z=6):
            return n, x, y, z

        return f

    def make_cached(n):
        def f(x, y, z):
            return "cached", n, x, y, z

        return f

    closures = []

    def check(x, y, z, closure):
        closures.append(closure)
        return True

    one, two = make(1), make(2)
    ask = Recorder(f=entry(make_cached(0), check))
    call = Dispatcher(Region(ask), one, resume_limit=7)
    other = call.with_closure(two.__closure__)
    assert call(1) == ("cached", 1, 1, 5, 6) and other(1) == ("cached", 2, 1, 5, 6)
    assert closures == [two.__closure__] and ask.names == ["f"]
    assert other.region is call.region and other.resume_limit == 7
    assert other.function.__code__ is one.__code__ and other.function.__closure__ is two.__closure__
    assert other.function.__qualname__ == one.__qualname__
    with pytest.raises(ValueError, match="free variables"):
        call.with_closure(())
    with pytest.raises(TypeError, match="cells"):
        call.with_closure((1,))
    with pytest.raises(TypeError, match="tuple"):
        call.with_closure([])


def test_closures_of_one_code_use_one_entry_with_their_own_cells():
    def make(a):
        def f(x):
            nonlocal a
            a = (a, x)
            return "original"

        return f, lambda: a

    def make_cached(a, z):
        def f(x):
            nonlocal a
            a = (a, x)
            return z

        return f

    extra = types.CellType("from the extra")
    made = entry(make_cached(0, 0), extras=(extra,))
    assert made.code.co_freevars == ("a", "z")
    (one, read_one), (two, read_two) = make("one"), make("two")
    region = Region(Recorder(f=made))
    call_one, call_two = Dispatcher(region, one), Dispatcher(region, two)
    transient = call_one.with_closure(two.__closure__)
    for _ in range(2):
        assert call_one(1) == call_two(2) == transient(3) == "from the extra"
    assert read_one() == (("one", 1), 1)
    assert read_two() == (((("two", 2), 3), 2), 3)
    assert len(region.entries()) == 1 and region.callback.names == ["f"]


def test_a_transient_closure_is_not_kept_alive():
    class Value:
        pass

    def make(value):
        def f():
            return value

        return f

    region = Region(lambda region, func, args: entry(make(None)))
    call = Dispatcher(region, make(1))
    value = Value()
    transient = call.with_closure(make(value).__closure__)
    assert transient() is value and transient() is value
    gone = weakref.ref(value)
    del value, transient
    gc.collect()
    assert gone() is None
    assert call() == 1


def test_wrong_number_of_cells_is_an_error_not_a_crash():
    def make(a, b):
        def f():
            return a, b

        return f

    def single(a):
        def f():
            return a

        return f

    call = Dispatcher(Region(lambda region, func, args: entry(make(1, 2))), single(1))
    with pytest.raises(SystemError, match="free variables"):
        call()


def test_resume_limit_hands_deep_nesting_to_cpython():
    """Code with a resume limit that calls itself through its dispatcher, as a loop with a graph break does."""
    source = """
def step(n):
    log.append("original")
    helper()
    return n

def cached(n):
    log.append("cached")
    return call(n - 1) if n else 0

def helper():
    return log
"""
    log: list[str] = []
    namespace: dict[str, object] = {"log": log}
    exec(source, namespace)
    ask = Recorder(step=entry(namespace["cached"], needs_hook=True, globals=namespace))
    call = namespace["call"] = Dispatcher(Region(ask), namespace["step"], resume_limit=3)
    assert call(2) == 0 and log == ["cached"] * 3
    del log[:], ask.asked[:]
    assert call(9) == 6
    assert log == ["cached"] * 3 + ["original"]
    assert ask.names == ["helper"]  # the hook is on for its callees
    unlimited = namespace["call"] = Dispatcher(Region(ask), namespace["step"])
    assert unlimited(50) == 0
    assert unlimited.resume_limit == 0 and _C.hook_count() == 0


def test_dispatchers_are_collected_in_cycles():
    class Owner:
        pass

    owner = Owner()

    def f(x):
        return owner

    owner.call = Dispatcher(Region(Recorder()), f)
    owner.call(1)
    gone = weakref.ref(owner)
    owner = f = None
    gc.collect()
    assert gone() is None


def test_calls_leave_references_as_they_were():
    f, argument = fresh(defaults), object()
    call = Dispatcher(Region(Recorder(defaults=entry(slots_as_positionals(defaults)))), f)
    call(argument)
    before = sys.getrefcount(argument)
    for _ in range(1000):
        call(argument)
        call(argument, b=argument)
        call(c=argument, a=1)
    assert sys.getrefcount(argument) == before


@pytest.mark.parametrize("function", [plain, defaults, keyword_only, everything, nothing])
def test_bind_gives_the_slots_that_the_callback_is_given(function):
    function = fresh(function)
    recorder = Recorder()
    dispatcher = Dispatcher(Region(recorder), function)
    for args, kwargs in CALLS:
        try:
            dispatcher(*args, **kwargs)
        except TypeError:
            assert dispatcher.bind(*args, **kwargs) is None
        else:
            assert dispatcher.bind(*args, **kwargs) == recorder.asked[-1][1]


def test_lookup_finds_the_entry_of_a_call_and_runs_nothing():
    def refuse(region, function, args):
        raise AssertionError("nobody is to be asked")

    def replacement(a, b):
        raise AssertionError("nothing is to be run")

    function = fresh(plain)
    dispatcher = Dispatcher(Region(refuse), function)
    assert dispatcher.lookup(1, 2) is None
    small = entry(replacement, lambda a, b: a < 5)
    large = entry(None, lambda a, b: a >= 5)
    for made in (small, large):
        dispatcher.region.install(function.__code__, function.__globals__, made)
    assert dispatcher.lookup(1, b=2) is small and dispatcher.lookup(9, 2) is large
    assert dispatcher.lookup(1) is None
    assert small.hits == large.hits == 0


def test_what_is_installed_takes_three_arguments_of_the_right_kinds():
    region = Region(lambda *args: None)
    with pytest.raises(TypeError):
        region.install(plain.__code__, {}, None)
    with pytest.raises(TypeError):
        region.install(plain, {}, entry(plain))


# -- arguments that are handed over ------------------------------------------------------------------------------------


class Held:
    pass


def keeps_nothing(a, b):
    _C.let_go()
    kept = weakref.ref(a)
    del a
    return kept() is None, b


def test_arguments_that_are_handed_over_belong_to_the_cached_code_alone():
    function = fresh(plain)
    dispatcher = Dispatcher(Region(Recorder(plain=entry(keeps_nothing))), function)
    dispatcher(Held(), 2)  # the recorder keeps it
    for number in range(3):
        arguments = [Held(), number]
        assert dispatcher.hand_over(arguments) == (True, number)
        assert arguments == []
    held = Held()
    assert dispatcher(held, 5) == (False, 5)


def test_hand_over_takes_a_list_and_empties_it_where_cpython_runs_the_function():
    dispatcher = Dispatcher(Region(Recorder()), fresh(plain))
    arguments = [1, 2]
    assert dispatcher.hand_over(arguments) == (1, 2) and arguments == []
    with pytest.raises(TypeError, match="hand_over"):
        dispatcher.hand_over((1, 2))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        dispatcher.hand_over([1])


def test_many_arguments_that_are_handed_over():
    names = ", ".join(f"a{i}" for i in range(40))
    namespace: dict[str, object] = {"let_go": _C.let_go}
    exec(f"def many({names}): return ({names})\ndef cached({names}):\n let_go()\n return ({names})", namespace)
    dispatcher = Dispatcher(Region(Recorder(many=entry(namespace["cached"]))), namespace["many"])
    arguments = [Held() for _ in range(40)]
    expected = tuple(arguments)
    assert dispatcher.hand_over(arguments) == expected and arguments == []


def test_no_arguments_at_all_are_handed_over():
    def outer():
        free = 1

        def fn():
            return free

        return fn

    dispatcher = Dispatcher(Region(Recorder()), fresh(outer()))
    arguments: list[object] = []
    assert dispatcher.hand_over(arguments) == 1 and dispatcher() == 1 and arguments == []
    assert dispatcher.region.entries() == []


def test_let_go_outside_of_cached_code_does_nothing():
    assert _C.let_go() is None
