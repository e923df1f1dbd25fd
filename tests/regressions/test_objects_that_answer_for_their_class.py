"""`isinstance` asks an object for its `__class__`, which may be Python code of the program: the tracer does not ask."""

from __future__ import annotations

from typing import Any

import torch

import tracer
from tests.support import breaks

X = torch.ones(2)
READ: list[str] = []


class Asked:
    def __getattribute__(self, name: str) -> Any:
        READ.append(name)
        return object.__getattribute__(self, name)


class WithDescriptor:
    attribute = Asked()


GLOBAL = Asked()


def test_an_object_that_notes_what_is_read_is_traced_unread() -> None:
    def f(x: torch.Tensor) -> Any:
        asked, instance = Asked(), WithDescriptor()
        print("break")
        kept = asked, GLOBAL, instance.attribute, WithDescriptor.attribute
        return x.sin(), [type(value) is Asked for value in kept]

    checked = breaks(f, X)
    assert checked.operations == ["sin"]
    READ.clear()
    tracer.optimize()(f)(X)
    assert READ == []
