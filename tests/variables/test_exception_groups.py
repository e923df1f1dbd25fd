"""Exception groups: making them, taking them apart, and `except*`."""

from __future__ import annotations

import sys

import pytest
import torch

import tracer
from tests.support import captured, check

X = torch.arange(3.0)


class Numbered(ExceptionGroup):
    def __new__(cls, message, exceptions, number=0):
        made = super().__new__(cls, message, exceptions)
        made.number = number
        return made

    def derive(self, exceptions):
        return Numbered(self.message, exceptions, self.number + 1)


def told(group):
    """All visible parts of an exception, and of the exceptions in it."""
    if group is None:
        return None
    parts = [told(each) for each in group.exceptions] if isinstance(group, BaseExceptionGroup) else []
    notes = list(getattr(group, "__notes__", ()))
    linked = group.__suppress_context__, type(group.__cause__).__name__, type(group.__context__).__name__
    return type(group).__name__, str(group), repr(group), group.args, linked, notes, group.__traceback__ is None, parts


def test_each_clause_takes_its_part_of_the_group():
    def f(x, log):
        try:
            raise ExceptionGroup("both", [KeyError("k"), ValueError("v"), KeyError("l")])
        except* KeyError as group:
            log.append((told(group), told(sys.exception())))
            x = x + len(group.exceptions)
        except* (ValueError, TypeError) as group:
            log.append((told(group), told(sys.exception())))
            x = x * 2
        return x * 1, sys.exception()

    captured(f, X, [])


def test_what_no_clause_takes_is_raised_on():
    def f(x, log):
        try:
            try:
                raise ExceptionGroup("both", [KeyError("k"), ExceptionGroup("in", [ValueError("v"), TypeError("t")])])
            except* KeyError as group:
                log.append(told(group))
            except* ValueError:
                log.append("value")
            finally:
                log.append("finally")
        except ExceptionGroup as rest:
            return x * 2, told(rest), told(rest.split(TypeError)[0])
        return x * 1

    captured(f, X, [])


def test_a_plain_exception_is_wrapped_for_the_clause():
    def f(x, log):
        try:
            raise ValueError("v")
        except* (KeyError, ValueError) as group:
            log.append((told(group), told(group.exceptions[0])))
        try:
            try:
                raise ValueError("v")
            except* KeyError:
                log.append("never")
        except ValueError as error:
            log.append(told(error))
        return x + 1

    captured(f, X, [])


@pytest.mark.parametrize("raised", ["raise", "raise group", "raise RuntimeError(1)", "raise RuntimeError(1) from group", "pass"])
@pytest.mark.parametrize("first", ["ValueError", "TypeError", "Exception", "RuntimeError"])
def test_what_clauses_raise_is_gathered(raised, first):
    text = f"""
def f(x, told):
    try:
        try:
            error = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [ValueError(2), TypeError(3)]), KeyError(4)])
            error.add_note("noted")
            raise error
        except* {first} as group:
            {raised}
        except* KeyError as group:
            {raised}
        except* ArithmeticError:
            raise AssertionError
    except Exception as error:
        return x + 1, told(error), told(error.__context__)
    return x * 1
"""
    names: dict = {}
    exec(text, names)
    captured(names["f"], X, told)


def test_a_clause_that_raises_the_plain_exception_again():
    def f(x):
        try:
            try:
                raise ValueError(1)
            except* ValueError:
                raise
        except ExceptionGroup as error:
            return x + 1, told(error)

    captured(f, X)


@pytest.mark.parametrize("matcher", [KeyError, (KeyError, TypeError), ExceptionGroup, RuntimeError, lambda e: "1" in str(e)])
def test_a_group_is_split_by_class_or_by_a_function(matcher):
    def f(x, matcher):
        inner = ExceptionGroup("in", [KeyError(1), ValueError(1)])
        inner.__cause__ = RuntimeError()
        group = ExceptionGroup("out", [inner, TypeError(2)])
        group.add_note("note")
        found, rest = group.split(matcher)
        return x + 1, told(group.subgroup(matcher)), told(found), told(rest), found is group

    captured(f, X, matcher)


def test_a_class_of_groups_says_how_it_is_derived():
    def f(x):
        group = Numbered("n", [KeyError(1), Numbered("m", [KeyError(2), ValueError(3)], 5)])
        found, rest = group.split(KeyError)
        try:
            raise group
        except* ValueError as part:
            number = part.number, part.exceptions[0].number
        except* KeyError as part:
            number += (part.number,)
        return x + found.number + rest.number, number, told(found)

    captured(f, X)


def test_what_a_group_holds_is_fixed_when_it_is_made():
    def f(x):
        held = [KeyError(1)]
        group = ExceptionGroup("g", held)
        held.append(ValueError(2))
        other = ExceptionGroup("h", (KeyError(3),))
        other.args = (1, 2)
        try:
            group.message = "other"
        except AttributeError as error:
            return x + 1, group, group.exceptions, other, group.args[1] is held, str(error), repr(other)
        return x * 1

    checked = captured(f, X)
    group, exceptions, other = checked.result[1:4]
    assert exceptions is group.exceptions and len(exceptions) == 1 and other.message == "h"


def test_a_group_that_escapes_refers_to_itself():
    def f(x):
        first = KeyError(1)
        group = ExceptionGroup("g", [first])
        first.__context__ = group
        return x + 1, group

    group = captured(f, X).result[1]
    assert group.exceptions[0].__context__ is group


@pytest.mark.parametrize("fail", ["", "[]", "'m', []", "'m', [1]", "1, [KeyError()]", "'m', 5", "'m', [KeyboardInterrupt()]"])
def test_what_is_no_group_is_refused(fail):
    text = f"""
def f(x):
    try:
        ExceptionGroup({fail})
    except (TypeError, ValueError) as error:
        return x + 1, str(error)
"""
    names: dict = {}
    exec(text, names)
    captured(names["f"], X)


def test_a_group_of_base_exceptions():
    def f(x):
        group = BaseExceptionGroup("g", [KeyError(1)])
        other = BaseExceptionGroup("g", [KeyError(1), KeyboardInterrupt()])
        try:
            group.split(5)
        except TypeError as error:
            return x + 1, type(group), type(other), told(other.subgroup(KeyError)), told(other), str(error)

    captured(f, X)


def test_a_group_that_existed_before_is_taken_apart():
    group = ExceptionGroup("g", [KeyError(1), ValueError(2)])

    def f(x):
        try:
            raise group
        except* KeyError as part:
            x = x + len(part.exceptions)
        except* ValueError:
            x = x * 2
        return x, told(group.subgroup(KeyError))[1]

    checked = check(f, X)
    assert not checked.breaks


@pytest.mark.parametrize("star", ["KeyError", "RuntimeError", "ExceptionGroup", "5", "(KeyError, int)"])
def test_a_clause_that_cannot_be(star):
    text = f"""
def f(x, log):
    try:
        try:
            raise ExceptionGroup("g", [KeyError(1)])
        except* {star}:
            log.append(1)
    except (TypeError, ExceptionGroup) as error:
        return x + 1, str(error)
    return x * 1
"""
    names: dict = {}
    exec(text, names)
    captured(names["f"], X, [])


def test_a_graph_breaks_inside_of_a_clause():
    def f(x, log):
        try:
            try:
                raise ExceptionGroup("g", [KeyError(1), ValueError(2), TypeError(3)])
            except* KeyError as group:
                x = x + 1
                tracer.graph_break()
                log.append((told(sys.exception()), told(group)))
                x = x * 3
            except* ValueError:
                tracer.graph_break()
                raise
            finally:
                tracer.graph_break()
                x = x - 1
        except ExceptionGroup as rest:
            return x + 2, told(rest), log
        return x * 1

    assert check(f, X, []).breaks
