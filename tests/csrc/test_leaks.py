"""References and memory over many calls: each way through the extension leaves both as they were."""

from __future__ import annotations

import gc
import resource
import sys
import types

import pytest
import torch

from tests.csrc.entries import Recorder, entry, fresh
from tests.csrc.test_steady_call import Forwarding
from tests.support import collect_garbage
from tracer import _C
from tracer._C import SKIP, STEP, WORD, Dispatcher, GlobalState, Region, TensorMatch


def leaf(x, y=1):
    return x


def inner(x):
    return x


def calls_inner(x):
    return inner(x)


def missing(x, y):
    raise ValueError


def direct(argument):
    call = Dispatcher(Region(Recorder(leaf=entry(lambda x, y: x))), fresh(leaf))
    return lambda: (call(argument), call(argument, y=argument), call(x=argument))


def miss(argument):
    call = Dispatcher(Region(lambda region, func, args: None), fresh(leaf))
    return lambda: call(argument, argument)


def skipped(argument):
    call = Dispatcher(Region(lambda region, func, args: SKIP), fresh(calls_inner))
    return lambda: call(argument)


def hooked(argument):
    call = Dispatcher(Region(Recorder(inner=entry(lambda x: x))), fresh(calls_inner))
    call.region.skip(call.function.__code__)
    return lambda: call(argument)


def alternating(argument):
    made = [entry(lambda x, y: x, lambda x, y, n=n: y == n) for n in range(4)]
    call = Dispatcher(Region(lambda region, func, args: made[args[1]]), fresh(leaf))
    return lambda: [call(argument, n) for n in range(4)]


def decided(argument):
    """Decisions between entries, which are made anew each time, and decisions with wrong arguments."""
    steps = (
        (STEP.ROOT, -1, 0),
        (STEP.ROOT, -1, 1),
        (STEP.ATTR, 0, "value"),
        (STEP.ITEM, 1, 0),
        (STEP.CONST, -1, argument),
        (STEP.CELL_CONTENTS, 4, None),
    )
    features = (
        (0, ((1, WORD.INT, 0, 1),)),
        (3, ((2, WORD.INT, 0, 1), (1, WORD.SIZE, 0, 2))),
        (0, ((1, WORD.LENGTH, 0, 3),)),
        (0, ((1, WORD.TYPE, 0, 5),)),
    )
    least = -(2**63)

    def decide(entries):
        leaves = [(-1, (), (0,), -1, -1), (-1, (), (1,), -1, -1), (-1, (), (0, 1), -1, -1)]
        inner = [(feature, (least, 0), (2, 2), 2, 2) for feature in (1, 2, 3)]
        return _C.Decision(entries, steps, features, (*leaves, *inner, (0, (least, 1), (0, 1), 5, 4)))

    def run():
        made = [entry(lambda x, y: x, lambda x, y: y == 0), entry(lambda x, y: x, lambda x, y: y == 1)]
        call = Dispatcher(Region(lambda region, func, args: made.pop(0) if made else None, decide), fresh(leaf))
        for y in (0, 1, 0, 1, 2, "text", argument):
            call(argument, y)
        for bad in ((), ((0, (0,), (0,), 0, 0),), ((9, (least,), (0,), 0, 0),), ((-1, (), (5,), -1, -1),), (None,)):
            try:
                _C.Decision((argument,), steps, features, bad)
            except (ValueError, TypeError):
                pass

    return run


def listed(argument):
    """Checklists that hold, that fail, that leave guards to Python, that return tensors, and with wrong arguments."""
    x = torch.ones(2)
    match = TensorMatch(((torch.Tensor, _C.dispatch_keys(x), x.dtype, "cpu", -1, False, (2,), None),))
    steps = ((STEP.ROOT, -1, 0), (STEP.ROOT, -1, 1), (STEP.ITEM, 1, 0), (STEP.CONST, -1, argument))
    features = ((0, ((1, WORD.SIZE, 0, 2),)),)
    parts = [GlobalState(), _C.Counter(), 0, None, steps, (), features, ((0, 2, 9),), (), match, (2,), (0, 2), -1]

    def asked(*slots):
        return slots[1] is argument

    lists = [_C.Checklist(2, *parts, fetched, rest=rest, whole=asked)
             for fetched, rest in ((None, None), ((2, 0), None), (None, asked))]  # fmt: skip

    def run():
        for check in lists:
            for slots in ((argument, [x]), (argument, ()), (argument, argument), (x, [x]), (argument, [argument])):
                check(*slots)
        for place in range(len(parts)):
            try:
                _C.Checklist(2, *parts[:place], ((99, 99, 99, 99),), *parts[place + 1 :], None, rest=asked, whole=asked)
            except (TypeError, ValueError):
                pass
        return lambda: None

    return run


def passed_arguments(argument):
    """An argument in a tuple, in a dict, in neither; steps that make no sense."""
    base = ((STEP.ROOT, -1, 0), (STEP.ROOT, -1, 1))
    state = GlobalState(), _C.Counter(), 0, None
    nothing = (), (), (), (), None, (), (), -1

    def made(*key):
        return _C.Checklist(2, *state, (*base, (STEP.ARGUMENT, 1, *key)), *nothing, (2,), rest=None, whole=lambda *slots: False)

    check = made(("name", 0, 1))

    def run():
        for slots in (((1, argument), {}), ((), {"name": argument}), ((argument,), {}), ([argument], {}), ((), [argument])):
            found = check(*slots)
            assert (found == (argument,)) is (argument in slots[0][1:] or "name" in slots[1])
        for bad in ("name", ("name", 2, 0), ("name", -1, 0), ("name", 0, -1), (0, "name", 0), ("name", 0), argument):
            with pytest.raises(ValueError, match="step 2 is none"):
                made(bad)

    return run


def invalidated(argument):
    call = Dispatcher(Region(lambda region, func, args: entry(lambda x, y: x)), fresh(leaf))

    def run():
        call(argument)
        call.region.entries()[0].valid = False

    return run


def varargs(argument):
    def function(x, *args, k=None, **kwargs):
        return x

    call = Dispatcher(Region(Recorder(function=entry(lambda x, k, args, kwargs: x))), function)
    return lambda: call(argument, argument, argument, z=argument, k=argument)


def failing(argument):
    calls = [
        Dispatcher(Region(Recorder(leaf=entry(missing))), fresh(leaf)),
        Dispatcher(Region(lambda region, func, args: missing(*args)), fresh(leaf)),
    ]

    def run():
        for call in calls:
            try:
                call(argument)
            except ValueError:
                pass
            try:
                call(argument, nonsense=argument)
            except TypeError:
                pass

    return run


def failing_guard(argument):
    pending = [entry(leaf, missing)]
    call = Dispatcher(Region(lambda region, func, args: pending.pop() if pending else None), fresh(leaf))
    return lambda: call(argument)


def new_closures(argument):
    def make(value):
        def function(x):
            return value

        return function

    region = Region(Recorder(function=entry(make(None), extras=())))
    call = Dispatcher(region, make(argument))
    return lambda: call.with_closure((types.CellType(argument),))(argument)


def new_regions(argument):
    def run():
        f = fresh(leaf)
        region = Region(lambda region, func, args: entry(lambda x, y: x))
        Dispatcher(region, f)(argument)
        region.clear()
        Dispatcher(region, f)(argument)

    return run


def bound_method(argument):
    class Thing:
        method = Dispatcher(Region(Recorder(leaf=entry(lambda x, y: y))), fresh(leaf))

    thing = Thing()
    return lambda: thing.method(argument)


def handed_on(argument):
    """Calls that are forwarded in C, and calls for which Python is called because something has changed or nothing is known."""
    made = Forwarding(argument)

    def run():
        for arguments in ((), (argument,), (argument,) * 20):
            made(*arguments)
            made(*arguments, k=argument)
        made.owned = [argument]
        made(argument)
        Forwarding(argument)(argument)

    return run


WAYS = [direct, miss, skipped, hooked, alternating, invalidated, varargs, failing, failing_guard, new_closures,
        new_regions, bound_method, decided, listed, passed_arguments, handed_on]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_references_and_objects_stay(way):
    argument = object()
    run = way(argument)
    for _ in range(50):
        run()
    collect_garbage()
    before, none_before, objects = sys.getrefcount(argument), sys.getrefcount(None), len(gc.get_objects())
    for _ in range(2000):
        run()
    gc.collect()
    assert sys.getrefcount(argument) == before
    assert abs(sys.getrefcount(None) - none_before) < 200
    assert len(gc.get_objects()) - objects < 50
    assert _C.hook_count() == 0


def test_memory_is_flat_over_many_calls():
    x = torch.ones(4)
    spec = (torch.Tensor, _C.dispatch_keys(x), x.dtype, "cpu", -1, False, (4,), (1,))
    match, state = TensorMatch((spec,)), GlobalState()
    made = entry(lambda x, y: x, lambda x, y: state.check() and match(x))
    call = Dispatcher(Region(Recorder(leaf=made)), fresh(leaf))
    hooking = hooked(x)

    def run(n):
        for _ in range(n):
            call(x)
            call(x, y=2)
            hooking()

    run(5000)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(100_000)
    gc.collect()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 3000  # KB
    assert made.hits > 200_000


def test_checks_leave_references_as_they_were():
    x = torch.ones(2, 3, requires_grad=True)
    spec = (torch.Tensor, _C.dispatch_keys(x), x.dtype, "cpu", None, True, (2, 3), (3, 1))
    wrong = [torch.ones(2, 3), torch.ones(2, 4, requires_grad=True), 1, torch.ones(2, requires_grad=True)]
    match = TensorMatch((spec,))
    holder = types.SimpleNamespace(value=x)

    def run():
        for seen in (x, *wrong):
            match(seen)
            match.first_mismatch(seen)
        _C.raw_attr(holder, "value")
        _C.tensor_size(x, 0), _C.tensor_stride(x, 1), _C.tensor_storage_offset(x)
        _C.instance_dict(holder)
        _C.share_version(torch.empty(1), x)
        with torch.no_grad(), torch.device("meta"):
            state = GlobalState()
            state.check()
        state.changes()
        for bad in ((1, 2), "name"):
            try:
                TensorMatch((spec, bad))
            except TypeError:
                pass

    for _ in range(20):
        run()
    gc.collect()
    watched = [x, spec, x.dtype, torch.Tensor, None, True, holder, *wrong]
    before, objects = [sys.getrefcount(value) for value in watched], len(gc.get_objects())
    for _ in range(1000):
        run()
    gc.collect()
    after = [sys.getrefcount(value) for value in watched]
    assert all(abs(a - b) < 100 for a, b in zip(after, before)), list(zip(after, before))
    assert len(gc.get_objects()) - objects < 50
