"""`Decimal`, whose operations depend on the thread's context (`effects.decimal_contexts`)."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

from tracer.effects.decimal_contexts import computing
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import ConstantVariable, fold
from tracer.variables.values.dates import LibraryValueVariable, reduced_value

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


class DecimalVariable(LibraryValueVariable):
    """A value of `Decimal`."""

    __slots__ = ()

    def hash_key(self, tx: Tracer) -> Any:
        if self.value.is_nan():
            unsupported("identity-of-a-value", left=self.describe(), right="a key")
        return super().hash_key(tx)

    def text(self, tx: Tracer, kind: str) -> str:
        with computing(tx):
            return super().text(tx, kind)

    def format(self, tx: Tracer, spec: str) -> str:
        if spec.endswith("n"):  # by the locale
            unsupported("unsupported-method", value=self.describe(), name=f"__format__ with {spec!r}")
        with computing(tx):
            return format(self.value, spec)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in ("__reduce_ex__", "__reduce__"):
            return reduced_value(tx, self, name, args)
        given = (*args, *kwargs.values())
        method = getattr(self.value, name, None)
        if name in _AS_AN_OBJECT or method is None or not all(value.is_constant() for value in given):
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name == "__format__":
            return ConstantVariable(self.format(tx, *(value.constant() for value in args)))
        return fold(tx, method, *(value.constant() for value in args), **{k: v.constant() for k, v in kwargs.items()})


_AS_AN_OBJECT = frozenset(vars(object)) - {
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__str__", "__repr__", "__format__"
}  # fmt: skip
VALUE_CLASSES: dict[type, type[LibraryValueVariable]] = {decimal.Decimal: DecimalVariable}
