"""Immutable values of libraries: dates, times and their differences (`datetime`), what `time` and `isocalendar` make of them, and
members of the enums of torch's bindings. Operations that read the clock, the local time zone or the locale (names of days, say)
are left to CPython."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.text import Rendered
from tracer.variables.values.constant import ConstantVariable, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_PURE = frozenset(
    "ctime isoformat weekday isoweekday isocalendar toordinal replace utcoffset tzname dst date time timetz timetuple "
    "utctimetuple total_seconds strftime "
    "__format__ __str__ __repr__ __hash__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __floordiv__ __mod__ "
    "__divmod__ __neg__ __pos__ __abs__ __bool__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__".split()
)
_PURE_WITH_A_ZONE = frozenset(("timestamp", "astimezone"))
_IN_ANY_LANGUAGE = re.compile(r"(?:[^%]|%[YmdHMSfjyUWuwGVz%])*", re.DOTALL)


def is_in_any_language(format: Any) -> bool:
    """Whether a format of `strftime` or `strptime` has no names of days or months and the like in it."""
    return type(format) is str and _IN_ANY_LANGUAGE.fullmatch(format) is not None


class LibraryValueVariable(ConstantVariable):
    """A value of a class in `LIBRARY_VALUES`, accepted by `is_guardable_constant` with all its parts."""

    __slots__ = ()

    def graph_arg(self) -> None:
        unsupported("not-a-graph-argument", value=self.describe())

    def form(self, tx: Tracer) -> Rendered:
        return Rendered(tx, self)

    def text(self, tx: Tracer, kind: str) -> str:
        return str(self.value) if kind == "str" else repr(self.value)

    def format(self, tx: Tracer, spec: str) -> str:
        if not is_in_any_language(spec):
            unsupported("unsupported-method", value=self.describe(), name=f"__format__ with {spec!r}")
        return format(self.value, spec)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in ("__reduce_ex__", "__reduce__"):
            return reduced_value(tx, self, name, args)
        given = (*args, *kwargs.values())
        if not self._is_pure(name, bool(given)) or not all(value.is_constant() for value in given):
            unsupported("unsupported-method", value=self.describe(), name=name)
        constants = [value.constant() for value in args]
        if name in ("strftime", "__format__") and not all(map(is_in_any_language, constants)):
            unsupported("unsupported-method", value=self.describe(), name=name)
        named = {key: value.constant() for key, value in kwargs.items()}
        return fold(tx, getattr(self.value, name), *constants, **named)

    def _is_pure(self, name: str, has_arguments: bool) -> bool:
        """Whether the method reads neither the clock nor the local time zone."""
        if name in _PURE_WITH_A_ZONE:
            zone = getattr(self.value, "tzinfo", None)
            return zone is not None and has_arguments is (name == "astimezone")
        return name in _PURE

    def iterate(self, tx: Tracer) -> VariableTracker:
        if isinstance(self.value, tuple):  # of `isocalendar` or `timetuple`
            return tx.literal(tuple(self.value)).iterate(tx)
        return super().iterate(tx)


def reduced_value(tx: Tracer, value: ConstantVariable, name: str, protocol: list[VariableTracker]) -> VariableTracker:
    """How to make it again: a class, and what to call it with."""
    parts = tx.run_now(getattr(value.value, name), *(number.constant() for number in protocol))
    if type(parts) is not tuple or len(parts) != 2 or not isinstance(parts[0], type):
        unsupported("unsupported-method", value=value.describe(), name=name)
    return tx.tuple_of([tx.class_variable(parts[0]), tx.literal(parts[1])])
