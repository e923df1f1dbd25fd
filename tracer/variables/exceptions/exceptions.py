"""Exceptions: the fields that C keeps outside the instance dict, how `raise` chains exceptions, and their tracebacks."""

from __future__ import annotations

import builtins
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.error_words import no_note
from tracer.protocol.lookups import MISSING, lookup, storage_base
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.reading import is_a, is_heap_type
from tracer.sources.roots import HandledSource
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.text import form
from tracer.variables.values.constant import FALSE, NONE, TRUE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_NAMED: dict[type, tuple[str, ...]] = {  # arguments that may be given by keyword
    AttributeError: ("name", "obj"),
    NameError: ("name",),
    ImportError: ("name", "path"),
}


OS_ERROR_FIELDS = ("errno", "strerror", "filename", "filename2")


class ExceptionVariable(UserObjectVariable):
    """An exception. If the trace made it, `fields` has the fields of its C structure, apart from `args`."""

    def __init__(self, cls: type, value: Any = None, source: Source | None = None, args: Iterable[VariableTracker] = ()) -> None:
        super().__init__(cls, value, source, TupleVariable(args) if value is None else None)
        self.fields: dict[str, VariableTracker] = {}

    def children(self) -> Iterable[VariableTracker]:
        return (*super().children(), *self.fields.values())

    def initialize(self, tx: Tracer, base: type, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> None:
        """Does what base.__init__(self, *args, **kwargs) does, where `base` is a class written in C."""
        named = next((names for cls, names in _NAMED.items() if issubclass(base, cls)), ())
        if not set(kwargs).issubset(named):
            unsupported("call-arguments", error=f"{base.__name__} takes no argument {', '.join(kwargs)} by name")
        given = TupleVariable(args)
        if issubclass(base, OSError):
            return  # OSError.__new__ has already processed the arguments
        if not issubclass(base, BaseExceptionGroup):
            refuse_fields(base)
        self.set_field(tx, "args", given)
        for name in named:
            self._begin_field(tx, name, kwargs.get(name))
        if issubclass(base, StopIteration):
            self._begin_field(tx, "value", args[0] if args else None)
        elif issubclass(base, SystemExit) and args:
            self.set_field(tx, "code", args[0] if len(args) == 1 else given)
        elif issubclass(base, ImportError):
            self._begin_field(tx, "msg", args[0] if len(args) == 1 else None)

    def _begin_field(self, tx: Tracer, name: str, value: VariableTracker | None) -> None:
        """Sets a field that every call of __init__ sets, to None if there is no value."""
        if value is None and self.value is None:
            self.fields.pop(name, None)
        else:
            self.set_field(tx, name, NONE if value is None else value)

    # -- fields --------------------------------------------------------------------------------------------------

    def _c_attribute(self, tx: Tracer, name: str, static: Any) -> VariableTracker | None:
        if is_field(static):
            return self.field(tx, name)
        return super()._c_attribute(tx, name, static)

    def slot(self, tx: Tracer, name: str) -> VariableTracker | None:
        return self.field(tx, name) if is_field(lookup(self.cls, name)[1]) else super().slot(tx, name)

    def field(self, tx: Tracer, name: str) -> VariableTracker:
        if self.value is not None:
            pending = tx.effects.attribute(self, name)
            if pending is not None:
                return pending
            return tx.wrap(getattr(self.value, name), GenericAttrSource(self._path(), name))
        if name == "args":
            assert self.storage is not None
            return self.storage
        found = self.fields.get(name)
        if found is None and name == "characters_written":
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        if isinstance(found, HandledOutsideVariable):
            found = self.fields[name] = found.realize(tx)
        if found is None:
            return FALSE if name == "__suppress_context__" else NONE
        return found

    def default_set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        static = lookup(self.cls, name)[1]
        if static is MISSING or not is_field(static):
            super().default_set_attr(tx, name, value)
            return
        cls = value.python_type()
        if name in ("__cause__", "__context__"):
            if not issubclass(cls, (BaseException, type(None))):
                tx.raise_error(TypeError, f"exception {name.strip('_')} must be None or derive from BaseException")
            if name == "__cause__":
                self.set_cause(tx, value)
                return
        elif name == "__traceback__" and cls not in (types.TracebackType, type(None)):
            tx.raise_error(TypeError, "__traceback__ must be a traceback or None")
        elif name == "__suppress_context__" and cls is not bool:
            tx.raise_error(TypeError, "attribute value type must be bool")
        elif name == "args":
            value = TupleVariable(value.unpack(tx))
        elif name in ("message", "exceptions"):
            tx.raise_error(AttributeError, "readonly attribute")
        self.set_field(tx, name, value)

    def set_field(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if self.value is not None:
            tx.effects.store_attribute(self, name, value)
        elif name == "args":
            self.storage = value
        else:
            self.fields[name] = value

    def _delete_through(self, tx: Tracer, name: str, owner: Any, static: Any) -> bool:
        return not is_field(static) and super()._delete_through(tx, name, owner, static)

    def set_cause(self, tx: Tracer, cause: VariableTracker) -> None:
        self.set_field(tx, "__cause__", cause)
        self.set_field(tx, "__suppress_context__", TRUE)

    # -- raising -------------------------------------------------------------------------------------------------

    def link_context(self, tx: Tracer, handled: VariableTracker) -> None:
        """Makes `handled`, the exception being handled, the context of this one, as `raise` does. A chain of contexts that
        would form a cycle is cut (CPython's _PyErr_SetObject)."""
        at: VariableTracker | None = handled
        seen: set[VariableTracker] = set()
        while isinstance(at, ExceptionVariable) and at not in seen:
            seen.add(at)
            following = at._known_context(tx, exhaustive=self.value is not None)
            if following is self:
                at.set_field(tx, "__context__", NONE)
                break
            at = following
        self.set_field(tx, "__context__", handled)

    def _known_context(self, tx: Tracer, exhaustive: bool) -> VariableTracker | None:
        """The context if the trace has set it. With `exhaustive`, also one that was set before the frame ran."""
        if self.value is None:
            return self.fields.get("__context__")
        return self.field(tx, "__context__") if exhaustive else tx.effects.attribute(self, "__context__")

    def passes(self, tx: Tracer) -> None:
        """Adds the frame `tx`, at its current line, to the traceback: the exception is unwinding it."""
        before = self.fields.get("__traceback__") if self.value is None else self.field(tx, "__traceback__")
        line = tx.inst.positions.lineno or tx.code.co_firstlineno
        shown = TracebackVariable(tx.code, tx.globals, tx.inst.index, line, before, tx.left_at)
        self.set_field(tx, "__traceback__", shown)

    # -- methods -------------------------------------------------------------------------------------------------

    def base_method(
        self, tx: Tracer, base: type, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """Calls a method of an exception class written in C."""
        if name == "__init__":
            self.initialize(tx, base, args, kwargs)
            return NONE
        if kwargs:
            unsupported("call-arguments", error=f"{name}() takes no keyword arguments")
        if name == "with_traceback" and len(args) == 1:
            self.default_set_attr(tx, "__traceback__", args[0])
            return self
        if name == "add_note" and len(args) == 1:
            return self._add_note(tx, args[0])
        if name in ("__str__", "__repr__") and not args:
            return ConstantVariable(self._base_text(tx, base, name))
        if name == "__setattr__" and len(args) == 2:
            self.default_set_attr(tx, args[0].constant(), args[1])
            return NONE
        if name == "__getattribute__" and len(args) == 1:
            return self.default_get_attr(tx, args[0].constant())
        unsupported("unsupported-method", value=self.describe(), name=name)

    def _add_note(self, tx: Tracer, note: VariableTracker) -> VariableTracker:
        if not issubclass(note.python_type(), str):
            tx.raise_error(TypeError, no_note(note.python_type()))
        notes = self.instance_attr(tx, "__notes__")
        if notes is None:
            notes = ListVariable([])
            self.default_set_attr(tx, "__notes__", notes)
        if not isinstance(notes, ListVariable):
            tx.raise_error(TypeError, "Cannot add note: __notes__ is not a list")
        return notes.call_method(tx, "append", [note], {})

    def text(self, tx: Tracer, kind: str) -> str:
        name = f"__{kind}__"
        owner, static = lookup(self.cls, name)
        if is_a(static, types.FunctionType) or owner is None:
            return super().text(tx, kind)
        return self._base_text(tx, owner, name)

    def _base_text(self, tx: Tracer, base: type, name: str) -> str:
        args = form(tx, self.field(tx, "args"))
        if base is ImportError and name == "__str__":
            message = self.field(tx, "msg")
            if message.python_type() is str:
                found: str = form(tx, message)
                return found
        elif base is OSError and name == "__str__" and self.value is None:
            text = self._os_error_text(tx)
            if text is not None:
                return text
        elif base not in (BaseException, KeyError, AttributeError, NameError):
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name == "__repr__":
            return f"{self.cls.__name__}({', '.join(map(repr, args))})"
        if base is KeyError and len(args) == 1:
            return repr(args[0])
        return "" if not args else str(args[0] if len(args) == 1 else args)

    def _os_error_text(self, tx: Tracer) -> str | None:
        """str() of an OSError that has an errno or a filename; None for any other."""
        number, words, *files = [form(tx, self.fields[name]) if name in self.fields else MISSING for name in OS_ERROR_FIELDS]
        if files[0] is not MISSING:
            start = f"[Errno {None if number is MISSING else number}] {None if words is MISSING else words}: {files[0]!r}"
            return start if files[1] is MISSING else f"{start} -> {files[1]!r}"
        return None if number is MISSING or words is MISSING else f"[Errno {number}] {words}"

    # -- code ----------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: ValueCodegen) -> None:
        new = lookup(self.cls, "__new__")[0]
        make = BaseException.__new__ if new is None or is_heap_type(new) else new.__new__
        assert self.storage is not None
        args = [lambda item=item: cg.load(item) for item in self.storage.children()]
        cg.call_object(make, lambda: cg.load_class(self.cls), *args)

    def fill(self, cg: ValueCodegen) -> None:
        fields = self.changeable_fields()
        for name, value in sorted(fields.items(), key=lambda item: item[0] == "__suppress_context__"):
            cg.change_attribute(self, name, value)
        cg.store_attributes(self)

    def changeable_fields(self) -> dict[str, VariableTracker]:
        """The fields that are set after the exception is made, not by its constructor."""
        return self.fields


def new_os_error(tx: Tracer, cls: type, args: list[VariableTracker]) -> ExceptionVariable:
    """OSError(number, text[, file[, anything, other file]]). The class of the result depends on the number, and files are
    stored in fields of their own, not in `args`."""
    makers = [lookup(cls, name)[0] for name in ("__init__", "__new__")]
    if any(maker is None or is_heap_type(maker) for maker in makers):
        unsupported("unsupported-call", value=f"exception class {cls.__qualname__}, which makes something else of its arguments")
    if not 2 <= len(args) <= 5:
        return ExceptionVariable(cls, args=args)
    if cls is OSError:
        number = args[0].constant()
        args[0].hash_key(tx)
        cls = type(OSError(number, ""))
    if issubclass(cls, BlockingIOError) and len(args) > 2:
        unsupported("unsupported-call", value="BlockingIOError with a number of characters")
    named = len(args) > 2 and not args[2].is_none()
    files = [file for file in (args[2], *args[4:]) if not file.is_none()] if named else []
    error = ExceptionVariable(cls, args=args[:2] if named else args)
    error.fields.update(zip(OS_ERROR_FIELDS, [*args[:2], *files]))
    return error


# Exceptions whose only field is `args`, and the few whose other fields can be derived from the arguments.
_WITH_KNOWN_FIELDS = (StopIteration, SystemExit, AttributeError, NameError, ImportError)
_PLAIN = frozenset(
    cls
    for cls in vars(builtins).values()
    if isinstance(cls, type)
    and issubclass(cls, BaseException)
    and (cls.__basicsize__ == BaseException.__basicsize__ or issubclass(cls, _WITH_KNOWN_FIELDS))
)


def refuse_fields(cls: type) -> None:
    """Breaks the graph for an exception class whose C structure has fields that are not modelled here."""
    if storage_base(cls) not in _PLAIN:
        unsupported("unsupported-call", value=f"exception class {cls.__qualname__}")


def is_field(static: Any) -> bool:
    """Whether a class attribute is the descriptor of a field in the C structure of exceptions."""
    if not is_a(static, (types.MemberDescriptorType, types.GetSetDescriptorType)):
        return False
    owner = static.__objclass__
    return issubclass(owner, BaseException) and not is_heap_type(owner) and static.__name__ != "__dict__"


class LeftAt:
    """The index of the instruction at which a frame was last left; None while it has not been left."""

    index: int | None = None


class TracebackVariable(VariableTracker):
    """A traceback that the trace made. `index` is the index of the instruction in `code`, and `following` is the traceback of
    the next inner frame. `left_at` says where the frame was left in the end, which may be in a handler further on."""

    def __init__(
        self,
        code: types.CodeType,
        globals_: dict[str, Any],
        index: int,
        line: int,
        following: VariableTracker | None,
        left_at: LeftAt,
    ) -> None:
        self.code = code
        self.globals = globals_
        self.index = index
        self.line = line
        self.following = NONE if following is None else following
        self.left_at = left_at

    def python_type(self) -> type:
        return types.TracebackType

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "tb_lineno":
            return ConstantVariable(self.line)
        if name == "tb_next":
            return self.following
        return super().get_attr(tx, name)

    def children(self) -> Iterable[VariableTracker]:
        return (self.following,)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.build_traceback(self)


class HandledBefore(VariableTracker):
    """The stack slot in which a frame saves the exception that was being handled before `present`. `value` is None in a
    generator, where that is the exception that its caller is handling."""

    def __init__(self, value: VariableTracker | None, present: VariableTracker) -> None:
        self.value = value
        self.present = present

    def children(self) -> Iterable[VariableTracker]:
        return () if self.value is None else (self.value,)


class HandledOutsideVariable(VariableTracker):
    """The exception, if any, that was being handled when the traced frame was called. It is guarded once the program reads it."""

    def __init__(self) -> None:
        self.source: Source = HandledSource()

    def realize(self, tx: Tracer) -> VariableTracker:
        return tx.wrap(tx.trace.handled_at_entry, self.source)
