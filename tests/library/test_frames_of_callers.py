"""Builtins that look at the frame that calls them, and the namespaces of modules."""

from __future__ import annotations

import math
import sys

import pytest
import torch

import tracer
from tests.support import breaks, captured, check

X = torch.arange(3.0)
FACTOR = 5
WEIGHT = torch.ones(3)


def scaled(x, k):
    return x * k


def _given(x, k=2, *args, **kwargs):
    y = x + k
    c = 3
    return dict(list(locals().items())[1:]), (lambda: c)(), y


def _passed_on(x, k=2):
    return scaled(**locals())


def _with_cells(x):
    k = 2
    if len(x) > 5:
        unbound = 3  # noqa: F841
    return sorted(vars()), (lambda: k)(), x + 1


def _listed(x):
    b = a = 1
    return dir(), a + b, x + 1


@pytest.mark.parametrize("program", [_given, _passed_on, _with_cells, _listed])
def test_the_locals_of_a_frame_are_what_it_has_bound(program):
    captured(program, X)
    captured(lambda x: program(x), X)


def test_the_names_of_a_comprehension_are_not_bound_behind_it():
    def program(x):
        doubled = [each * 2 for each in (1, 2)]
        return {name: value for name, value in locals().items() if name != "x"}, x + doubled[0]

    check(program, X)


def test_what_is_bound_before_and_behind_a_break_is_there():
    def program(x):
        y = 1
        tracer.graph_break()
        z = 2
        return locals(), x + eval("y + z")

    check(program, X)


def test_a_local_that_cannot_be_traced_is_among_the_locals():
    def program(x):
        class Hashed:
            def __hash__(self):
                return hash(self.__class__)

        kept = {Hashed(): 1}
        exec("kept[2] = 3", locals())
        return x + len(kept)

    check(program, X)


def test_locals_that_are_brought_up_to_date_are_left_to_cpython():
    def twice(x):
        first = locals()
        y = 3
        again = locals()
        return x + y, sorted(first), first is again

    check(twice, X)
    if sys.version_info < (3, 13):
        breaks(twice, X)


def test_an_expression_in_a_text_sees_the_locals():
    class Stacked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer0, self.layer1 = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            for i in range(2):
                x = eval(f"self.layer{i}(x)")
            return x * eval("FACTOR + 1") + eval(" math.pi") + eval("scaled(WEIGHT, k=2)")

    module = Stacked()
    captured(lambda x: module(x), X)


def test_an_error_in_a_text_is_cpythons():
    def program(x):
        try:
            eval("nothing_of_this_name")
        except NameError as error:
            return x + 1, str(error), error.name

    captured(program, X)


TEXTS = ["[i for i in range(3)]", "(lambda: 3)()", "locals()['x']", "(y := 3)", "x +"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_with_a_frame_of_its_own_is_left_to_cpython(text):
    def program(x):
        try:
            return x + 1, eval(text)
        except SyntaxError as error:
            return x + 2, error.msg

    breaks(program, X)


def test_a_break_inside_of_a_text():
    def program(x):
        y = x + 1  # noqa: F841
        return eval("(y * 2, tracer.graph_break(), y * 3)")

    check(program, X)
    breaks(lambda x: (x * 2, program(x)), X)


def test_globals_are_read_by_name():
    def program(x):
        seen = globals()
        asked = "FACTOR" in seen, "NOTHING" in seen, seen.get("NOTHING", 3), seen is globals()
        return globals()["scaled"](x, seen["FACTOR"]), asked, getattr(sys.modules[__name__], "FACTOR"), vars(math)["pi"]

    captured(program, X)


def test_a_global_that_is_set_by_name_is_seen_by_the_code():
    def program(x):
        globals()["MADE"] = x + 1
        return MADE * 2, "MADE" in globals(), math.__dict__["e"]  # noqa: F821

    try:
        captured(program, X)
    finally:
        globals().pop("MADE", None)


def test_the_names_of_a_module_are_guarded_where_they_are_gone_through(monkeypatch):
    compiled = tracer.compile(lambda x: (x + 1, "a_new_name" in dir(math), "pi" in vars(math).keys()), fullgraph=True)
    assert compiled(X)[1:] == (False, True)
    monkeypatch.setattr(math, "a_new_name", 3, raising=False)
    assert compiled(X)[1:] == (True, True)
    captured(lambda x: (x + 1, [name for name in dir(math) if name.startswith("s")]), X)


def test_namespaces_are_compared():
    captured(lambda x: (x + 1, vars(math) == math.__dict__, vars(math) != vars(math)), X)
    breaks(lambda x: (x + 1, vars(math) == {}, vars(math) == dict(vars(math))), X)


def test_globals_that_are_passed_are_those_that_names_read():
    def fn(x, names):
        names["COUNT"] = names.get("COUNT", 0) + 1
        return x * COUNT, names is globals(), names["FACTOR"], "missing" in names  # noqa: F821

    traced = tracer.compile(fn, fullgraph=True)
    try:
        for count in (1, 2, 3):
            seen, *others = traced(X, globals())
            assert torch.equal(seen, X * count) and others == [True, FACTOR, False] and globals()["COUNT"] == count
    finally:
        globals().pop("COUNT", None)


def test_the_globals_of_a_function_are_those_of_its_module():
    captured(lambda x: (x + 1, scaled.__globals__ is globals(), scaled.__globals__["FACTOR"]), X)
