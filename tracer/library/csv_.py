"""csv: CPython's own readers and writers, on stand-ins for the iterator or the file of the program, which is traced."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.iteration import IteratorVariable
from tracer.variables.values.constant import NONE, SCALARS, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

_DIALECTS = ("excel", "excel-tab", "unix")


def _dialect(value: VariableTracker) -> Any:
    """A dialect of csv itself, by its name or its class. The program may change its own ones."""
    if isinstance(value, ClassVariable) and value.value in (csv.Dialect, csv.excel, csv.excel_tab, csv.unix_dialect):
        return value.value
    if not value.is_none() and value.constant() not in _DIALECTS:
        unsupported("unsupported-builtin", function=f"csv with the dialect {value.describe()}")
    return value.constant()


class _Format:
    """How lines are written: a dialect, and what is given by name."""

    def __init__(self, dialect: VariableTracker, options: dict[str, VariableTracker]) -> None:
        self.dialect = _dialect(dialect)
        self.options = {name: value.constant() for name, value in options.items()}

    def on(self, tx: Tracer, make: Callable[..., Any], end: Any) -> Any:
        return tx.run_now(make, end, *(() if self.dialect is None else (self.dialect,)), **self.options)

    def reconstruct(self, cg: ValueCodegen, make: Callable[..., Any], end: VariableTracker) -> None:
        loads = [functools.partial(cg.load, end)]
        if self.dialect is not None:
            loads.append(functools.partial(cg.load_object, self.dialect))
        options = {name: functools.partial(cg.load_const, value) for name, value in self.options.items()}
        cg.call_object(make, *loads, **options)


class _Lines:
    """Gives a reader the items of a traced iterator."""

    def __init__(self, tx: Tracer, iterator: VariableTracker) -> None:
        self._tx = tx
        self._iterator = iterator

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> Any:
        line = self._iterator.next(self._tx)
        if line is None:
            raise StopIteration
        return line.constant()


class ReaderVariable(IteratorVariable):
    """csv.reader(iterator)"""

    def __init__(self, tx: Tracer, iterator: VariableTracker, written_as: _Format) -> None:
        self.iterator = iterator
        self.written_as = written_as
        self._step = tx.break_step()
        self.value = written_as.on(tx, csv.reader, _Lines(tx, iterator))

    def python_type(self) -> type:
        return type(self.value)

    def children(self) -> Iterable[VariableTracker]:
        return (self.iterator,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "line_num":
            return ConstantVariable(self.value.line_num)
        return super().get_attr(tx, name)

    def advance(self, tx: Tracer) -> VariableTracker | None:
        try:
            return tx.literal(next(self.value))
        except StopIteration:
            return None
        except csv.Error as error:
            tx.raise_error(csv.Error, *error.args)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.value.line_num:  # a new one would count anew
            unsupported("cannot-reconstruct", break_step=self._step, value="a csv.reader that has read")
        self.written_as.reconstruct(cg, csv.reader, self.iterator)


class _File:
    """Passes what a writer writes to a traced object."""

    def __init__(self, tx: Tracer, target: VariableTracker) -> None:
        self._tx = tx
        self._target = target
        self.given: VariableTracker = NONE  # what the last call of `write` gave

    def write(self, text: str) -> None:
        self.given = self._target.call_method(self._tx, "write", [ConstantVariable(text)], {})


class WriterVariable(VariableTracker):
    """csv.writer(target)"""

    def __init__(self, tx: Tracer, target: VariableTracker, written_as: _Format) -> None:
        self.target = target
        self.written_as = written_as
        self._file = _File(tx, target)
        self.value = written_as.on(tx, csv.writer, self._file)

    def python_type(self) -> type:
        return type(self.value)

    def children(self) -> Iterable[VariableTracker]:
        return (self.target,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("writerow", "writerows"):
            return tx.bound_builtin_method(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if kwargs or len(args) != 1 or name not in ("writerow", "writerows"):
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name == "writerow":
            return self._write(tx, args[0])
        rows = args[0].iterate(tx)
        while (row := rows.next(tx)) is not None:
            self._write(tx, row)
        return NONE

    def _write(self, tx: Tracer, row: VariableTracker) -> VariableTracker:
        fields = [field.constant() for field in row.iterate(tx).unpack(tx)]
        if not all(type(field) in SCALARS for field in fields):  # the text of others may be the program's
            unsupported("unsupported-method", value=self.describe(), name="writerow")
        try:
            self.value.writerow(fields)
        except csv.Error as error:
            tx.raise_error(csv.Error, *error.args)
        return self._file.given

    def reconstruct(self, cg: ValueCodegen) -> None:
        self.written_as.reconstruct(cg, csv.writer, self.target)


@models(csv.reader)
def _reader(tx: Tracer, csvfile: VariableTracker, dialect: VariableTracker = NONE, **options: VariableTracker) -> VariableTracker:
    return ReaderVariable(tx, csvfile.iterate(tx), _Format(dialect, options))


@models(csv.writer)
def _writer(tx: Tracer, csvfile: VariableTracker, dialect: VariableTracker = NONE, **options: VariableTracker) -> VariableTracker:
    return WriterVariable(tx, csvfile, _Format(dialect, options))
