"""Stores to objects are replayed object by object: a class attribute that changes how stores behave comes last."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support import check

X = torch.ones(2)


class Marks:
    """A data descriptor that is seen to be called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = "marked", value


def a_descriptor_behind_a_store(x: torch.Tensor) -> Any:
    class Made:
        pass

    made = Made()
    made.a = 1
    Made.a = Marks("a")
    before = dict(made.__dict__)
    made.a = 2
    return x + 1, before, made.__dict__


def a_descriptor_of_the_metaclass(x: torch.Tensor) -> Any:
    class Meta(type):
        pass

    class Made(metaclass=Meta):
        pass

    Made.a = 42
    Meta.a = Marks("a")
    return x + 1, Made.a


def a_setattr_behind_a_store(x: torch.Tensor) -> Any:
    class Made:
        pass

    made = Made()
    made.a = 1
    Made.__setattr__ = lambda self, name, value: object.__setattr__(self, name, ("marked", value))
    made.b = 2
    return x + 1, made.__dict__


def a_doc_that_is_a_descriptor(x: torch.Tensor) -> Any:
    class Says:
        def __get__(self, instance: Any, owner: type) -> str:
            return f"of {'the class' if instance is None else 'an instance'} {owner.__name__}"

    class Made:
        __doc__ = Says()

    return x + 1, Made.__doc__, Made().__doc__


@pytest.mark.parametrize(
    "fn", [a_descriptor_behind_a_store, a_descriptor_of_the_metaclass, a_setattr_behind_a_store, a_doc_that_is_a_descriptor]
)
def test_stores_do_what_they_did_when_they_were_made(fn):
    check(fn, X)
