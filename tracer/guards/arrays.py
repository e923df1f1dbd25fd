"""Guards on NumPy's arrays and scalars: that torch can share their memory, and what they hold."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind
from tracer.guards.references import class_name
from tracer.sources.base import Source


def is_shareable_array(value: Any, cls: type, dtype: np.dtype[Any], writeable: bool = True) -> bool:
    """Whether a value is exactly a `cls` of that dtype, and a tensor can share its memory without a copy."""
    array: Any = value
    if type(value) is not cls or array.dtype != dtype:
        return False
    if cls is not np.ndarray:
        return True
    flags, size = array.flags, dtype.itemsize
    return flags.writeable is writeable and flags.aligned and all(step >= 0 and step % size == 0 for step in array.strides)


@guard_kind
class ArrayMatch(Guard):
    """An array, or a scalar of NumPy, of this dtype. A TENSOR_MATCH on its tensor guards sizes and strides."""

    source: Source
    cls: type
    dtype: str
    writeable: bool = True
    kind: ClassVar[str] = "ARRAY_MATCH"
    rank: ClassVar[int] = 0

    def check(self, code: CheckScope) -> str | None:
        check = code.const(is_shareable_array, "is_shareable_array")
        cls, dtype = code.const(self.cls, "cls"), code.const(np.dtype(self.dtype), "dtype")
        return f"{check}({code.read(self.source)}, {cls}, {dtype}{', False' * (not self.writeable)})"

    def lines(self) -> list[str]:
        writeable = ", writeable=False" * (not self.writeable)
        return [f"is_shareable_array({self.source.name}, numpy.{self.cls.__name__}, {self.dtype!r}{writeable})"]

    def explain(self, *seen: Any) -> Mismatch:
        kind = "" if self.writeable else "read-only "
        return _changed(self.source, f"{kind}{self.cls.__name__} of {self.dtype}", seen[0])


@guard_kind
class ScalarMatch(Guard):
    """A scalar of NumPy has the same bits as in the trace."""

    source: Source
    cls: type
    data: bytes
    kind: ClassVar[str] = "NUMPY_SCALAR_MATCH"
    rank: ClassVar[int] = 1

    def check(self, code: CheckScope) -> str | None:
        value = code.read(self.source)
        return f"type({value}) is {code.const(self.cls, 'cls')} and {value}.tobytes() == {self.data!r}"

    def lines(self) -> list[str]:
        return [f"{self.source.name} == {self.cls.__name__}({np.frombuffer(self.data, self.cls)[0]})"]

    def explain(self, *seen: Any) -> Mismatch:
        return _changed(self.source, self.lines()[0], seen[0])


def _changed(source: Source, expected: str, seen: Any) -> Mismatch:
    dtype = f" of {seen.dtype}" if isinstance(seen, (np.ndarray, np.generic)) else ""
    kind = "read-only " if isinstance(seen, np.ndarray) and not seen.flags.writeable else ""
    now = f"{kind}{class_name(type(seen))}{dtype}"
    return Mismatch(f"{source.name} was {expected}, is {now}", expected, now)


@guard_kind
class NumpyErrorsMatch(Guard):
    """NumPy's handling of floating-point errors (`np.seterr`)."""

    settings: tuple[tuple[str, str], ...]
    kind: ClassVar[str] = "NUMPY_ERRORS_MATCH"

    def check(self, code: CheckScope) -> str | None:
        return f"{code.const(np.geterr, 'geterr')}() == {code.const(dict(self.settings), 'settings')}"

    def lines(self) -> list[str]:
        return [f"numpy.geterr() == {dict(self.settings)}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch("numpy.seterr was called", str(dict(self.settings)), str(np.geterr()))
