"""Region and Entry: who owns entries, when they go, in what order they are tried."""

from __future__ import annotations

import functools
import gc
import weakref
from types import FunctionType

import pytest

from tests.csrc.entries import Recorder, always, entry, fresh, fresh_code
from tracer import _C
from tracer._C import SKIP, Dispatcher, Entry, Region


def original(x):
    return ("original", x)


def replaced(x):
    return ("replaced", x)


def replaced_too(x):
    return ("replaced too", x)


def test_an_entry_from_the_callback_is_installed_and_run():
    f = fresh(original)
    made = entry(replaced)
    ask = Recorder(original=made)
    region = Region(ask)
    call = Dispatcher(region, f)
    assert call(1) == ("replaced", 1) and call(2) == ("replaced", 2)
    assert ask.asked == [("original", (1,))]
    assert region.entries() == [made] == region.entries(f.__code__)
    assert region.codes() == [f.__code__]
    assert made.hits == 1  # the first run was no hit


def test_none_asks_again_and_skip_never_does():
    f = fresh(original)
    ask = Recorder()
    region = Region(ask)
    call = Dispatcher(region, f)
    assert call(1) == call(1) == ("original", 1)
    assert len(ask.asked) == 2
    ask.answers["original"] = SKIP
    call(1)
    call(1)
    assert len(ask.asked) == 3 and region.is_skipped(f.__code__)
    region.clear()
    assert not region.is_skipped(f.__code__)
    region.skip(f.__code__)
    call(1)
    assert len(ask.asked) == 3


def test_entries_still_hit_after_skip():
    f = fresh(original)
    ask = Recorder(original=entry(replaced, lambda x: x == 1))
    region = Region(ask)
    call = Dispatcher(region, f)
    call(1)
    region.skip(f.__code__)
    assert call(1) == ("replaced", 1) and call(2) == ("original", 2)
    assert len(ask.asked) == 1


def test_lookups_see_the_entries_of_the_compiler_that_is_forced():
    f = fresh(original)
    made, made_by_it, compiler = entry(replaced), entry(replaced_too), object()
    made_by_it.compiler = compiler
    pending = iter([made, made_by_it])
    region = Region(lambda region, func, args: next(pending))
    call = Dispatcher(region, f)
    assert call(1) == ("replaced", 1)
    assert _C.force_compiler(compiler) is None
    try:
        assert call(1) == ("replaced too", 1) and call(2) == ("replaced too", 2)
        assert region.serving(f.__code__, f.__globals__) == [made_by_it]
    finally:
        assert _C.force_compiler(None) is compiler
    assert call(2) == ("replaced", 2) and region.serving(f.__code__, f.__globals__) == [made]
    assert set(region.entries()) == {made, made_by_it} and region.serving(fresh_code(original), {}) == []


def test_an_entry_is_installed_for_its_own_compiler():
    f, compiler = fresh(original), object()
    region = Region(Recorder())
    call, made = Dispatcher(region, f), entry(replaced)
    made.compiler = None
    assert made.compiler is None
    made.compiler = compiler
    region.install(f.__code__, f.__globals__, made)
    assert call(1) == ("original", 1)
    _C.force_compiler(compiler)
    try:
        assert call(1) == ("replaced", 1)
    finally:
        _C.force_compiler(None)


def test_the_last_hit_stands_in_front():
    f = fresh(original)
    made = [entry(replaced, lambda x, n=n: x == n) for n in range(4)]
    pending = iter(made)
    region = Region(lambda region, func, args: next(pending))
    call = Dispatcher(region, f)
    for n in range(4):
        call(n)
    assert region.entries() == made[::-1]
    call(1)
    assert region.entries() == [made[1], made[3], made[2], made[0]]
    call(1)
    assert region.entries()[0] is made[1]


def test_an_invalid_entry_is_not_hit_and_is_dropped():
    f = fresh(original)
    pending = [entry(replaced_too), entry(replaced)]
    second, first = pending
    region = Region(lambda region, func, args: pending.pop())
    call = Dispatcher(region, f)
    call(1)
    first.valid = False
    assert region.entries() == []
    gone = weakref.ref(first)
    del first
    assert call(1) == ("replaced too", 1)
    assert region.entries() == [second]
    assert gone() is None


def test_nothing_is_decided_where_all_entries_have_died():
    f = fresh(original)
    pending = [entry(replaced, lambda x: x == 2), entry(replaced, lambda x: x == 1)]
    made = list(pending)
    asked = []
    region = Region(lambda region, func, args: pending.pop() if pending else None, lambda entries: asked.append(entries))
    call = Dispatcher(region, f)
    call(1), call(2)
    for each in made:
        each.valid = False
    asked.clear()
    assert call(1) == ("original", 1) and not asked


def test_an_entry_that_becomes_invalid_during_its_own_check_is_not_run():
    f = fresh(original)

    def check(x):
        made.valid = False
        return True

    made = entry(replaced, check)
    pending = iter([made, None])
    call = Dispatcher(Region(lambda region, func, args: next(pending)), f)
    call(0)
    assert call(1) == ("original", 1)


def test_clear_during_a_check_is_safe():
    f = fresh(original)
    region = Region(lambda region, func, args: entry(replaced, check))

    def check(x):
        region.clear()
        return True

    call = Dispatcher(region, f)
    assert [call(n)[1] for n in range(5)] == list(range(5))


def test_install_during_a_check_is_safe():
    """A check_fn that calls the same dispatcher changes the entries under the search."""
    f = fresh(original)
    made = []

    def answer(region, func, args):
        wanted = args[0]

        def check(x):
            if x >= 100:
                call(x // 100)
            return x == wanted

        made.append(entry(replaced, check))
        return made[-1]

    region = Region(answer)
    call = Dispatcher(region, f)
    for n in (1, 2, 300, 400, 1, 300, 2):
        assert call(n) == ("replaced", n)
    assert {id(e) for e in region.entries()} == {id(e) for e in made}


@pytest.mark.parametrize("wrong", [1, (), True, "SKIP"])
def test_another_answer_is_a_type_error(wrong):
    call = Dispatcher(Region(lambda region, func, args: wrong), fresh(original))
    with pytest.raises(TypeError, match="Entry, None or SKIP"):
        call(1)


def test_anything_but_true_is_a_miss():
    for answer in (1, "yes", None, False, [1]):
        f = fresh(original)
        pending = iter([entry(replaced, lambda x, answer=answer: answer), None])
        call = Dispatcher(Region(lambda region, func, args, pending=pending: next(pending)), f)
        call(1)
        assert call(1) == ("original", 1)


def test_entry_without_code_runs_the_original():
    f = fresh(original)
    ask = Recorder(original=entry(None, needs_hook=True))
    call = Dispatcher(Region(ask), f)
    assert call(1) == ("original", 1) and call(2) == ("original", 2)
    assert ask.names == ["original"]


def test_entries_go_when_their_code_object_dies():
    f = fresh(original)
    made = entry(replaced)
    ask = Recorder(original=made)
    region = Region(ask)
    Dispatcher(region, f)(1)
    ask.answers.clear()
    gone = weakref.ref(made)
    del made, f
    assert gone() is None
    assert region.entries() == [] and region.codes() == []


def test_functions_that_share_code_but_not_globals_do_not_mix():
    def read():
        return name  # noqa: F821

    one, two = (FunctionType(read.__code__, {"name": word}, "read") for word in ("one", "two"))

    def specialise(region, func, args):
        word = func.__globals__["name"]
        namespace: dict[str, object] = {}
        exec(f"def read(): return 'constant {word}'", namespace)
        return entry(namespace["read"], globals=func.__globals__)

    region = Region(specialise)
    calls = [Dispatcher(region, f) for f in (one, two)]
    assert [call() for call in calls] == ["constant one", "constant two"]
    assert [call() for call in calls] == ["constant one", "constant two"]
    assert len(region.entries(read.__code__)) == 2 and region.codes() == [read.__code__]


def test_two_regions_share_nothing():
    f = fresh(original)
    one = Dispatcher(Region(Recorder(original=entry(replaced))), f)
    two = Dispatcher(Region(Recorder(original=entry(replaced_too))), f)
    assert one(1) == ("replaced", 1) and two(1) == ("replaced too", 1) and one(1) == ("replaced", 1)


def test_a_region_its_entries_and_its_function_are_collected_together():
    class Model:
        pass

    model = Model()

    def f(x):
        return model, x

    def cached(x):
        return model, x

    made = Entry(always, fresh_code(cached), globals(), (), f.__closure__, needs_hook=False, name="f", qualname="f")
    region = Region(Recorder(f=made))
    model.call = Dispatcher(region, f)
    made.guarded_code = model  # entry -> model -> dispatcher -> region -> entry
    region_ref, entry_ref, model_ref = weakref.ref(region), weakref.ref(made), weakref.ref(model)
    assert model.call(1) == (model, 1)
    del region, made, f, cached
    model.call(2)
    model = None
    gc.collect()
    assert (region_ref(), entry_ref(), model_ref()) == (None, None, None)


def test_dropping_a_region_without_cycles_needs_no_collector():
    gc.disable()
    try:
        f = fresh(original)
        region = Region(Recorder(original=entry(replaced)))
        Dispatcher(region, f)(1)
        gone = weakref.ref(region)
        del region
        assert gone() is None
    finally:
        gc.enable()


def test_many_code_objects_come_and_go():
    region = Region(lambda region, func, args: entry(replaced))
    kept = []
    for n in range(300):
        f = fresh(original)
        assert Dispatcher(region, f)(n) == ("replaced", n)
        if n % 3 == 0:
            kept.append(f)
    del f
    assert set(region.codes()) == {f.__code__ for f in kept}
    assert all(Dispatcher(region, f)(1) == ("replaced", 1) for f in kept)
    assert len(region.entries()) == 100


def test_entry_refuses_what_cannot_run():
    def varargs(*args):
        pass

    def keyword_only(*, k):
        pass

    for wrong in (varargs, keyword_only):
        with pytest.raises(ValueError, match="plain positionals"):
            entry(wrong)
    with pytest.raises(TypeError, match="check_fn"):
        entry(replaced, 1)
    with pytest.raises(TypeError, match="cells"):
        entry(replaced, extras=(1,))
    with pytest.raises(ValueError, match="free variables"):
        Entry(always, replaced.__code__, {}, (), (1, 2), needs_hook=False, name="f", qualname="f")
    with pytest.raises(TypeError):
        Entry(always, 1, {}, (), None, needs_hook=False, name="f", qualname="f")
    with pytest.raises(TypeError):
        Region(None)
    with pytest.raises(TypeError):
        Region(print).skip(1)


def test_entry_keeps_whatever_the_python_side_hangs_on_it():
    made = entry(replaced)
    assert made.extra is None
    made.extra = made.guarded_code = marker = object()
    assert made.extra is marker and made.guarded_code is marker
    assert made.name == made.qualname == "replaced"
    assert (made.needs_hook, made.valid, made.hits) == (False, True, 0)
    assert weakref.ref(made)() is made
    assert "replaced" in repr(made) and "Region" in repr(Region(print)) and repr(_C.SKIP) == "SKIP"


def test_a_region_is_told_of_hits_and_misses_and_may_make_a_miss_of_a_hit():
    f = fresh(original)
    ask = Recorder(original=entry(replaced))
    region = Region(ask)
    call = Dispatcher(region, f)
    assert region.agree is None
    told = []

    def agree(of, function, hit):
        assert of is region and function is f
        told.append(hit)
        return len(told) < 3

    region.agree = agree
    assert call(1) == ("replaced", 1) and call(2) == ("replaced", 2)
    ask.answers["original"] = entry(replaced_too)
    assert call(3) == ("replaced too", 3)
    assert told == [False, True, True]
    assert [each.hits for each in region.entries()] == [0, 1]
    region.agree = None
    assert call(4) == ("replaced too", 4) and len(told) == 3


def test_an_error_in_agree_is_the_error_of_the_call():
    region = Region(Recorder(original=entry(replaced)))
    call = Dispatcher(region, fresh(original))
    call(1)

    def agree(of, function, hit):
        raise OSError("no other process")

    region.agree = agree
    with pytest.raises(OSError, match="no other process"):
        call(1)
    with pytest.raises(TypeError, match="agree must be callable or None, not int"):
        region.agree = 3
    del region.agree
    assert region.agree is None and call(1) == ("replaced", 1)


def test_agree_goes_with_its_region():
    region = Region(Recorder())
    region.agree = functools.partial(print, region)
    gone = weakref.ref(region)
    del region
    gc.collect()
    assert gone() is None
