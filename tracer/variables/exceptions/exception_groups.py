"""Exception groups: how they are made, split (`split`, `subgroup`, `derive`) and matched by `except*`, and what is raised after
the last `except*` clause."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeGuard

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines
from tracer.protocol.variable import VariableTracker, is_exception
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.functions.python_functions import FunctionVariable
from tracer.variables.text import form
from tracer.variables.values.constant import NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

_FIXED = ("message", "exceptions")
_METADATA = ("__traceback__", "__cause__", "__context__")
_Matches = Callable[[VariableTracker], bool]
_Halves = tuple[VariableTracker | None, VariableTracker | None]


class ExceptionGroupVariable(ExceptionVariable):
    """A group. Its message and exceptions are fixed when it is made, even if `args` is assigned later."""

    passed: type | None = None  # what a group that the trace made was given its exceptions in

    def base_method(
        self, tx: Tracer, base: type, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if base is BaseExceptionGroup and name in ("split", "subgroup", "derive") and len(args) == 1 and not kwargs:
            if name == "derive":
                return tx.class_variable(BaseExceptionGroup).call(tx, [self.field(tx, "message"), args[0]], {})
            found, rest = _split(tx, self, _matcher(tx, args[0]), keep_rest=name == "split")
            halves = [NONE if half is None else half for half in (found, rest)]
            return halves[0] if name == "subgroup" else TupleVariable(halves)
        return super().base_method(tx, base, name, args, kwargs)

    def initialize(self, tx: Tracer, base: type, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> None:
        if kwargs:
            unsupported("call-arguments", error=f"{base.__name__} takes no arguments by name")
        self.set_field(tx, "args", TupleVariable(args))

    def _base_text(self, tx: Tracer, base: type, name: str) -> str:
        if base is not BaseExceptionGroup:
            return super()._base_text(tx, base, name)
        if name == "__repr__":  # of Python 3.14: until then that of BaseException
            return self._own_repr(tx)
        count = len(self.exceptions(tx))
        return f"{form(tx, self.field(tx, 'message'))} ({count} sub-exception{'s' if count != 1 else ''})"

    def _own_repr(self, tx: Tracer) -> str:
        """It shows the exceptions, in a list where `args` have one in the second of two places, and else in a tuple. Of those
        that were passed as something else it keeps the text."""
        args = self.field(tx, "args").unpack(tx)
        passed = args[1].python_type() if len(args) == 2 else tuple
        if (self.passed or passed) not in (list, tuple):
            unsupported("unsupported-method", value=self.describe(), name="__repr__")
        message = form(tx, self.field(tx, "message"))
        exceptions = (list if issubclass(passed, list) else tuple)(form(tx, self.field(tx, "exceptions")))
        return f"{self.cls.__name__}({message!r}, {exceptions!r})"

    def exceptions(self, tx: Tracer) -> list[VariableTracker]:
        return self.field(tx, "exceptions").unpack(tx)

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [lambda name=name: cg.load(self.fields[name]) for name in _FIXED]
        cg.call_object(BaseExceptionGroup.__new__, lambda: cg.load_class(self.cls), *loads)

    def fill(self, cg: ValueCodegen) -> None:
        assert self.storage is not None
        cg.change_attribute(self, "args", self.storage)
        super().fill(cg)

    def changeable_fields(self) -> dict[str, VariableTracker]:
        return {name: value for name, value in self.fields.items() if name not in _FIXED}


def is_group(value: VariableTracker) -> TypeGuard[ExceptionGroupVariable]:
    return isinstance(value, ExceptionGroupVariable)


# -- making ------------------------------------------------------------------------------------------------------------


def new_group(tx: Tracer, cls: type, args: list[VariableTracker]) -> ExceptionGroupVariable:
    """BaseExceptionGroup.__new__(cls, message, exceptions)"""
    if len(args) != 2:
        tx.raise_error(TypeError, f"BaseExceptionGroup.__new__() takes exactly 2 arguments ({len(args)} given)")
    message, given = args
    if not issubclass(message.python_type(), str):
        tx.raise_error(TypeError, f"BaseExceptionGroup.__new__() argument 1 must be str, not {message.python_type().__name__}")
    if not defines(given.python_type(), "__getitem__") or issubclass(given.python_type(), dict):
        tx.raise_error(TypeError, "second argument (exceptions) must be a sequence")
    held = given.unpack(tx)
    if not held:
        tx.raise_error(ValueError, "second argument (exceptions) must be a non-empty sequence")
    for position, each in enumerate(held):
        if not isinstance(each, ExceptionVariable):
            tx.raise_error(ValueError, f"Item {position} of second argument (exceptions) is not an exception")
    if not all(issubclass(each.python_type(), Exception) for each in held):
        if cls is ExceptionGroup:
            tx.raise_error(TypeError, "Cannot nest BaseExceptions in an ExceptionGroup")
        if issubclass(cls, Exception):
            tx.raise_error(TypeError, f"Cannot nest BaseExceptions in {cls.__name__!r}")
    elif cls is BaseExceptionGroup:
        cls = ExceptionGroup
    made = ExceptionGroupVariable(cls, args=args)
    exceptions = given if given.python_type() is tuple else TupleVariable(held)
    made.passed = given.python_type()
    made.fields.update(message=message, exceptions=exceptions)
    return made


def _group_of(tx: Tracer, exceptions: VariableTracker) -> ExceptionGroupVariable:
    """A group without a message, as the interpreter itself makes one."""
    return new_group(tx, BaseExceptionGroup, [ConstantVariable(""), exceptions])


# -- splitting ---------------------------------------------------------------------------------------------------------


try:
    ExceptionGroup("", [ValueError()]).split(0)  # type: ignore[call-overload]  # it raises
except TypeError as _error:
    _NO_CONDITION = str(_error)  # other words from Python 3.13 on


def _matcher(tx: Tracer, condition: VariableTracker) -> _Matches:
    """The predicate that `split` and `subgroup` apply to each exception."""
    if isinstance(condition, FunctionVariable):
        return lambda error: condition.call(tx, [error], {}).truth(tx)
    classes = _classes(tx, condition)
    if classes is None:
        tx.raise_error(TypeError, _NO_CONDITION)
    return lambda error: is_exception(error, classes)


def _classes(tx: Tracer, pattern: VariableTracker) -> tuple[type[BaseException], ...] | None:
    """The exception class, or the tuple of them, that `pattern` is; None if it is anything else."""
    parts = pattern.items(tx) if isinstance(pattern, TupleVariable) else [pattern]
    classes = tuple([part.value for part in parts if isinstance(part, ClassVariable)])
    if len(classes) < len(parts) or not all(issubclass(cls, BaseException) for cls in classes):
        return None
    return classes


def _split(tx: Tracer, error: VariableTracker, matches: _Matches, keep_rest: bool) -> _Halves:
    """(the exceptions that match, the others), each nested in groups as in `error`; None for an empty half."""
    if matches(error):
        return error, None
    if not is_group(error):
        return None, error if keep_rest else None
    halves = [_split(tx, each, matches, keep_rest) for each in error.exceptions(tx)]
    found = [half for half, _ in halves if half is not None]
    rest = [half for _, half in halves if half is not None]
    return _subset(tx, error, found), _subset(tx, error, rest)


def _subset(tx: Tracer, group: ExceptionGroupVariable, exceptions: list[VariableTracker]) -> VariableTracker | None:
    """A group of some of the exceptions of `group`, made by its `derive`, with its traceback, context, cause and notes."""
    if not exceptions:
        return None
    made = tx.read_attribute(group, "derive").call(tx, [ListVariable(exceptions)], {})
    if not is_group(made):
        tx.raise_error(TypeError, "derive must return an instance of BaseExceptionGroup")
    traceback = group.field(tx, "__traceback__")
    if not traceback.is_none():
        made.set_field(tx, "__traceback__", traceback)
    made.set_field(tx, "__context__", group.field(tx, "__context__"))
    made.set_cause(tx, group.field(tx, "__cause__"))
    notes = group.instance_attr(tx, "__notes__")
    if notes is not None:
        if not isinstance(notes, (ListVariable, TupleVariable)):
            unsupported("unsupported-method", value=group.describe(), name="split")
        made.default_set_attr(tx, "__notes__", ListVariable(notes.unpack(tx)))
    return made


# -- except* -----------------------------------------------------------------------------------------------------------


def match_star(tx: Tracer, error: VariableTracker, pattern: VariableTracker) -> tuple[VariableTracker, VariableTracker]:
    """(rest, match) of `except* pattern`; either is the tracked None if it is empty."""
    classes = _classes(tx, pattern)
    if classes is None:
        tx.raise_error(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    if any(issubclass(cls, BaseExceptionGroup) for cls in classes):
        tx.raise_error(TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.")
    if error.is_none():
        return NONE, NONE
    if is_exception(error, classes):
        return NONE, error if is_group(error) else _wrapped(tx, error)
    if not is_group(error):
        return error, NONE
    parts = tx.read_attribute(error, "split").call(tx, [pattern], {})
    if not isinstance(parts, TupleVariable) or len(parts.unpack(tx)) != 2:
        unsupported("unsupported-method", value=error.describe(), name="split")
    match, rest = parts.unpack(tx)
    return rest, match


def _wrapped(tx: Tracer, error: VariableTracker) -> VariableTracker:
    """A group of the one exception, for the clause that takes it."""
    group = _group_of(tx, TupleVariable([error]))
    if _WRAPPED_IN_THE_FRAME:
        group.passes(tx)
    return group


def _is_wrapped_in_the_frame() -> bool:
    """Whether such a group has a traceback, as in later releases of Python 3.13 and from 3.14 on."""
    try:
        raise ValueError
    except* ValueError as group:
        found = group.__traceback__ is not None
    return found


_WRAPPED_IN_THE_FRAME = _is_wrapped_in_the_frame()


def raised_behind_star(tx: Tracer, error: VariableTracker, raised: list[VariableTracker]) -> VariableTracker:
    """The exception to raise after the `except*` clauses; the tracked None if there is none. `raised` has the exceptions that
    the clauses raised or re-raised, and the part of `error` that none of them matched."""
    if not raised:
        return NONE
    if not is_group(error):  # `except*` wrapped a plain exception in a group
        return raised[0]
    present = [each for each in raised if not each.is_none()]
    again = [each for each in present if _is_part_of(tx, each, error)]
    anew = [each for each in present if each not in again]
    kept = {id(leaf.identity()) for each in again for leaf in _leaves(tx, each)}
    projection, _ = _split(tx, error, lambda each: id(each.identity()) in kept, keep_rest=False)
    if projection is not None:
        anew.append(projection)
    if not anew:
        return NONE
    return anew[0] if len(anew) == 1 else _group_of(tx, ListVariable(anew))


def _is_part_of(tx: Tracer, error: VariableTracker, group: ExceptionGroupVariable) -> bool:
    """Whether `error` was split off `group`: both have the same metadata (as in CPython, notes are not compared)."""
    if not is_group(error):
        return False
    return all(tx.is_same(error.field(tx, name), group.field(tx, name)) for name in _METADATA)


def _leaves(tx: Tracer, error: VariableTracker) -> list[VariableTracker]:
    if not is_group(error):
        return [error]
    return [leaf for each in error.exceptions(tx) for leaf in _leaves(tx, each)]
