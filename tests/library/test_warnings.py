"""Warnings in traced code: what is given out, in which order, how often, and from which line."""

from __future__ import annotations

import re
import warnings

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support import breaks, captured, captured_made
from tests.support.graphs import graphs_of
from tests.support.processes import run_python

X = torch.arange(3.0)


def warned(fn, *args):
    """What a call warns of, and from where."""
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fn(*args)
    return [(str(w.message), w.category, w.filename, w.lineno) for w in caught]


def complains(x):
    warnings.warn("inner", DeprecationWarning)
    warnings.warn("of the caller", stacklevel=2)
    return x * 2


def program(x):
    warnings.warn("first")
    y = complains(x + 1)
    warnings.warn("last", FutureWarning)
    return y - 1


def test_warnings_come_in_order_once_a_call_with_their_lines():
    compiled, graphs = graphs_of(program)
    expected = warned(program, X)
    assert len(expected) == 4
    assert warned(compiled, X) == expected
    assert warned(compiled, X) == expected
    assert len(graphs) == 1


def test_the_filter_that_shows_a_line_once_is_honoured():
    compiled, _ = graphs_of(program)

    def count(fn):
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(3):
                fn(X)
        return [str(w.message) for w in caught]

    assert count(compiled) == count(program)
    assert len(count(compiled)) == 4


def test_warnings_that_are_errors_are_raised_where_they_stand():
    changes = []

    def fn(x):
        changes.append(1)
        warnings.warn("stop")
        changes.append(2)
        return x + 1

    watched = Watched(fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watched(X)
    assert changes == [1, 2, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(watched(X), UserWarning)
    assert changes == [1, 2, 1, 2, 1, 1]


def test_a_warning_about_a_value_that_only_the_graph_knows_breaks():
    def fn(x):
        warnings.warn(f"sum {x.sum()}")
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        breaks(fn, X)


def warns_of_callers(x):
    def inner(x, level):
        print(end="")
        warnings.warn("inner", stacklevel=level)
        print(end="")
        warnings.warn("inner again", stacklevel=level)
        return x.sin()

    def middle(x):
        y = inner(x * 2, 1)
        y = y + inner(y, 2)
        return (
            y
            + inner(y, 3)
            + inner(
                y + 1,
                4,
            )
        )

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = middle(
            x,
        )
    warnings.warn("outer", stacklevel=2)
    return y, [(str(item.message), item.filename, item.lineno) for item in caught]


def test_a_warning_of_a_caller_names_its_line_however_often_the_graph_broke():
    compiled, _ = graphs_of(warns_of_callers)
    found, outer = [], []
    for fn in (warns_of_callers, compiled, compiled):
        outer.append(warned(lambda x, fn=fn: found.append(fn(x)[1]), X))
    assert len(found[0]) == 8 and len({line for *_, line in found[0]}) == 5
    assert found[0] == found[1] == found[2]
    assert outer[0] == outer[1] == outer[2]


# -- filters -----------------------------------------------------------------------------------------------------------


def silenced(x):
    warnings.warn("before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("dropped")
        y = x + 1
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        warnings.warn("dropped", FutureWarning)
        y = y * 2
    warnings.warn("after")
    return y


def test_warnings_are_caught_in_one_graph():
    filters, shown = warnings.filters, warnings.showwarning
    before = list(filters)
    compiled, graphs = graphs_of(silenced)
    expected = warned(silenced, X)
    assert [text for text, *_ in expected] == ["before", "after"]
    for _ in range(3):
        assert warned(compiled, X) == expected
    assert len(graphs) == 1
    assert warnings.filters is filters and list(filters) == before and warnings.showwarning is shown


def test_the_line_that_is_shown_once_is_shown_again_after_filters_changed():
    def twice(x):
        for _ in range(2):
            warnings.warn("once")
            with warnings.catch_warnings():
                x = x + 1
        return x

    def count(fn):
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            fn(X)
            fn(X)
        return len(caught)

    assert count(graphs_of(twice)[0]) == count(twice)


def test_a_warning_inside_that_is_shown_breaks_the_graph():
    def some(x):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "no", UserWarning)
            warnings.warn("not shown")
            x = x + 1
            warnings.warn("shown")
            return x * 2

    compiled, graphs = graphs_of(some)
    expected = warned(some, X)
    assert [text for text, *_ in expected] == ["shown"]
    assert warned(compiled, X) == expected == warned(compiled, X)
    assert len(graphs) == 2


def test_filters_that_the_program_leaves_changed():
    def change(x):
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.filterwarnings("default", module="a.b")
        return x + 1

    def left(fn):
        with warnings.catch_warnings():
            before = warnings.filters
            fn(X)
            return warnings.filters is before, list(warnings.filters)

    compiled, graphs = graphs_of(change)
    assert left(compiled) == left(change) == left(compiled)
    assert len(graphs) == 1


# -- what the program records, or makes errors of ----------------------------------------------------------------------


def recorded_inside(x, size):
    def old(x):
        warnings.warn("old", DeprecationWarning, stacklevel=2)
        return x + 1

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(f"of size {size}")
        y = old(x)
        warnings.warn(FutureWarning("made"))
        warnings.simplefilter("ignore")
        warnings.warn("ignored")
    assert warnings.showwarning is warnings._showwarning_orig
    return y * len(caught), [(str(each.message), each.category, each.filename, each.lineno) for each in caught]


@pytest.mark.parametrize("dynamic", [None, True])
def test_warnings_that_are_recorded_inside_are_known(dynamic):
    for size in (3, 4):
        captured_made(recorded_inside, lambda size=size: ((torch.ones(size), size), {}), dynamic=dynamic)


def test_a_block_that_records_nothing_is_whole():
    def fn(x):
        with warnings.catch_warnings(record=True) as caught:
            y = x * 2
        return y + 1 if caught else y

    captured(fn, X)


def test_a_warning_that_is_made_an_error_inside_is_raised():
    def fn(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                x = x * 2
                warnings.warn("bad", RuntimeWarning)
                x = x * 3
            except RuntimeWarning as error:
                return x + 1, str(error), type(error)

    captured(fn, X)


def complaining(x):
    warnings.warn("of an operation")
    return x + 1


@pytest.mark.parametrize("enter", [{"record": True}, {"action": "error"}])
def test_an_operation_that_warns_as_it_is_traced_breaks_the_graph_where_the_program_hears_it(enter):
    operation = tracer.allow_in_graph(complaining)

    def fn(x):
        with warnings.catch_warnings(**enter) as caught:
            warnings.simplefilter("error" if caught is None else "always")
            y = operation(x * 2)
        return y, [str(each.message) for each in caught]

    breaks(fn, X)


def test_a_graph_that_warns_when_it_runs_leaves_the_call_to_cpython(monkeypatch):
    quiet = [True]

    def sometimes(x):
        if not quiet[0]:
            warnings.warn("now")
        return x + 1

    operation = tracer.allow_in_graph(sometimes)

    def fn(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = operation(x * 2)
        return y, [str(each.message) for each in caught]

    compiled, graphs = graphs_of(fn)
    assert compiled(X)[1] == []
    quiet[0] = False
    for _ in range(2):
        y, texts = compiled(X)
        assert y.equal(X * 2 + 1) and texts == ["now"]
    quiet[0] = True
    assert compiled(X)[1] == [] and len(graphs) == 1


def test_what_torch_warns_of_once_is_recorded_the_first_time():
    program = """
        import warnings, torch, tracer

        @tracer.optimize("eager")
        def fn(x):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                y = x.T + 1
            return y, len(caught)

        print([fn(torch.ones(2, 3, 4))[1] for _ in range(3)])
    """
    assert run_python(program).stdout.strip() == "[1, 0, 0]"


def test_a_warning_goes_where_stderr_is_redirected():
    program = """
        import contextlib, io, warnings, torch, tracer

        def fn(x):
            with contextlib.redirect_stderr(io.StringIO()) as buffer:
                warnings.warn("told")
            return x + 1, "told" in buffer.getvalue()

        warnings.simplefilter("always")
        compiled = tracer.compile(fn)
        print([run(torch.ones(2))[1] for run in (fn, compiled, compiled)])
    """
    assert run_python(program).stdout.strip() == "[True, True, True]"


def test_what_was_recorded_is_seen_at_once():
    def read(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("a")
            warnings.warn("b")
            y = x + len(caught)
            caught.clear()
            warnings.warn("c")
        return y, [str(item.message) for item in caught]

    compiled, _ = graphs_of(read)
    for _ in range(2):
        assert compiled(X)[0].equal(X + 2)
        assert compiled(X)[1] == ["c"]


def test_a_function_of_the_program_that_shows_warnings_runs_where_they_are_given(monkeypatch):
    seen = []

    def told(x):
        warnings.warn("now")
        return x + len(seen)

    compiled, _ = graphs_of(told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(X)
        warnings.simplefilter("always")
        compiled(X)
        monkeypatch.setattr(warnings, "showwarning", lambda *args, **kwargs: seen.append(args[0]))
        assert [int(compiled(X)[0]) for _ in range(3)] == [1, 2, 3]


def test_a_warning_of_a_flag_of_re_is_given_when_the_program_runs():
    def fn(x):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            warnings.warn("first")
            re.purge()
            re.compile("a", re.TEMPLATE)
        return x + 1, [str(warning.message) for warning in told]

    breaks(fn, torch.ones(2))
