"""Exceptions raised, linked, looked into and handled inside, against CPython."""

from __future__ import annotations

import sys

import pytest
import torch

import tracer
from tests.support import captured

X = torch.arange(3.0)


class Own(Exception):
    def __init__(self, code, *, hint=None):
        super().__init__(f"code {code}")
        self.code = code
        self.hint = hint

    def __str__(self):
        return f"<{self.code}>"


class Quiet(ValueError):
    def __init__(self, *args):
        self.given = args  # and no call of the base class


class Holder:
    @property
    def broken(self):
        raise AttributeError("mine")

    @property
    def deep(self):
        return self.missing


def test_names_in_errors():
    of_properties = [lambda: getattr(Holder(), "broken")]
    if sys.version_info < (3, 12):  # where code that has run some times forgets the name
        of_properties.append(lambda: Holder().broken)

    def f(x):
        errors = []
        for fail in (
            lambda: x.nothing, *of_properties, lambda: Holder().deep, lambda: getattr(x, "none"),
            lambda: undefined, lambda: (3).foo,  # noqa: F821
        ):  # fmt: skip
            try:
                fail()
            except Exception as error:
                errors.append((type(error), str(error), error.name))
        return x + 1, errors

    captured(f, X)


def test_names_of_an_error_that_leaves():
    def f(x, holder):
        try:
            holder.nothing
        except AttributeError as error:
            return x + 1, error, error.obj is holder

    found = captured(f, X, Holder()).result[1]
    assert found.name == "nothing" and isinstance(found.obj, Holder)


def test_fields_of_the_classes_of_c():
    def f(x):
        errors = [
            StopIteration(5), StopIteration(), SystemExit(), SystemExit(3), SystemExit(1, 2), NameError("a", name="n"),
            AttributeError("a", name="n", obj=3), ImportError("a", name="m", path="p"), ImportError("a", "b"), KeyError("k"),
        ]  # fmt: skip
        return x + 1, errors, [(repr(e), str(e), e.args) for e in errors], errors[0].value, errors[4].code, errors[7].msg

    given = captured(f, X).result[1]
    assert [given[0].value, given[1].value, given[2].code, given[3].code, given[4].code] == [5, None, None, 3, (1, 2)]
    assert (given[5].name, given[6].name, given[6].obj, given[7].name, given[7].path) == ("n", "n", 3, "m", "p")
    assert given[7].msg == "a" and given[8].msg is None


def test_context_is_always_what_is_being_handled():
    def f(x):
        old = ValueError("old")
        old.__context__ = KeyError("before")
        try:
            raise TypeError("first")
        except TypeError:
            try:
                raise old
            except ValueError as error:
                return x + 1, error

    assert type(captured(f, X).result[1].__context__) is TypeError


def test_a_chain_of_contexts_does_not_become_a_cycle():
    def f(x):
        a, b, c = ValueError("a"), KeyError("b"), TypeError("c")
        try:
            raise a
        except ValueError:
            try:
                raise b
            except KeyError:
                try:
                    raise c
                except TypeError:
                    try:
                        raise a
                    except ValueError:
                        return x + 1, [a, b, c], sys.exc_info()[1] is a

    captured(f, X)


def test_raising_what_is_being_handled_changes_nothing():
    def f(x):
        try:
            try:
                raise ValueError("a")
            except ValueError as error:
                raise error
        except ValueError as again:
            return x + 1, again, again.__context__

    captured(f, X)


def test_an_exception_has_the_cause_that_it_was_raised_from():
    def f(x):
        found = []
        for cause in (None, KeyError, KeyError("k")):
            try:
                try:
                    raise ValueError("v")
                except ValueError:
                    raise TypeError("t") from cause
            except TypeError as error:
                found.append(error)
        error = OverflowError("set by hand")
        error.__cause__ = found[0]
        error.__context__ = found[1]
        kept = error.__suppress_context__
        error.__suppress_context__ = False
        return x + 1, found, error, kept

    captured(f, X)


def test_wrong_causes_and_contexts():
    def f(x):
        messages = []
        for name in ("__cause__", "__context__", "__traceback__", "__suppress_context__"):
            try:
                setattr(ValueError(), name, 3)
            except TypeError as error:
                messages.append(str(error))
        return x + 1, messages

    captured(f, X)


def test_an_exception_has_the_notes_that_were_added():
    def f(x):
        error = ValueError("v")
        error.add_note("one")
        error.add_note("two")
        try:
            error.add_note(3)
        except TypeError as wrong:
            return x + 1, error, error.__notes__, str(wrong)

    captured(f, X)


def test_exceptions_of_the_user():
    def f(x):
        found = []
        for make in (lambda: Own(3, hint="h"), lambda: Quiet(1, 2)):
            try:
                raise make()
            except Exception as error:
                found.append((error, error.args, str(error), repr(error)))
        return x + 1, found

    captured(f, X)


def test_outer_exceptions_are_seen():
    def f(x):
        try:
            raise ValueError("inner")
        except ValueError as error:
            return x + 1, error, error.__context__, sys.exc_info()[0], sys.exception() is error

    def g(x):
        return x + 1, sys.exception(), sys.exc_info()[:2]

    def h(x):
        raise  # noqa: PLE0704

    for function in (f, g, h):

        def run(x, fails, function=function):
            try:
                if fails:
                    raise KeyError("outer")
                return function(x)
            except KeyError:
                return tracer_of(function)(x)

        compiled = {}

        def tracer_of(function, compiled=compiled):
            return compiled.setdefault(function, tracer.compile(function, backend="eager"))

        for _ in range(2):
            try:
                raise KeyError("outer")
            except KeyError as outer:
                results = []
                for each in (function, tracer_of(function)):
                    try:
                        results.append(each(X)[1:])
                    except Exception as error:
                        results.append((error,))
                assert repr(results[0]) == repr(results[1])
                if isinstance(results[1][0], BaseException) and results[1][0] is not outer:
                    assert results[1][0].__context__ is outer
        results = []
        for each in (function, tracer_of(function)):
            try:
                results.append(each(X)[1:])
            except Exception as error:
                results.append((error, error.__context__))
        assert repr(results[0]) == repr(results[1])


@pytest.mark.parametrize("after_a_break", [False, True])
def test_an_import_error_that_is_initialised_again_forgets(after_a_break):
    def f(x):
        error = ImportError("first", name="name", path="path")
        if after_a_break:
            tracer.graph_break()
        shown = [(error.args, error.msg, error.name)]
        error.__init__()
        shown.append((error.args, error.msg, error.name))
        error.__init__("second", name="other")
        return x + 1, [*shown, (error.msg, error.name, error.path)]

    compiled = tracer.compile(f, backend="eager")
    with tracer.config.patch(convert_every_frame=True):
        assert compiled(X)[1] == f(X)[1]


def test_a_generator_is_resumed_where_something_else_is_handled():
    def gen(log):
        try:
            raise ValueError("in generator")
        except ValueError:
            yield sys.exception()
        yield sys.exception()
        try:
            raise TypeError("later")
        except TypeError as error:
            yield error.__context__

    def f(x):
        log = []
        g = gen(log)
        try:
            raise KeyError("one")
        except KeyError:
            log.append(next(g))
        try:
            raise IndexError("two")
        except IndexError:
            log.append(next(g))
        log.append(next(g))
        return x + 1, [repr(entry) for entry in log]

    captured(f, X)


def test_handled_before_a_finally_with_return():
    def f(x):
        log = []

        def early():
            try:
                raise ValueError
            finally:
                return 1

        def loop():
            for i in range(3):
                try:
                    if i == 0:
                        continue
                    if i == 1:
                        raise KeyError
                    return i
                except KeyError:
                    log.append("key")
                    continue
                finally:
                    log.append(i)

        def breaking():
            while True:
                try:
                    raise ValueError
                finally:
                    break
            return sys.exception()

        return x + 1, early(), loop(), breaking(), log

    captured(f, X)


class ToldTwice(SyntaxError):
    def __init__(self, *args):
        super().__init__(*args)
        self.count = len(args)


def errors_that_are_initialised_again():
    syntax = SyntaxError("first", ("a.py", 1, 2, "text", 3, 4))
    syntax.__init__("second", ("b.py", 5, 6, "other"))
    own = ToldTwice("first", ("a.py", 1, 2, "text"))
    own.__init__("second")
    text = UnicodeDecodeError("utf8", b"abc", 0, 1, "first")
    text.__init__("ascii", b"def", 1, 2, "second")
    group = ExceptionGroup("two", [syntax])
    group.__init__("two", [own])
    return syntax, own, text, group


def test_fields_of_an_error_that_is_initialised_again_are_those_of_the_second_time():
    def fields():
        syntax, own, text, group = errors_that_are_initialised_again()
        of_syntax = [(each.msg, each.filename, each.lineno, each.end_lineno, each.text, each.args) for each in (syntax, own)]
        return (
            of_syntax,
            own.count,
            text.encoding,
            text.object,
            text.start,
            text.reason,
            text.args,
            group.message,
            len(group.args),
        )

    assert tracer.compile(fields)() == fields()
