"""Warnings in traced code: what is given out, in which order, how often, and from which line."""

from __future__ import annotations

import re
import warnings

import pytest
import torch

from tests.soundness.watching import Watched
from tests.support import breaks
from tests.support.graphs import graphs_of

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


@pytest.mark.parametrize("options", ["record=True", "action='error'"])
def test_what_would_see_the_warnings_of_operations_breaks_the_graph(options):
    names = {"warnings": warnings}
    text = f"def f(x):\n    with warnings.catch_warnings({options}) as caught:\n        y = x + 1\n    return y, caught"
    exec(text, names)
    breaks(names["f"], X)


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
