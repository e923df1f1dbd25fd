"""Functions that check guards in Python. C nearly always decides alone, so each is printed and compiled when first called."""

from __future__ import annotations

import copy
import threading
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
        assert isinstance(printed, Unprinted)
        return OnDemand(printed.with_objects(others), self._name, self._filename)

    def printed_now(self) -> OnDemand:
        """The same, after its text was printed."""
        self.printed()
        return self

    def __call__(self, *args: Any) -> Any:
        function = self._function
        if function is None:
            function = define(self.printed(), self._name, self._filename)
            if self._asked:
                self._function = function
            self._asked = True
        return function(*args)


class Unprinted:
    """A text that is printed when it is asked for first, and kept in little memory."""

    def __init__(self, finish: Callable[[], str], namespace: dict[str, Any]) -> None:
        """`finish` gives the text, and may add to the namespace. It is called once."""
        self._text = _Text(finish)
        self._namespace = namespace
        self._others: Mapping[int, Any] = {}

    def with_objects(self, others: Mapping[int, Any]) -> Unprinted:
        """The same text, with other objects in place of some. `others`: by the ids of those."""
        made = copy.copy(self)
        made._others = {**others, **{known: others.get(id(value), value) for known, value in self._others.items()}}
        return made

    @property
    def namespace(self) -> dict[str, Any]:
        """What its names stand for; those that only the rest of the text needs are missing until it is printed."""
        return {name: self._others.get(id(value), value) for name, value in self._namespace.items()}

    def __call__(self) -> Printed:
        text = self._text()
        return text, self.namespace


class _Text:
    """What all copies of a function share: its text, which is made once."""

    def __init__(self, finish: Callable[[], str]) -> None:
        self._finish: Callable[[], str] | None = finish
        self._packed = b""
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            if self._finish is not None:
                self._packed = zlib.compress(self._finish().encode(), 1)
                self._finish = None
        return zlib.decompress(self._packed).decode()
