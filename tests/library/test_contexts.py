"""contextlib, traced through or left to CPython, against eager."""

from __future__ import annotations

import contextlib
import io

import pytest
import torch

import tracer
from tests.support import captured, check

X = torch.arange(3.0)


@contextlib.contextmanager
def noting(log, swallow=()):
    log.append("in")
    try:
        yield len(log)
    except swallow as error:
        log.append(error.args)
    finally:
        log.append("out")


class Closing:
    def __init__(self, log):
        self.log = log

    def close(self):
        self.log.append("closed")


class Decorating(contextlib.ContextDecorator):
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, *details):
        self.log.append("exit")


class Abstract(contextlib.AbstractContextManager):
    def __exit__(self, kind, error, trace):
        return kind is KeyError


def test_contextmanager():
    def f(x, log, fail):
        with noting(log, KeyError) as n:
            x = x + n
            if fail:
                raise KeyError("k", n)
            log.append("body")
        return x

    captured(f, X, [], False)
    captured(f, X, [], True)


def test_contextmanager_as_a_decorator():
    def f(x, log):
        @noting(log)
        def inner(y):
            return y * 2

        return inner(x) + inner(x)

    check(f, X, [])


def test_several_at_once():
    def f(x, log):
        with noting(log) as a, noting(log, ValueError) as b, contextlib.nullcontext(5) as c:
            x = x + a + b + c
            raise ValueError("v")
        return x

    captured(f, X, [])


def test_suppress_closing_and_nullcontext():
    def f(x, log):
        with contextlib.suppress(KeyError, IndexError):
            log.append("before")
            {}["missing"]
        with contextlib.closing(Closing(log)) as closing:
            log.append(closing.log is log)
        with contextlib.nullcontext():
            x = x + 1
        with Abstract() as entered:
            log.append(type(entered) is Abstract)
            raise KeyError
        return x

    check(f, X, [])


def test_exit_stack():
    def f(x, log, fail):
        with contextlib.ExitStack() as stack:
            n = stack.enter_context(noting(log))
            stack.enter_context(noting(log, KeyError))
            stack.callback(log.append, "callback")
            stack.push(lambda *details: log.append(details[0]))
            x = x + n
            if fail:
                raise KeyError("k")
        return x

    check(f, X, [], False)
    check(f, X, [], True)


def test_an_exit_stack_that_is_handed_on():
    def f(x, log):
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, "late")
            kept = stack.pop_all()
        log.append("early")
        kept.close()
        return x + 1

    check(f, X, [])


def test_context_decorator():
    def f(x, log):
        @Decorating(log)
        def inner(y):
            return y + 1

        with Decorating(log):
            return inner(x)

    check(f, X, [])


def test_redirect_stdout():
    def f(x):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print("inside")
            x = x + 1
        return x, out.getvalue()

    check(f, X)


@pytest.mark.parametrize("fail", [None, KeyError, ValueError])
def test_a_break_inside_several_contexts(fail):
    def f(x, log):
        with contextlib.ExitStack() as stack:
            stack.enter_context(noting(log, KeyError))
            with noting(log) as n, contextlib.suppress(IndexError):
                x = x + n
                tracer.graph_break()
                if fail is not None:
                    raise fail("inside")
                log.append("body")
            tracer.graph_break()
        return x * 2

    check(f, X, [])


def test_grad_mode_in_a_contextmanager_of_the_users():
    @contextlib.contextmanager
    def without_grad():
        with torch.no_grad():
            yield

    def f(x):
        x = x.requires_grad_()
        with without_grad():
            y = x * 2
            tracer.graph_break()
            z = y + x
        return y, z, x * 3

    check(f, X)


def test_an_exception_passes_through_contexts_with_its_traceback_and_context():
    def f(x, log):
        try:
            with noting(log), noting(log):
                try:
                    raise KeyError("first")
                except KeyError:
                    raise ValueError("second")
        except ValueError as error:
            return x + 1, error, error.__context__

    captured(f, X, [])


def test_a_context_that_fails_to_enter_or_leave():
    @contextlib.contextmanager
    def failing(where, log):
        if where == "enter":
            raise RuntimeError("enter")
        yield
        log.append("leaving")
        if where == "leave":
            raise RuntimeError("leave")
        if where == "twice":
            yield

    def f(x, log, where):
        try:
            with noting(log), failing(where, log):
                x = x + 1
        except RuntimeError as error:
            log.append(str(error))
        return x

    for where in ("enter", "leave", "twice", "never"):
        check(f, X, [], where)
