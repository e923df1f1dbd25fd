"""Functions that check guards in Python, printed and compiled when one of them is called."""

import sys
import types

import pytest
import torch

import tracer
from tests.guards.helpers import X, manager_of
from tracer.guards import on_demand
from tracer.guards.code import GroupPrinter
from tracer.guards.identity import NoneMatch, TypeMatch
from tracer.guards.on_demand import OnDemand, Unprinted
from tracer.guards.values import EqualsMatch
from tracer.sources.attributes import AttrSource
from tracer.sources.roots import ModuleGlobalsSource

TEXT, TWO = "def double(x):\n    return x * two\n", 2.0
NAMES = [f"name{index}" for index in range(8)]


@pytest.fixture
def module(monkeypatch):
    """A module with some globals, in `sys.modules`."""
    made = types.ModuleType("module_of_this_test")
    for name in NAMES:
        setattr(made, name, 1)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def test_a_function_is_kept_from_its_second_call_on(monkeypatch):
    defined = []
    define = on_demand.define
    monkeypatch.setattr(on_demand, "define", lambda *args: defined.append(args) or define(*args))
    printed = []
    double = Unprinted(lambda: printed.append(1) or TEXT, {"__builtins__": {}, "two": TWO, "other": 3})
    function = OnDemand(double, "double", "<test>")
    assert not defined and not printed and function.text.startswith("def double")
    assert [function(3), function(4), function(5)] == [6, 8, 10] and len(defined) == 2 and len(printed) == 1


def test_a_function_with_other_objects_shares_the_text():
    function = OnDemand(Unprinted(lambda: TEXT, {"__builtins__": {}, "two": TWO}), "double", "<test>")
    three, four = 3.0, 4.0
    with_three = function.with_objects({id(TWO): three})
    with_four = with_three.with_objects({id(three): four})
    assert [each(10) for each in (with_four, with_three, function)] == [40, 30, 20]


def test_the_text_of_groups_is_not_printed_by_a_trace(monkeypatch):
    printed = []
    of_group = GroupPrinter.__call__
    monkeypatch.setattr(GroupPrinter, "__call__", lambda self: printed.append(self) or of_group(self))
    model, x = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(4)]), torch.randn(2, 3)
    compiled = tracer.compile(model)
    assert torch.equal(compiled(x), model(x)) and not printed
    [entry] = tracer.region_of(compiled).entries()
    text = entry.guarded_code.manager.exec_text
    assert printed and "def ___look(self):" in text and "___look(self)" in text.partition("def check_fn(")[2]
    assert type(entry.check_fn.whole(model, x)) is tuple and entry.check_fn.whole(model, x.double()) is False


def test_groups_that_are_printed_late_look_where_the_trace_looked(module, monkeypatch):
    made = manager_of(*[EqualsMatch(ModuleGlobalsSource(module.__name__, name), 1) for name in NAMES])
    other = types.ModuleType(module.__name__)
    vars(other).update(vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, other)
    assert made.check_fn.whole(3) is True and made.check_fn(3) is True
    module.name5 = 2
    assert made.check_fn.whole(3) is False and made.check_fn(3) is False


def test_guards_that_c_checks_are_not_printed_by_a_trace(monkeypatch):
    printed = []
    check = EqualsMatch.check
    monkeypatch.setattr(EqualsMatch, "check", lambda self, code: printed.append(self) or check(self, code))
    made = manager_of(EqualsMatch(X, 3))
    assert made.check_fn(3) is True and made.check_fn(4) is False and not printed
    assert made.check_fn.whole(3) is True and made.check_fn.whole(4) is False and len(printed) == 1


def test_guards_that_c_cannot_check_look_where_the_trace_looked(module, monkeypatch):
    made = manager_of(EqualsMatch(ModuleGlobalsSource(module.__name__, "name5"), 1))
    other = types.ModuleType(module.__name__)
    vars(other).update(vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, other)
    module.name5 = 2
    assert made.check_fn(3) is False and made.check_fn.whole(3) is False


def test_guards_of_another_entry_are_printed_in_place_of_equal_ones():
    first, second = [
        manager_of(*[NoneMatch(AttrSource(X, name)) for name in NAMES], TypeMatch(X, types.SimpleNamespace)) for _ in range(2)
    ]
    second.share(first)
    [of_first], [of_second] = first._printers, second._printers
    assert len(of_second.guards) == 9 and all(a is b for a, b in zip(of_first.guards, of_second.guards))
