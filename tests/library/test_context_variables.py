"""Context variables that the traced program makes, and tokens."""

from __future__ import annotations

import contextvars

import torch

from tests.support import captured, check
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(3.0)
KNOWN: contextvars.ContextVar[int] = contextvars.ContextVar("KNOWN")


def test_a_variable_that_is_made_inside():
    def fn(x):
        scale, empty = contextvars.ContextVar("scale", default=3), contextvars.ContextVar("empty")
        before = scale.get()
        token = scale.set(5)
        y = x * scale.get()
        inside = token.old_value is contextvars.Token.MISSING, token.var is scale, scale.set(6).old_value
        scale.reset(token)
        try:
            empty.get()
        except LookupError as error:
            missing = type(error)
        return y + scale.get(), before, inside, missing, empty.get(7), scale.name

    captured(fn, X)


def test_one_that_leaves_the_frame_has_the_value_that_was_set():
    def fn(x):
        scale = contextvars.ContextVar("scale", default=[1])
        other = contextvars.ContextVar("other")
        other.set(4)
        return x + 1, scale, other

    traced = compiled(fn, Settings(backend="eager", name="check", fullgraph=True))
    _, scale, other = traced(X)
    assert scale.get() == [1] and scale.name == "scale" and other.get() == 4
    assert traced(X)[1] is not scale


def test_the_old_value_of_a_token():
    def fn(x):
        token = KNOWN.set(2)
        old = token.old_value
        KNOWN.reset(token)
        return x + 1, old if isinstance(old, int) else old is contextvars.Token.MISSING

    def of_value(x):
        return contextvars.copy_context().run(lambda: (KNOWN.set(8), fn(x))[1])

    captured(fn, X)
    traced = compiled(fn, Settings(backend="eager", name="check"))
    assert traced(X)[1] is True
    token = KNOWN.set(8)
    assert traced(X)[1] == 8
    KNOWN.reset(token)
    assert traced(X)[1] is True
    check(of_value, X)
