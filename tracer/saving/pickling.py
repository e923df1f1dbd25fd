"""Pickling of entries. Objects of the program are never copied: they are written as a name or a path by which another process
finds its own.

Functions and class attributes that a trace relied on are found again and compared by their code. `Pickler` raises `Refused` for
an object that cannot be found by name or path; `Unpickler` raises `Differs` if an object that it finds has changed.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import io
import pickle
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from tracer import _C, user_marks
from tracer.guards.base import Guard
from tracer.guards.references import ObjectRef
from tracer.guards.state import GlobalStateMatch
from tracer.guards.tensors import MarksMatch
from tracer.guards.unchanged import ABSENT, ClassFacts, CodeFact, Found, Unchanged, find, held
from tracer.runtime.region_state import RegionState
from tracer.saving.closures import (
    UnreadData,
    compiled_graph,
    data_of_graph,
    is_compiled_graph,
    is_own_closure,
    nested_code,
    of_own_data,
    own_closure,
    own_data_of,
    place_of_closure,
    writes_itself,
)
from tracer.saving.fingerprints import BUILTIN, Differs, Refused, digest, fingerprint_of, member_at, member_place, name_with_place
from tracer.saving.graph_modules import module_from, record_of
from tracer.saving.operators import OperatorName, name_of, operator_at, place_of
from tracer.sources.attributes import ClassAttrSource, TypeSource
from tracer.sources.base import FrameValues, Source
from tracer.sources.functions import CodeSource
from tracer.sources.reading import type_dict, type_mro
from tracer.sources.roots import ObjectSource

_COPIED = ("tracer", "shapes", "sympy", "re", "builtins", "copyreg", "collections", "types")  # packages whose values are data
_OF_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
             torch._C._autograd.CreationMeta)  # fmt: skip
_PLACES = ("torch", "torch.nn.functional", "torch._C._nn", "torch._C", "torch._C._linalg", "torch._C._special", "torch._C._fft",
           "types", "builtins", "operator")  # where to look for functions and classes with a wrong __module__  # fmt: skip
_GETTERS = ("fget", "fset", "fdel")
_SUFFIXES = ("", ".fget", ".fset", ".fdel", *(".__wrapped__" * depth for depth in range(1, 5)))  # behind a decorator


# -- names and paths of objects -----------------------------------------------------------------------------------


def _look_up(module: str, qualname: str) -> Any:
    """The object of a qualified name, looked up without running code of the program; ABSENT if there is none."""
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        if isinstance(found, types.ModuleType):
            if isinstance(found, torch.backends.PropModule) and part not in vars(found):
                found = vars(found)["m"]  # the module that it stands for
            found = vars(found).get(part, ABSENT)
        elif isinstance(found, type):
            found = type_dict(found).get(part, ABSENT)
        elif type(found) is property and part in _GETTERS:
            found = getattr(found, part)
        elif type(found) is types.FunctionType and part == "__wrapped__":
            found = found.__dict__.get(part, ABSENT)
        else:
            return ABSENT
        if type(found) in (staticmethod, classmethod):
            found = found.__func__
    return found


def _is_imported(obj: types.ModuleType) -> bool:
    """Whether a module, or an object that stands for one, is found by its name."""
    name: Any = vars(obj).get("__name__")
    return sys.modules.get(name) is obj


def _name_of(obj: Any) -> tuple[str, str] | None:
    """A (module, qualified name) under which a class or function is found; None if there is none."""
    if isinstance(obj, type):  # whose metaclass may define these
        module, qualname = [type.__dict__[name].__get__(obj) for name in ("__module__", "__qualname__")]
    else:
        module, qualname = [getattr(obj, name, None) for name in ("__module__", "__qualname__")]
    owner = getattr(obj, "__objclass__", None)  # of methods of built-in classes
    if isinstance(owner, type):
        module = owner.__module__
    if not isinstance(qualname, str):
        return None
    if isinstance(module, str):
        for ending in _SUFFIXES:
            if _look_up(module, qualname + ending) is obj:
                return module, qualname + ending
    names = {qualname.rpartition(".")[2], getattr(obj, "__name__", "")}
    for place in _PLACES:
        for name in names:
            if name and _look_up(place, name) is obj:
                return place, name
    if isinstance(obj, type):  # function, method, NoneType, ... are known by other names
        return next((("types", name) for name, value in vars(types).items() if value is obj), None)
    return None


class ObjectPaths:
    """id of an object -> the source by which an entry's guards read it. For objects that have no name."""

    def __init__(self, guards: tuple[Guard, ...], values: FrameValues, code: types.CodeType) -> None:
        self.values = values
        self.paths: dict[int, Source] = {}
        self.alive: list[Any] = []
        for guard in guards:
            for source in guard.sources():
                if type(source) is not CodeSource:
                    self._add(source)
        for guard in guards:
            if isinstance(guard, Unchanged):
                self._add_methods(guard)
        self.consts = {id(code): (), **{id(const): path for const, path in nested_code(code)}}

    def _add(self, source: Source) -> None:
        try:
            value = source.get(self.values)
        except Exception:  # it is read from an argument, and there is no call now
            return
        self.alive.append(value)  # so that no other object gets its address
        self.paths.setdefault(id(value), source)
        self.paths.setdefault(id(type(value)), TypeSource(source))
        if isinstance(value, types.FunctionType):
            self.paths.setdefault(id(value.__code__), CodeSource(source))

    def _add_methods(self, guard: Unchanged) -> None:
        for facts in guard.classes:
            for found in facts.found:
                owner = None if found.owner is None else found.owner.get()
                path = self.paths.get(id(owner))
                value = None if owner is None else type_dict(owner).get(found.name)
                if path is not None and isinstance(value, types.FunctionType):
                    self.paths.setdefault(id(value), ClassAttrSource(path, found.name))


# -- writing ------------------------------------------------------------------------------------------------------


class Pickler(pickle.Pickler):
    """Writes plain values, and references to objects of the program. Raises Refused."""

    def __init__(self, file: Any, where: ObjectPaths, function: types.FunctionType, state: RegionState) -> None:
        super().__init__(file, protocol=5)
        self.where = where
        self.function = function
        self.state = state

    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in (str, int, tuple, float, bool, type(None), list, bytes) or isinstance(obj, (Source, Guard)):
            return None
        if obj is user_marks.changes:
            return ("marks",)
        if obj is self.function:
            return ("itself",)
        if kind is types.ModuleType or isinstance(obj, types.ModuleType) and _is_imported(obj):
            return self._module(obj)
        if kind is _C.Dispatcher:
            return self._resume_function(obj)
        if kind is types.FunctionType and (is_compiled_graph(obj) or is_own_closure(obj)):
            return None  # by `reducer_override`
        if isinstance(obj, type) or kind is types.FunctionType or kind in BUILTIN:
            return self._name_or_path(obj)
        if isinstance(obj, torch._ops.OpOverload):
            return "operator", *name_of(obj)
        if kind is dict:
            return self._namespace(obj)
        if kind is types.CodeType and id(obj) in self.where.consts:
            return "const", self.where.consts[id(obj)]
        if kind is ObjectRef and type(obj.get()) is types.CodeType:
            return self._code_at(obj.get())
        return None

    def _resume_function(self, dispatcher: _C.Dispatcher) -> Any:
        function: Any = dispatcher.function
        code = function.__code__
        namespace = self._namespace(function.__globals__)
        if dispatcher.region is not self.state.region or code not in self.state.resume_codes or namespace is None:
            raise Refused(f"{name_with_place(function)} is a compiled function of the program")
        return "resume", code, function.__globals__, code in self.state.left_to_cpython, code in self.state.returning_codes

    def _code_at(self, code: types.CodeType) -> Any:
        path = self.where.paths.get(id(code))
        if path is None:
            raise Refused(f"no path leads from the arguments of the call to the code of {code.co_qualname}")
        return "code", path, digest(code), code.co_qualname

    def _module(self, obj: types.ModuleType) -> Any:
        if not _is_imported(obj):
            raise Refused(f"the module {vars(obj).get('__name__')} cannot be found by its name")
        return "module", vars(obj)["__name__"]

    def _name_or_path(self, obj: Any) -> Any:
        name = _name_of(obj)
        if name is not None:
            return "name", *name, fingerprint_of(obj)
        path = self.where.paths.get(id(obj))
        if path is not None:
            return "path", path, fingerprint_of(obj)
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, (type, types.ModuleType)) and getattr(owner, obj.__name__, None) == obj:
            return "attribute", owner, obj.__name__
        raise Refused(f"{name_with_place(obj)} cannot be found, neither by its name nor by a path from the arguments of the call")

    def _namespace(self, obj: dict[str, Any]) -> Any:
        if obj is self.function.__globals__:
            return ("globals",)
        name = obj.get("__name__") if "__name__" in obj else None
        if isinstance(name, str) and name in sys.modules and vars(sys.modules[name]) is obj:
            return "namespace", name
        return None

    def reducer_override(self, obj: Any) -> Any:
        match obj:
            case ObjectRef():
                if obj.dead:
                    raise Refused(f"{obj!r} has died")
                return ObjectRef, (obj.get(),)
            case Unchanged():
                return _unchanged, (
                    tuple(map(_class_facts, obj.classes)),
                    tuple(self._code_facts(obj)),
                    tuple(_subclass_checks(obj)),
                )
            case GlobalStateMatch():
                numbers = obj.snapshot.numbers()
                if numbers is None:
                    raise Refused(
                        "it was traced inside a mode of torch (a default device, a torch-function mode or a dispatch mode)"
                    )
                return _global_state, (numbers,)
            case MarksMatch():
                return MarksMatch, (
                    obj.group,
                    obj.attribute,
                    obj.marks,
                    obj.changes,
                    0,
                )  # 0: marks are compared once any tensor has one
            case ObjectSource() if obj.made:
                return _object_source, (obj.made, obj.shown)
            case Guard():
                return _guard, (type(obj), {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)})
            case types.CodeType():
                return _code, _code_fields(obj)
            case fx.GraphModule():
                return module_from, record_of(obj)
            case types.MethodType():
                return getattr, (obj.__self__, obj.__name__)
            case types.FunctionType() if is_compiled_graph(obj):
                return compiled_graph, (data_of_graph(obj),)
            case types.FunctionType():
                return own_closure, place_of_closure(obj)
            case enum.Enum():
                return member_at, member_place(obj)
            case torch.layout():
                return getattr, (torch, str(obj).removeprefix("torch."))
            case torch.qscheme():
                return getattr, (torch, repr(obj).removeprefix("torch."))
        if writes_itself(obj):
            return of_own_data, own_data_of(obj)
        place = place_of(obj)
        if place is not None:
            return place
        package = type(obj).__module__.partition(".")[0]
        if package in _COPIED or isinstance(obj, _OF_TORCH):
            return NotImplemented
        path = self.where.paths.get(id(obj))
        detail = f", at {path.name}" if path is not None else ""
        raise Refused(f"an object of {type(obj).__module__}.{type(obj).__qualname__}{detail} has to be the same one")

    def _code_facts(self, guard: Unchanged) -> Iterator[tuple[Any, ...]]:
        """The guarded functions, in tuples of one."""
        for fact in guard.functions:
            function = fact.function.get()
            if function is None or not fact.holds():
                raise Refused(f"{fact.function!r} has changed")
            yield (function,)


def _class_facts(facts: ClassFacts) -> tuple[Any, ...]:
    cls = facts.cls.get()
    if cls is None or facts.changed() is not None:
        raise Refused(f"{facts.cls!r} has changed")
    found = [
        (each.name, None if each.after is None else each.after.get(), None if each.owner is None else each.owner.get(),
         _class_attribute(cls, each), _only_class_counts(each))
        for each in facts.found
    ]  # fmt: skip
    return cls, type_mro(cls), tuple(found)


def _subclass_checks(guard: Unchanged) -> Iterator[tuple[type, type, bool]]:
    """The subclass checks that the trace relied on, with their results. Raises Refused if it relied on a fact that holds for this
    process only."""
    if guard.of_process:
        raise Refused(guard.of_process[0])
    for cls, base, answer in guard.asked:
        yield cls.get(), base.get(), answer


def _class_attribute(cls: type, found: Found) -> str:
    """The fingerprint of an attribute of a class. Raises Refused if the attribute has to be the same object."""
    value = find(cls, found.name, None if found.after is None else found.after.get())[1]
    fingerprint = fingerprint_of(value)
    if value is not ABSENT and fingerprint.startswith("a ") and len(found.value or ()) > 1:
        raise Refused(f"{cls.__qualname__}.{found.name}, {fingerprint}, has to be the same object")
    return fingerprint


def _only_class_counts(found: Found) -> bool:
    """Whether only the class of an attribute's value is compared, because the value, a number, has a guard of its own."""
    return found.owner is not None and isinstance(found.value, tuple) and len(found.value) == 1 and found.value[0] in (int, float)


def _code_fields(code: types.CodeType) -> tuple[Any, ...]:
    return (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals, code.co_stacksize, code.co_flags,
        code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_filename, code.co_name, code.co_qualname,
        code.co_firstlineno, code.co_linetable, code.co_exceptiontable, code.co_freevars, code.co_cellvars,
    )  # fmt: skip


# -- reading ------------------------------------------------------------------------------------------------------


class Unpickler(pickle.Unpickler):
    """Replaces references by the objects of this process. Raises Differs if one has changed.

    `persistent_load` calls the method named after the kind of the reference.
    """

    def __init__(self, file: Any, function: types.FunctionType, values: FrameValues, state: RegionState) -> None:
        super().__init__(file)
        self.state = state
        self.function = function
        self.values = values
        self._found: dict[tuple[str, str, str], Any] = {}  # names that were looked up, each once

    def persistent_load(self, pid: Any) -> Any:
        kind, *rest = pid
        return getattr(self, f"_{kind}")(*rest)

    def _marks(self) -> Any:
        return user_marks.changes

    def _resume(self, code: types.CodeType, globals_: dict[str, Any], in_cpython: bool, returns: bool) -> Any:
        return self.state.make_resume(code, globals_, in_cpython, returns)

    def _itself(self) -> Any:
        return self.function

    def _globals(self) -> Any:
        return self.function.__globals__

    def _module(self, name: str) -> Any:
        return _imported(name)

    def _namespace(self, name: str) -> Any:
        return vars(_imported(name))

    def _name(self, module: str, qualname: str, fingerprint: str) -> Any:
        key = module, qualname, fingerprint
        if key not in self._found:
            _imported(module)
            found = _look_up(module, qualname)
            if found is ABSENT:
                raise Differs(f"there is no {module}.{qualname}")
            self._found[key] = _checked(found, fingerprint, f"{module}.{qualname}")
        return self._found[key]

    def _path(self, path: Source, fingerprint: str) -> Any:
        return _checked(_read(path, self.values), fingerprint, path.name)

    def _attribute(self, owner: Any, name: str) -> Any:
        return getattr(owner, name)

    def _operator(self, *name: str) -> Any:
        return operator_at(OperatorName(*name))

    def _const(self, path: tuple[int, ...]) -> Any:
        code = self.function.__code__
        for index in path:
            code = code.co_consts[index]
        return code

    def _code(self, path: Source, fingerprint: str, shown: str) -> ObjectRef:
        found = _read(path, self.values)
        if not isinstance(found, types.CodeType) or digest(found) != fingerprint:
            raise Differs(f"{shown}, at {path.name}, has other code")
        return ObjectRef(found)


def _imported(name: str) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise Differs(f"the module {name} cannot be imported: {error}") from None


def _read(path: Source, values: FrameValues) -> Any:
    try:
        return path.get(values)
    except Exception as error:
        raise Differs(f"there is nothing at {path.name} ({type(error).__name__}: {error})") from None


def _checked(found: Any, fingerprint: str, name: str) -> Any:
    if fingerprint_of(found) != fingerprint:
        detail = "has other code" if fingerprint.startswith("function") else f"was {fingerprint}, and is {fingerprint_of(found)}"
        raise Differs(f"{name_with_place(found) if isinstance(found, types.FunctionType) else name} {detail}")
    return found


# -- called by the pickles ----------------------------------------------------------------------------------------


def _global_state(numbers: tuple[int, ...]) -> GlobalStateMatch:
    return GlobalStateMatch(_C.GlobalState(numbers))


def _guard(kind: type[Guard], fields: dict[str, Any]) -> Guard:
    return kind(**fields)


def _code(*fields: Any) -> types.CodeType:
    return types.CodeType(*fields)


def _object_source(made: tuple[Any, ...], shown: str) -> ObjectSource:
    function, *args = made
    return ObjectSource(function(*args), shown, made)


def _unchanged(classes: tuple[Any, ...], functions: tuple[Any, ...], asked: tuple[Any, ...]) -> Unchanged:
    facts = [ClassFacts(ObjectRef(cls), tuple(map(id, mro)), tuple(_found(cls, mro, found))) for cls, mro, found in classes]
    codes = [CodeFact(ObjectRef(function), ObjectRef(function.__code__)) for (function,) in functions]
    for cls, base, answer in asked:
        if issubclass(cls, base) is not answer:
            raise Differs(f"{cls.__qualname__} is {'no' if answer else 'a'} subclass of {base.__qualname__} here")
    answers = [(ObjectRef(cls), ObjectRef(base), answer) for cls, base, answer in asked]
    return Unchanged(tuple(facts), tuple(codes), tuple(answers))


def _found(cls: type, mro: tuple[type, ...], found: tuple[Any, ...]) -> Iterator[Found]:
    if type_mro(cls) != mro:
        raise Differs(f"{cls.__qualname__} has other bases")
    for name, after, owner, fingerprint, varies in found:
        now, value = find(cls, name, after)
        if now is not owner or fingerprint_of(value) != fingerprint and not varies:
            raise Differs(f"{cls.__qualname__}.{name} is not what it was")
        kept = None if owner is None else (type(value),) if varies else held(value)
        yield Found(name, None if after is None else ObjectRef(after), None if owner is None else ObjectRef(owner), kept)


def dump(value: Any, where: ObjectPaths, function: types.FunctionType, state: RegionState) -> bytes:
    file = io.BytesIO()
    Pickler(file, where, function, state).dump(value)
    return file.getvalue()


def frame_values(function: types.FunctionType, known: Mapping[str, Any]) -> FrameValues:
    """The values that sources can read before any call. `known`: the arguments that are known already."""
    return FrameValues.of(function.__code__, known, function.__globals__, function.__closure__)


class CheckingUnpickler(Unpickler):
    """Reads all but what compiled graphs have written themselves: that may need a state of the program in which they run."""

    def _name(self, module: str, qualname: str, fingerprint: str) -> Any:
        found = super()._name(module, qualname, fingerprint)
        return UnreadData if found is of_own_data else found
