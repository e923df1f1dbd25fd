"""What the program has dropped is gone when the code after a graph break runs."""

from __future__ import annotations

import gc
import weakref

import torch

import tracer
from tests.support import breaks, captured, check
from tests.support.finalisers import Finalised

X = torch.arange(6.0).reshape(2, 3)


@tracer.disable
def watched(log, value):
    log.append(weakref.ref(value))


@tracer.disable
def note(log):
    log[:] = [entry if isinstance(entry, bool) else entry() is None for entry in log]


class Noted:
    pass


@tracer.disable
def noting(log):
    return Finalised(log)


def halves(x):
    with torch.no_grad():
        yield x * 2
        yield x * 3


def test_an_intermediate_that_is_dropped_before_a_break():
    def f(x, log):
        y = x * 2
        z = y.sum()
        del y
        tracer.graph_break()
        return z + 1

    graphs = []

    class Watching:
        """A backend whose outputs are watched."""

        def __call__(self, gm, inputs):
            def run(*args):
                outputs = gm(*args)
                graphs.append([weakref.ref(output) for output in outputs])
                if len(graphs) == 2:
                    assert [output() is None for output in graphs[0]] == [False]
                return outputs

            return run

    compiled = tracer.compile(f, backend=Watching())
    assert torch.equal(compiled(X, []), f(X, []))
    assert [output() is None for output in graphs[0]] == [True]


def test_an_operand_of_the_breaking_instruction_dies_with_it():
    def f(x, log):
        y = x + 1
        noting(log)
        log.append("after")
        tracer.graph_break()
        log.append("end")
        return y

    breaks(f, X, [])


def test_what_is_kept_for_its_end_alone_lives_until_the_function_returns():
    def inner(x, log):
        guard = noting(log)  # noqa: F841
        x = x + 1
        tracer.graph_break()
        log.append("working")
        return x * 2

    def f(x, log):
        y = inner(x, log)
        log.append("returned")
        return y

    breaks(f, X, [])


def test_a_mode_that_an_iterator_keeps_ends_with_the_comprehension():
    def f(x):
        x = x.requires_grad_()
        first = [item for _, item in zip(range(1), halves(x))]
        return first, x * 2

    check(f, X)


def test_a_result_that_nobody_takes_dies_at_once():
    def f(x, log):
        watched(log, x + 1)
        note(log)
        return x * 2

    checked = breaks(f, X, [])
    assert checked.breaks


def test_a_tensor_that_a_callee_dropped_is_gone_when_it_returns():
    def inner(x, log):
        y = x + 1
        watched(log, y)
        return x * 2

    def f(x, log):
        z = inner(x, log)
        note(log)
        return z - 1

    breaks(f, X, [])


def test_weak_reference_to_what_a_variable_held_before():
    def fn(x):
        first = Noted()
        alive = weakref.ref(first)  # breaks the graph
        alive()
        first = None
        return x + 1, alive() is None

    assert check(fn, X).result[1]


def test_value_that_a_resume_function_overwrites_unread_dies_then():
    def fn(x):
        first = Noted()
        proxy = weakref.proxy(first)
        try:
            proxy.missing
        except AttributeError:
            pass
        first = None
        try:
            return x, proxy.missing
        except ReferenceError:
            return x + 1, "dead"

    assert breaks(fn, X).result[1] == "dead"


def test_dead_proxy_among_the_variables_of_a_frame():
    def fn(x):
        first = Noted()
        proxy = weakref.proxy(first)
        first = None
        gc.collect(0)
        gc.collect(0)
        try:
            return x, proxy.missing
        except ReferenceError:
            return x + 1, "dead"

    assert breaks(fn, X).result[1] == "dead"


def test_tensors_of_a_loop_with_a_break_are_freed_when_they_are_overwritten():
    def fn(xs):
        total, alive, most = 0, [], 0
        for x in xs:
            y = x * 2
            alive.append(weakref.ref(y))
            gc.collect(0)
            total = total + y.sum()
            most = max(most, sum(ref() is not None for ref in alive))
        return total, most

    xs = [X * number for number in range(8)]
    expected = fn(xs)[1]
    assert breaks(fn, xs).result[1] <= expected + 2


def test_what_torch_compile_notes_of_modules_is_no_code_of_the_program():
    torch.compile(torch.nn.Sequential(torch.nn.Tanh()), backend="eager")(X)  # from here on, it refers to each module weakly
    module = torch.nn.Tanh()
    assert any(reference.__callback__ for reference in weakref.getweakrefs(module))

    class Holder:
        pass

    def given_up(module, x):
        holder = Holder()
        holder.module = module
        del holder.module
        return module(x)

    captured(given_up, module, X)


def test_a_class_whose_slots_were_looked_at_dies_with_its_last_reference():
    class Slotted:
        __slots__ = ("size", "__weakref__")

    def fn(cls: type, x: torch.Tensor) -> tuple[torch.Tensor, list[object]]:
        return x + 1, [value for value in cls.__dict__.values() if callable(value) or value is None or hasattr(value, "__set__")]

    traced, other = tracer.optimize("eager")(fn), type("Other", (), {"__slots__": ("size", "__weakref__")})
    for cls in (Slotted, other):
        assert traced(cls, torch.ones(1))[1] == fn(cls, torch.ones(1))[1]
    del cls
    alive = weakref.ref(Slotted)
    del Slotted
    gc.collect()
    assert alive() is None
