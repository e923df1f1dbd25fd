"""Immutable values of libraries: dates, times and their differences (`datetime`), and members of the enums of torch's bindings.
Operations that read the clock, the local time zone or the locale (names of days, say) are left to CPython."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.text import Rendered
from tracer.variables.values.constant import ConstantVariable, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_PURE = frozenset(
    "ctime isoformat weekday isoweekday toordinal replace utcoffset tzname dst date time timetz total_seconds strftime "
    "__format__ __str__ __repr__ __hash__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __floordiv__ __mod__ "
    "__divmod__ __neg__ __pos__ __abs__ __bool__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__".split()
)
_IN_ANY_LANGUAGE = re.compile(r"(?:[^%]|%[YmdHMSfjyUWuwGVz%])*", re.DOTALL)


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
        if not _IN_ANY_LANGUAGE.fullmatch(spec):
            unsupported("unsupported-method", value=self.describe(), name=f"__format__ with {spec!r}")
        return format(self.value, spec)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        given = (*args, *kwargs.values())
        if name not in _PURE or not all(value.is_constant() for value in given):
            unsupported("unsupported-method", value=self.describe(), name=name)
        constants = [value.constant() for value in args]
        if name in ("strftime", "__format__") and not all(type(c) is str and _IN_ANY_LANGUAGE.fullmatch(c) for c in constants):
            unsupported("unsupported-method", value=self.describe(), name=name)
        named = {key: value.constant() for key, value in kwargs.items()}
        return fold(tx, getattr(self.value, name), *constants, **named)
