"""Python functions, existing or made in the trace, and their closure cells."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer import _C
from tracer.bytecode import docstring_of
from tracer.graph_breaks import unsupported
from tracer.guards.identity import FunctionMatch
from tracer.guards.references import lasts
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.lookups import rely_on_code, rely_on_process
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import AttrSource, GenericAttrSource
from tracer.sources.functions import CellContentsSource, ClosureCellSource, DefaultSource, KwDefaultSource
from tracer.sources.reading import is_a
from tracer.sources.roots import ObjectSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.functions.callables import READABLE, BoundMethodVariable, bound_by_get
from tracer.variables.module_namespace import ModuleNamespaceVariable, module_of_namespace
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.effects.log import Effects
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_MISSING = object()
ANNOTATION_VALUES = 1  # annotationlib.Format.VALUE, of Python 3.14


_OF_EVERY = frozenset(dir(types.FunctionType))  # attributes that functions have in this version of Python


def _of_every_function(name: str) -> Any:
    """The attribute `name` of the class of functions, without those of its metaclass, which functions lack."""
    for base in types.FunctionType.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return _MISSING


def _is_settable(name: str, value: VariableTracker) -> bool:
    """Whether the value can be stored in an attribute that every function has."""
    if name in ("__name__", "__qualname__"):
        return value.is_constant() and type(value.constant()) is str
    if name == "__annotate__":
        return value.is_none() or isinstance(value, FunctionVariable)
    kinds = {"__annotations__": dict, "__type_params__": tuple}
    return name in ("__doc__", "__module__") or name in kinds and value.python_type() is kinds[name]


def _attribute_of_every_function(tx: Tracer, function: FunctionVariable, name: str) -> VariableTracker | None:
    """A method of functions, bound; None if functions have no such attribute."""
    static = _of_every_function(name)
    if static is _MISSING:
        return None
    if name == "__class__":
        return tx.class_variable(types.FunctionType)
    if is_a(static, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        return tx.bound_builtin_method(function, name)
    unsupported("unsupported-attribute", value=function.describe(), name=name)


class CellVariable(VariableTracker):
    """A closure cell. `contents` is None while the cell is empty."""

    def __init__(self, contents: VariableTracker | Unwrapped | None = None, source: Source | None = None) -> None:
        self.contents = contents
        self.source = source

    def read(self, tx: Tracer) -> VariableTracker | None:
        if isinstance(self.contents, Unwrapped):
            self.contents = tx.wrap(self.contents.value, self.contents.source)
        return self.contents

    def write(self, tx: Tracer, value: VariableTracker | None) -> None:
        tx.effects.mutate(self)
        self.contents = value

    def python_type(self) -> type:
        return types.CellType

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name != "cell_contents":
            return super().get_attr(tx, name)
        return self.read(tx) or tx.raise_error(ValueError, "Cell is empty")

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if name != "cell_contents":
            super().set_attr(tx, name, value)
        self.write(tx, value)

    def children(self) -> Iterable[VariableTracker]:
        return (self.contents,) if isinstance(self.contents, VariableTracker) else ()

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(types.CellType)

    def fill(self, cg: ValueCodegen) -> None:
        if self.contents is not None:
            self.replay(cg)

    def replay(self, cg: ValueCodegen) -> None:
        if self.contents is None:
            cg.load(self)
            cg.asm.emit("DELETE_ATTR", "cell_contents")
            return
        cg.load(self.contents)
        cg.load(self)
        cg.asm.emit("STORE_ATTR", "cell_contents")


class FunctionVariable(VariableTracker):
    """Something with Python code that can be traced through."""

    code: types.CodeType
    globals: dict[str, Any]
    name: str
    qualname: str  # of the function object; that of its code may differ

    def python_type(self) -> type:
        return types.FunctionType

    def defaults(self, tx: Tracer) -> list[VariableTracker]:
        raise NotImplementedError

    def kwdefaults(self, tx: Tracer) -> dict[str, VariableTracker]:
        raise NotImplementedError

    def closure(self, tx: Tracer) -> list[CellVariable]:
        raise NotImplementedError

    def globals_source(self, tx: Tracer) -> Source | None:
        """How guards reach the function object whose globals are read, None for a function of the root frame."""
        return self.source

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return tx.inline(self, args, kwargs)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        if name == "__get__":
            return bound_by_get(tx, self, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if _of_every_function(name) is not _MISSING and not _is_settable(name, value):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        if name == "__annotate__" and tx.effects.attribute(self, "__annotations__") is not None:
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        tx.effects.store_attribute(self, name, value)
        if name == "__annotations__" and "__annotate__" in _OF_EVERY:  # annotations that are set were given by nothing
            tx.effects.store_attribute(self, "__annotate__", ConstantVariable(None))

    def refuse_annotations_of_another(self, tx: Tracer) -> None:
        """Breaks the graph where the annotations are asked for after the function that gives them has been replaced."""
        if tx.effects.attribute(self, "__annotate__") is not None:
            unsupported("unsupported-attribute", value=self.describe(), name="__annotations__")


def annotations_run_calls(function: types.FunctionType) -> bool:
    """Whether reading the annotations of a function would call something: nobody has asked for them yet (PEP 649, Python 3.14),
    and they are more than names, subscripts and the like."""
    if not _gives_annotations(function):
        return False
    gives = function.__annotate__  # type: ignore[attr-defined]  # of Python 3.14
    return not is_a(gives, types.FunctionType) or any(inst.opname.startswith("CALL") for inst in dis.get_instructions(gives))


def _gives_annotations(function: types.FunctionType) -> bool:
    """Whether they will be made when they are asked for."""
    made_late = "__annotate__" in _OF_EVERY and _C.known_annotations(function) is None
    return made_late and getattr(function, "__annotate__") is not None  # noqa: B009


def _changes_names(effects: Effects) -> bool:
    """Whether the trace has stored in a variable that existed before, which no code of the program would see as yet."""
    return any(True for _ in effects.stored_globals()) or any(isinstance(each, CellVariable) for each in effects.mutated)


_READ_OF_FUNCTIONS = (
    "__defaults__", "__kwdefaults__", "__annotations__", "__annotate__", "__closure__", "__type_params__",
)  # fmt: skip


class UserFunctionVariable(FunctionVariable):
    """A Python function that existed before the frame ran. `any_of_its_code`: a guard checks its code, not its identity."""

    def __init__(self, value: types.FunctionType, source: Source | None, any_of_its_code: bool = False) -> None:
        self.value = value
        self.source = source
        self.any_of_its_code = any_of_its_code
        self.code = value.__code__
        self.globals = value.__globals__
        self.name = value.__name__
        self.qualname = value.__qualname__

    def describe(self) -> str:
        return f"UserFunctionVariable({self.value.__qualname__})"

    def hash_key(self, tx: Tracer) -> Any:
        self.guard_identity(tx)
        return self.value

    def guard_identity(self, tx: Tracer) -> None:
        """Guards the identity of the function. Without this call, a nested function is guarded by its code only."""
        if self.source is not None:
            tx.guard(FunctionMatch(self.source, self.value))

    def identity(self) -> Any:
        return self.value

    def defaults(self, tx: Tracer) -> list[VariableTracker]:
        found = self.value.__defaults__ or ()
        return [tx.wrap(value, DefaultSource(self._own_source(), i)) for i, value in enumerate(found)]

    def kwdefaults(self, tx: Tracer) -> dict[str, VariableTracker]:
        if self.value.__kwdefaults__:
            tx.effects.note_read(self.value.__kwdefaults__)
        return {
            name: tx.wrap(value, KwDefaultSource(self._own_source(), name))
            for name, value in (self.value.__kwdefaults__ or {}).items()
        }

    def closure(self, tx: Tracer) -> list[CellVariable]:
        found = self.value.__closure__ or ()
        return [_tracked_cell(tx, cell, ClosureCellSource(self._own_source(), i)) for i, cell in enumerate(found)]

    def _own_source(self) -> Source:
        if self.source is None:
            unsupported("unsupported-call", value=f"{self.value.__qualname__}, which cannot be reached again")
        return self.source

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        if name in READABLE:
            return self._text(tx, name)
        if name == "__code__":
            if not self.any_of_its_code:
                rely_on_code(self.value)
            return ConstantVariable(self.code)
        if name == "__globals__" and not self.any_of_its_code and (module := module_of_namespace(self.globals)) is not None:
            return ModuleNamespaceVariable(module, self.globals)
        if name == "__dict__":
            return tx.instance_dict(self, self.value)
        source = self._own_source()
        if name == "__annotations__":
            self.refuse_annotations_of_another(tx)
            if annotations_run_calls(self.value) or _gives_annotations(self.value) and _changes_names(tx.effects):
                unsupported("unsupported-attribute", value=self.describe(), name=name)
        if name in _READ_OF_FUNCTIONS and name in _OF_EVERY:
            return tx.wrap(self._own(tx, name), GenericAttrSource(source, name))
        if name in self.value.__dict__:
            return tx.wrap(self.value.__dict__[name], AttrSource(source, name))
        found = _attribute_of_every_function(tx, self, name)
        if found is not None:
            return found
        tx.guard_absent(self, name)
        tx.raise_error(AttributeError, f"'function' object has no attribute {name!r}")

    def _own(self, tx: Tracer, name: str) -> Any:
        try:
            return getattr(self.value, name)
        except Exception as error:  # Python 3.14 runs code for the annotations, which may name what is not there
            unsupported("unsupported-attribute", value=self.describe(), name=f"{name}: {error}")

    def _text(self, tx: Tracer, name: str) -> VariableTracker:
        """One of its names or its docstring. It is guarded, except for functions of the standard library and of torch."""
        text = getattr(self.value, name)
        if self.source is None or lasts(self.value):
            return ConstantVariable(text)
        return tx.wrap(text, GenericAttrSource(self.source, name))

    def text(self, tx: Tracer, kind: str) -> str:
        """It has the address of the function, so that the entry is for this very object."""
        self.guard_identity(tx)
        rely_on_process("the text of a function has its address")
        return repr(self.value)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_object(self.value)


class NestedFunctionVariable(FunctionVariable):
    """A function that the traced code made."""

    def __init__(
        self,
        code: types.CodeType,
        globals_: dict[str, Any],
        globals_owner: FunctionVariable | None,
        qualname: str,
    ) -> None:
        self.code = code
        self.globals = globals_
        self.globals_owner = globals_owner
        self.name = code.co_name
        self.qualname = qualname
        self._defaults: VariableTracker | None = None
        self._kwdefaults: VariableTracker | None = None
        self._annotations: VariableTracker | None = None
        self._annotate: VariableTracker | None = None
        self._closure: list[CellVariable] = []
        self._closure_tuple: VariableTracker = ConstantVariable(None)

    def made_with(
        self,
        defaults: VariableTracker | None = None,
        kwdefaults: VariableTracker | None = None,
        annotations: VariableTracker | None = None,
        annotate: VariableTracker | None = None,
    ) -> None:
        """Sets what CPython sets as it makes the function, before anybody has seen it; so does `close_over`."""
        self._defaults = defaults or self._defaults
        self._kwdefaults = kwdefaults or self._kwdefaults
        self._annotations = annotations or self._annotations
        self._annotate = annotate or self._annotate

    def close_over(self, cells: list[CellVariable]) -> None:
        self._closure = cells
        self._closure_tuple = TupleVariable(cells)

    def describe(self) -> str:
        return f"NestedFunctionVariable({self.qualname})"

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def defaults(self, tx: Tracer) -> list[VariableTracker]:
        return [] if self._defaults is None else self._defaults.unpack(tx)

    def kwdefaults(self, tx: Tracer) -> dict[str, VariableTracker]:
        if not isinstance(self._kwdefaults, DictVariable):
            return {}
        return {key.constant(): value for key, value in self._kwdefaults.pairs(tx)}

    def closure(self, tx: Tracer) -> list[CellVariable]:
        return self._closure

    def globals_source(self, tx: Tracer) -> Source | None:
        return None if self.globals_owner is None else self.globals_owner.globals_source(tx)

    def children(self) -> Iterable[VariableTracker]:
        parts = (self._defaults, self._kwdefaults, self._annotations, self._annotate, *self._closure)
        return (part for part in parts if part is not None)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        if name == "__dict__":
            return tx.instance_dict(self, None)
        if name == "__defaults__":
            return self._defaults or ConstantVariable(None)
        if name == "__kwdefaults__":
            return self._kwdefaults or ConstantVariable(None)
        if name == "__closure__":
            return self._closure_tuple
        if name == "__annotations__":
            return self._read_annotations(tx)
        if name == "__annotate__" and name in _OF_EVERY:
            return self._annotate or ConstantVariable(None)
        if name == "__type_params__" and name in _OF_EVERY:
            return TupleVariable([])
        plain = {
            "__name__": self.name,
            "__qualname__": self.qualname,
            "__module__": self.globals.get("__name__"),
            "__doc__": docstring_of(self.code),
            "__code__": self.code,
        }
        if name in plain:
            return ConstantVariable(plain[name])
        found = _attribute_of_every_function(tx, self, name)
        if found is not None:
            return found
        tx.raise_error(AttributeError, f"'function' object has no attribute {name!r}")

    def _read_annotations(self, tx: Tracer) -> VariableTracker:
        self.refuse_annotations_of_another(tx)
        if self._annotations is None and self._annotate is not None:
            self._annotations = self._annotate.call(tx, [ConstantVariable(ANNOTATION_VALUES)], {})
        return self._annotations_dict()

    def _annotations_dict(self) -> VariableTracker:
        if self._annotations is None:
            self._annotations = DictVariable({})
        elif isinstance(self._annotations, TupleVariable):  # (name, annotation, name, annotation, ...)
            flat = list(self._annotations.children())
            self._annotations = DictVariable(
                {key.constant(): (key, value) for key, value in zip(flat[::2], flat[1::2], strict=True)}
            )
        return self._annotations

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(
            types.FunctionType,
            lambda: cg.load_const(self.code),
            lambda: cg.load_globals(self.globals),
            lambda: cg.load_const(self.name),
            lambda: cg.load(self._defaults or ConstantVariable(None)),
            lambda: cg.build_sequence("BUILD_TUPLE", self._closure) if self._closure else cg.load_const(None),
        )

    def fill(self, cg: ValueCodegen) -> None:
        stores: list[tuple[str, VariableTracker]] = []
        if self.qualname != self.name:
            stores.append(("__qualname__", ConstantVariable(self.qualname)))
        if self._kwdefaults is not None:
            stores.append(("__kwdefaults__", self._kwdefaults))
        if self._annotate is not None:
            stores.append(("__annotate__", self._annotate))
        elif self._annotations is not None:
            stores.append(("__annotations__", self._annotations_dict()))
        for name, value in stores:
            cg.load(value)
            cg.load(self)
            cg.asm.emit("STORE_ATTR", name)
        if self._annotate is not None and self._annotations is not None:  # they have been asked for
            annotations = self._annotations_dict()
            cg.call_object(_C.remember_annotations, lambda: cg.load(self), lambda: cg.load(annotations))
            cg.asm.pop()


def _tracked_cell(tx: Tracer, cell: types.CellType, source: Source) -> CellVariable:
    known = tx.trace.builder.known(cell)
    return known if isinstance(known, CellVariable) else tx.trace.builder.remember(cell, cell_of(cell, source))


def cell_of(cell: types.CellType, source: Source) -> CellVariable:
    """The tracked form of an existing cell."""
    try:
        contents: Any = Unwrapped(cell.cell_contents, CellContentsSource(source))
    except ValueError:  # empty
        contents = None
    return CellVariable(contents, source)


def is_nested_function(value: Any) -> bool:
    """Whether a function was made by a `def` inside a function, which makes a new one at every call."""
    return is_a(value, types.FunctionType) and "<locals>" in value.__qualname__


def as_written(function: Any) -> UserFunctionVariable:
    """A library function that is traced through and whose identity is never asked for, so that no guard reads it."""
    return UserFunctionVariable(function, ObjectSource(function, f"{function.__module__}.{function.__qualname__}"))


def instead_of(value: VariableTracker, function: Any, other: types.FunctionType) -> VariableTracker:
    """`value` with `function` replaced by `other`, if it is that function or a method bound from it. Otherwise `value` itself."""
    if value.identity() is function:
        return as_written(other)
    if isinstance(value, BoundMethodVariable) and value.function.identity() is function:
        return BoundMethodVariable(instead_of(value.function, function, other), value.owner)
    return value
