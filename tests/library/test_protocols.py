"""isinstance with a @runtime_checkable protocol: which parts of an object count differs between versions of Python."""

from __future__ import annotations

import typing

import pytest
import torch

from tests.support import captured, check

X = torch.ones(3)


@typing.runtime_checkable
class HasValue(typing.Protocol):
    value: int


@typing.runtime_checkable
class HasMethod(typing.Protocol):
    def value(self): ...


@typing.runtime_checkable
class HasBoth(typing.Protocol):
    other: int

    def value(self): ...


class Own:
    def __init__(self, value=1):
        self.value = self.other = value


class OfClass:
    value = other = 1


class NoneOfClass:
    value = other = None


class Computed:
    def __getattr__(self, name):
        if name in ("value", "other"):
            return 1
        raise AttributeError(name)


class Raising:
    @property
    def value(self):
        raise AttributeError("none")


class GivesNone:
    @property
    def value(self):
        return None


class Slotted:
    __slots__ = ("value",)


class Methods:
    other = 3

    def value(self):
        return 1


class Derived(HasValue):
    pass


class OfParameter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.value = torch.nn.Parameter(X.clone())


class OfNumber(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.value = 3


OBJECTS = [
    Own(), Own(None), OfClass(), NoneOfClass(), Computed(), Raising(), GivesNone(), Slotted(), Methods(), Derived(),
    OfParameter(), OfNumber(), 3, "text", [], X, Own, len,
]  # fmt: skip


@pytest.mark.parametrize("protocol", [HasValue, HasMethod, HasBoth])
def test_what_counts_as_a_part_of_an_object(protocol):
    for value in OBJECTS:
        check(lambda x, value: (x + 1, isinstance(value, protocol)), X, value)


def test_a_protocol_that_the_trace_makes_is_checked_at_runtime():
    def fn(x):
        @typing.runtime_checkable
        class Here(typing.Protocol):
            size: int

            def method(self): ...

            @property
            def read(self): ...

        class Fits:
            size, read = 1, 2

            def method(self): ...

        fits = isinstance(Fits(), Here), isinstance(3, Here)
        return x + fits[0], fits, Here

    made = captured(fn, X).result[2]
    assert not isinstance(torch.Size(), made)
    with pytest.raises(TypeError, match="non-method members"):
        issubclass(int, made)


def test_a_protocol_with_values_that_the_trace_does_not_know_is_made_by_cpython():
    class Descriptor:
        def __get__(self, owner, cls):
            return 1

    def fn(x):
        @typing.runtime_checkable
        class Here(typing.Protocol):
            data = x + 1
            given = Descriptor()

        return x + isinstance(x, Here), Here.data

    check(fn, X)
