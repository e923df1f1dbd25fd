"""str(), repr() and formatting of tracked values.

CPython does the formatting itself, on the `form` of each value: a plain Python value in which a stand-in (`Rendered`)
replaces each part that is not constant. Its `__str__`, `__repr__` and `__format__` trace those of the part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tracer.errors import Unsupported
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import ObservedException, VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


class Rendered:
    """Stands for a tracked value in CPython's formatting; nothing else can be done with it."""

    def __init__(self, tx: Tracer, value: VariableTracker) -> None:
        self._tx = tx
        self._value = value

    def __str__(self) -> str:
        return self._value.text(self._tx, "str")

    def __repr__(self) -> str:
        return self._value.text(self._tx, "repr")

    def __format__(self, spec: str) -> str:
        return self._value.format(self._tx, spec)

    def __getattr__(self, name: str) -> Any:
        """'{0.name}'.format(...)"""
        if name.startswith("_"):
            raise AttributeError(name)
        return form(self._tx, self._value.get_attr(self._tx, name))


def form(tx: Tracer, value: VariableTracker) -> Any:
    """The Python value that CPython formats in place of `value`. Classes of tracked values may define a method `form`; that of a
    container forms the parts too."""
    make: Callable[[VariableTracker, Tracer], Any] | None = getattr(type(value), "form", None)
    if make is not None:
        return make(value, tx)
    return value.constant() if value.is_constant() else Rendered(tx, value)


def plain_form(tx: Tracer, value: VariableTracker) -> Any:
    """The Python value: a constant, or built-in containers of constants. Anything else breaks the graph."""
    made = form(tx, value)
    todo = [made]
    while todo:
        part = todo.pop()
        if isinstance(part, Rendered):
            unsupported("not-a-constant", value=value.describe())
        if isinstance(part, Mapping):
            todo.extend(part.values())
        elif isinstance(part, (list, tuple, set, frozenset)):
            todo.extend(part)
    return made


def formatted(
    tx: Tracer, function: Callable[..., Any], args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """The text that `function` makes of the values, as a tracked value."""
    constant = all(value.is_constant() for value in (*args, *kwargs.values()))
    forms = [form(tx, value) for value in args]
    named = {name: form(tx, value) for name, value in kwargs.items()}
    try:
        result = function(*forms, **named)
    except (Unsupported, ObservedException):
        raise
    except Exception as error:
        if constant:
            tx.raise_caught(error)
        unsupported("format-of-runtime-value", value=", ".join(value.describe() for value in (*args, *kwargs.values())))
    return tx.literal(result)
