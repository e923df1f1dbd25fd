"""Functions that check guards in Python. C nearly always decides alone, so each is printed and compiled when first called."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

Printed = tuple[str, dict[str, Any]]  # the text of a function, and what its names stand for


def define(printed: Printed, name: str, filename: str) -> FunctionType:
    """The function. It has the names that it uses and no others, so that it does not refer to itself."""
    text, namespace = printed
    defined: dict[str, Any] = {}
    exec(compile(text, filename, "exec", dont_inherit=True), defined)
    code = defined.pop(name).__code__  # popped: it refers to the dict
    used = {key: namespace[key] for key in code.co_names if key in namespace}
    return FunctionType(code, {"__builtins__": namespace["__builtins__"], **used}, name)


class OnDemand:
    """A function that is defined when it is called, and kept from the second time on: many are called once at most."""

    def __init__(self, printed: Callable[[], Printed], name: str, filename: str) -> None:
        self.printed = printed
        self._name, self._filename = name, filename
        self._function: FunctionType | None = None
        self._asked = False

    @property
    def text(self) -> str:
        return self.printed()[0]

    def with_objects(self, others: Mapping[int, Any]) -> OnDemand:
        """The same function, with other objects in place of some. `others`: by the ids of those."""
        printed = self.printed
        assert isinstance(printed, Packed)
        return OnDemand(printed.with_objects(others), self._name, self._filename)

    def __call__(self, *args: Any) -> Any:
        function = self._function
        if function is None:
            function = define(self.printed(), self._name, self._filename)
            if self._asked:
                self._function = function
            self._asked = True
        return function(*args)


class Packed:
    """A text that was printed already, in little memory."""

    def __init__(self, text: str, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self._text = zlib.compress(text.encode(), 1)

    def with_objects(self, others: Mapping[int, Any]) -> Packed:
        made = copy.copy(self)
        made.namespace = {name: others.get(id(value), value) for name, value in self.namespace.items()}
        return made

    def __call__(self) -> Printed:
        return zlib.decompress(self._text).decode(), self.namespace
