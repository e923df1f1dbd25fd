"""Objects that guards compare by identity, held so that a guard never keeps one alive.

An object is held weakly and compared by its address; when it dies, the entry that relies on it dies too, so an address
is never compared with that of a newer object. What lives as long as the process anyway, or allows no weak reference,
is bound and compared with `is`.
"""

from __future__ import annotations

import sys
import typing
import weakref
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch

from tracer.sources.reading import is_heap_type, type_dict

_LASTING = frozenset({"torch", *sys.stdlib_module_names})  # packages whose top-level names are not expected to go away


class ObjectRef:
    """An object by identity; one for each object while it is in use."""

    __slots__ = ("id", "_weak", "_strong", "type_name", "name", "__weakref__")

    def __new__(cls, obj: object) -> ObjectRef:
        known = _known.get(id(obj))
        if known is not None and known.get() is obj:
            return known
        self = _known[id(obj)] = super().__new__(cls)
        self._refer_to(obj)
        return self

    def _refer_to(self, obj: object) -> None:
        self.id = id(obj)
        self.type_name = class_name(type(obj))
        self.name = _own_name(obj)
        self._weak: weakref.ref[Any] | None = None
        self._strong: Any = None
        if not lasts(obj):
            try:
                self._weak = weak_reference(obj)
                return
            except TypeError:
                pass
        self._strong = obj

    @property
    def bound(self) -> bool:
        """Whether check_fn may hold the object itself."""
        return self._weak is None

    @property
    def dead(self) -> bool:
        return self._weak is not None and self._weak() is None

    def get(self) -> Any:
        """The object; None if it has died."""
        return self._strong if self._weak is None else self._weak()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectRef) and self.id == other.id and self.get() is other.get()

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"<{self.type_name} {self.name}>" if self.name else f"<{self.type_name} at {self.id:#x}>"


# CPython 3.12 to 3.14 free these without telling the weak references to them, which then point into other memory
# (python/cpython#157621).
_FREED_SILENTLY = (typing.ParamSpecArgs, typing.ParamSpecKwargs)


def weak_reference(obj: Any) -> weakref.ref[Any]:
    """A weak reference to an object. TypeError where there can be none that is safe to keep."""
    if type(obj) in _FREED_SILENTLY:
        raise TypeError(f"{class_name(type(obj))} does not clear weak references")
    return weakref.ref(obj)


_known: weakref.WeakValueDictionary[int, ObjectRef] = weakref.WeakValueDictionary()  # by id: one for each object

class_name = type.__dict__["__qualname__"].__get__  # class -> its qualified name, whatever its metaclass defines


def _own_name(obj: Any) -> str | None:
    if is_class(obj):
        found: str | None = class_name(obj)
        return found
    if type(obj) in (FunctionType, BuiltinFunctionType):
        text: str | None = obj.__qualname__
        return text
    if type(obj) is not ModuleType:
        return None
    name = (ModuleType.__getattribute__(obj, "__dict__") or {}).get("__name__")  # some have none
    return name if type(name) is str else None


def lasts(obj: object) -> bool:
    """Whether the object lives as long as the process: static types, and what the standard library and torch define."""
    if is_class(obj):
        if not is_heap_type(obj):  # type: ignore[arg-type]  # called with classes
            return True
    elif type(obj) is ModuleType:
        return sys.modules.get(ModuleType.__getattribute__(obj, "__name__")) is obj and _root_package(obj) in _LASTING
    elif type(obj) not in (FunctionType, BuiltinFunctionType):
        return False
    return _found_by_name(obj)


def is_class(obj: object) -> bool:
    """Whether an object is a class, whatever its metaclass. Does not read `__class__`, which may run user code."""
    return issubclass(type(obj), type)


def _root_package(module: ModuleType) -> str:
    name: str = ModuleType.__getattribute__(module, "__name__")
    return name.partition(".")[0]


def _found_by_name(obj: Any) -> bool:
    """Whether a lasting module still holds it under its own name."""
    if is_class(obj):
        module, qualname = type_dict(obj).get("__module__"), class_name(obj)
    else:
        module, qualname = obj.__module__, obj.__qualname__
        if vars(torch).get(obj.__name__) is obj:  # torch.abs calls itself torch._VariableFunctionsClass.abs
            return True
    if type(module) is not str or type(qualname) is not str or module.partition(".")[0] not in _LASTING:
        return False
    found: Any = sys.modules.get(module)
    if type(found) is not ModuleType:
        return False
    namespace: Any = found.__dict__
    for part in qualname.split("."):
        found = namespace.get(part)
        if not is_class(found):
            return found is obj and part == qualname.rpartition(".")[2]
        namespace = type_dict(found)
    return found is obj
