"""Classes and instances: class attributes with their guards, instantiation, methods of built-in base classes."""

from __future__ import annotations

import collections
import enum
import sys
import types
from typing import Any, Generic, cast

import torch

from tracer import _C, guards
from tracer.graph_breaks import unsupported
from tracer.guards.references import lasts
from tracer.interpreter.base_methods import BaseMethods
from tracer.interpreter.wrapper_dispatch import made_wrapper
from tracer.library.registry import is_disabled_by_torch, model_of
from tracer.sources import (
    AttrSource,
    ClassAttrSource,
    FunctionNamespaceSource,
    GenericAttrSource,
    GradSource,
    ItemSource,
    ModuleGlobalsSource,
    Source,
    TypeSource,
)
from tracer.sources.reading import is_a, is_heap_type
from tracer.sources.roots import namespace_source
from tracer.variables.base import VariableTracker, invoke
from tracer.variables.callables import BoundMethodVariable, BuiltinMethodVariable, CallableVariable
from tracer.variables.class_parts import meaning
from tracer.variables.classes import ClassVariable
from tracer.variables.constant import ConstantVariable, fold
from tracer.variables.deques import DequeVariable
from tracer.variables.enums import member_of_value, members
from tracer.variables.exception_groups import new_group
from tracer.variables.exceptions import ExceptionVariable, new_os_error, refuse_fields
from tracer.variables.functions import UserFunctionVariable
from tracer.variables.instance_dict import InstanceDictVariable
from tracer.variables.iterators import SequenceIterator
from tracer.variables.literals import from_python
from tracer.variables.lookups import MISSING, defines, lookup, storage_base
from tracer.variables.made_classes import MadeClassVariable
from tracer.variables.mappings import DictVariable
from tracer.variables.objects import UserObjectVariable
from tracer.variables.overrides import is_traceable_subclass
from tracer.variables.protocol import Tracer
from tracer.variables.sequences import ListVariable, NamedTupleVariable, TupleVariable
from tracer.variables.sets import SetVariable
from tracer.variables.symbolic import SymNodeVariable
from tracer.variables.tensor import TensorVariable
from tracer.variables.tuples import acts_as_tuple, is_generated
from tracer.variables.type_forms import subscripted, union_of
from tracer.variables.wrappers import is_wrapper_class

_PARTS = {"__func__": lambda raw: raw.__func__, "fget": lambda raw: raw.fget, "fset": lambda raw: raw.fset,
          "fdel": lambda raw: raw.fdel}  # fmt: skip
_HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class ObjectModel(BaseMethods):
    """What the object protocol needs beyond one variable. Mixed into the translator."""

    # -- classes and their attributes ------------------------------------------------------------------------------

    def class_variable(self, cls: type, of: VariableTracker | None = None) -> VariableTracker:
        """The class `cls`; when it was not met yet, reached through `of`, an instance of it."""
        tx: Any = self
        known = tx.trace.builder.known(cls)
        if known is not None:
            return known
        if of is not None and of.source is not None and of.python_type() is cls:
            return tx.wrap(cls, TypeSource(of.source))
        return tx.trace.builder.remember(cls, ClassVariable(cls))

    def class_source(self, cls: type, of: VariableTracker | None) -> Source | None:
        """How guards reach `cls`, a class in the MRO of `of` (an instance or a class)."""
        variable = self.class_variable(cls, of)
        if variable.source is not None:
            return variable.source
        if isinstance(of, ClassVariable):
            start = of
        elif of is not None and of.source is not None:
            start = self.class_variable(of.python_type(), of)  # type: ignore[assignment]
        else:
            return importable_source(cls)
        if start.source is None:
            return importable_source(cls)
        index = next((index for index, base in enumerate(start.value.__mro__) if base is cls), None)
        return importable_source(cls) if index is None else mro_source(start.source, index)

    def class_attr(self, owner: type, name: str, of: VariableTracker | None, part: str | None = None) -> VariableTracker:
        """The raw attribute `name` of class `owner` (or its function, for a property or classmethod)."""
        tx: Any = self
        owner_variable = tx.trace.builder.known(owner)
        if owner_variable is not None:
            stored = tx.effects.attribute(owner_variable, name)
            if stored is not None:
                return stored
        raw = owner.__dict__[name]
        value = raw if part is None else _PARTS[part](raw)
        if id(owner) in tx.trace.findings.made and id(value) in tx.trace.stand_ins:
            return tx.trace.stand_ins[id(value)][1]
        class_source = self.class_source(owner, of)
        if class_source is None:
            return self.sourceless(value)
        source: Source = ClassAttrSource(class_source, name)
        if part is not None:
            source = GenericAttrSource(source, part)
        found = tx.wrap(value, source)
        if isinstance(found, SymNodeVariable):
            tx.trace.findings.varying.add((id(owner), name))
        return found

    def class_text(self, of: ClassVariable, name: str) -> VariableTracker:
        """One of the names of a class, or its docstring: guarded, but where nobody is expected to change it. Classes have no new
        version when their name is assigned."""
        tx: Any = self
        text = type.__getattribute__(of.value, name)
        source = None if id(of.value) in tx.trace.findings.made or lasts(of.value) else self.class_source(of.value, of)
        return from_python(text) if source is None else tx.wrap(text, GenericAttrSource(source, name))

    def sourceless(self, value: Any) -> VariableTracker:
        """A class attribute of a class that no guard can reach, which is fixed as long as the code is."""
        tx: Any = self
        if is_a(value, types.FunctionType):
            return UserFunctionVariable(value, None)
        if is_a(value, type):
            return ClassVariable(value)
        if callable(value):
            return CallableVariable(value)
        return tx.literal(value)

    def class_tuple(self, of: ClassVariable, classes: tuple[type, ...]) -> VariableTracker:
        return TupleVariable([self.class_variable(cls) for cls in classes])

    def class_getitem(self, cls: ClassVariable, key: VariableTracker) -> VariableTracker:
        tx: Any = self
        value = cls.value
        if lookup(type(value), "__getitem__")[1] is _ENUM_GETITEM and key.is_constant():
            return fold(tx, value._member_map_.__getitem__, key.constant())  # type: ignore[attr-defined]
        owner, method = lookup(value, "__class_getitem__")
        if isinstance(method, classmethod) and isinstance(method.__func__, types.FunctionType) and owner is not Generic:
            return cls.get_attr(tx, "__class_getitem__").call(tx, [key], {})
        if method is MISSING and value is not type:
            unsupported("unsupported-subscript", value=cls.describe(), key=key.describe())
        return subscripted(tx, cls, key)

    def union_of(self, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        tx: Any = self
        return union_of(tx, left, right)

    def iterate_class(self, cls: ClassVariable) -> SequenceIterator:
        tx: Tracer = cast(Any, self)
        if isinstance(cls.value, enum.EnumMeta):
            return SequenceIterator(TupleVariable(members(tx, cls.value)))
        tx.raise_error(TypeError, f"{type(cls.value).__name__!r} object is not iterable")

    # -- instances -------------------------------------------------------------------------------------------------

    def instantiate(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """cls(*args, **kwargs)"""
        tx: Any = self
        value = cls.value
        model = model_of(value)
        if model is not None:
            return invoke(model, (tx, *args), kwargs)
        owner, call = lookup(type(value), "__call__")
        if call is _ENUM_CALL:
            return self._enum_member(cls, args, kwargs)
        if isinstance(call, types.FunctionType):
            of = self.class_variable(type(value), cls)
            return BoundMethodVariable(self.class_attr(owner, "__call__", of), cls).call(tx, args, kwargs)  # type: ignore[arg-type]
        if isinstance(call, type):  # typing.TypedDict: dict
            return self.class_variable(call).call(tx, args, kwargs)
        if call is not _TYPE_CALL:
            unsupported("unsupported-call", value=f"class {value.__qualname__}, whose metaclass has its own __call__")
        if value is torch.Tensor:
            return tx.new_tensor(value, args) if not kwargs else unsupported("call-arguments", error="keywords")
        if issubclass(value, torch.Tensor) and not is_traceable_subclass(value):
            if tx.output.runs_as_written and is_wrapper_class(value):
                return made_wrapper(tx, value, lambda: self.type_call(cls, args, kwargs), args, kwargs)
            unsupported("tensor-subclass", cls=value.__qualname__, source="a constructor call")
        if issubclass(value, tuple) and lookup(value, "__new__")[0] is lookup(value, "_fields")[0] and acts_as_tuple(value):
            return self._named_tuple(cls, args, kwargs)
        if value.__flags__ & _NOT_MADE_BY_CALLS:
            unsupported("unsupported-call", value=f"class {value.__qualname__}, which C alone makes instances of")
        if not is_heap_type(value) and not issubclass(value, BaseException):
            return tx.call_library(CallableVariable(value, cls.source), args, kwargs)
        return self.type_call(cls, args, kwargs)

    def _enum_member(
        self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """cls(value); with more arguments, or of an enum without members, a class is made."""
        tx: Any = self
        if len(args) + len(kwargs) != 1 or kwargs.keys() - {"value"} or not cls.value._member_map_:  # type: ignore[attr-defined]
            unsupported("makes-a-class", function=cls.value.__qualname__)
        return member_of_value(tx, cls.value, *args, *kwargs.values())

    def type_call(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """type.__call__: __new__, then __init__ if that gave an instance."""
        tx: Any = self
        value = cls.value
        owner, static = lookup(value, "__new__")
        if is_a(static, staticmethod) and isinstance(static.__func__, types.FunctionType):
            instance = self.class_attr(owner, "__new__", cls, part="__func__").call(tx, [cls, *args], kwargs)  # type: ignore[arg-type]
            if not issubclass(instance.python_type(), value):
                return instance
        elif kwargs and issubclass(value, torch.Tensor):
            unsupported("tensor-subclass", cls=value.__qualname__, source="a constructor call with keywords")
        else:
            instance = self.new_object(cls, args, kwargs)
        owner, static = lookup(value, "__init__")
        if is_a(static, types.FunctionType):
            init = self.class_attr(owner, "__init__", cls)  # type: ignore[arg-type]
            if issubclass(value, torch.Tensor) and is_disabled_by_torch(static):
                init = tx.wrap(static.__wrapped__, GenericAttrSource(init.source, "__wrapped__"))  # type: ignore[arg-type]
            result = init.call(tx, [instance, *args], kwargs)
            if not result.is_none():
                tx.raise_error(TypeError, f"__init__() should return None, not '{result.python_type().__name__}'")
        elif not isinstance(instance, TensorVariable):
            self.call_base_method(owner, "__init__", instance, args, kwargs)  # type: ignore[arg-type]
        return instance

    def new_object(self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """An instance as the `__new__` of a built-in base makes it."""
        if issubclass(cls.value, type):
            return cast(Any, self).new_class(cls, args, kwargs)
        made = self._new_object(cls, args, kwargs)
        if isinstance(cls, MadeClassVariable):
            made.made_class = cls
        return made

    def _new_object(
        self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> UserObjectVariable:
        tx: Any = self
        value = cls.value
        self._refuse_abstract(value)
        if lookup(value, "__del__")[0] is not None:  # runs when the last reference goes
            unsupported("unsupported-call", value=f"class {value.__qualname__}, which has __del__")
        if issubclass(value, BaseExceptionGroup):
            return new_group(tx, value, args)
        if issubclass(value, BaseException):
            if issubclass(value, OSError):
                return new_os_error(tx, value, args)
            refuse_fields(value)
            return ExceptionVariable(value, args=args)
        if issubclass(value, torch.Tensor):
            return tx.new_tensor(value, args)
        base = storage_base(value)
        if not issubclass(base, lookup(value, "__new__")[0]) and not _has_python_new(value):  # type: ignore[arg-type]
            unsupported("unsupported-call", value=f"class {value.__qualname__}, whose instances are made in C")
        if base is object:
            if (args or kwargs) and lookup(value, "__new__")[0] is not object:
                tx.raise_error(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
            if (args or kwargs) and lookup(value, "__init__")[0] is object:
                tx.raise_error(TypeError, f"{value.__name__}() takes no arguments")
            return UserObjectVariable(value)
        if base is tuple:
            return UserObjectVariable(value, storage=TupleVariable(args[0].unpack(tx) if args else []))
        if base is list:
            return UserObjectVariable(value, storage=ListVariable([]))
        if issubclass(base, dict):
            return UserObjectVariable(value, storage=DictVariable({}, cls=base))
        if base is set:
            return UserObjectVariable(value, storage=SetVariable({}))
        if base is collections.deque:
            return UserObjectVariable(value, storage=DequeVariable([]))
        if base in guards.PLAIN_VALUES:
            plain = self.class_variable(base).call(tx, args, {})
            if type(plain) is ConstantVariable:
                return UserObjectVariable(value, storage=ConstantVariable(plain.value))
        unsupported("unsupported-call", value=f"class {value.__qualname__}, derived from {base.__name__}")

    def _refuse_abstract(self, cls: type) -> None:
        """As object.__new__ does."""
        tx: Any = self
        if lookup(cls, "__abstractmethods__")[0] is cls and cls.__abstractmethods__ and storage_base(cls) is object:  # type: ignore[attr-defined]
            names = sorted(cls.__abstractmethods__)  # type: ignore[attr-defined]
            what = f"method{'s' * (len(names) > 1)} {', '.join(names)}"
            tx.raise_error(TypeError, f"Can't instantiate abstract class {cls.__name__} with abstract {what}")

    def _named_tuple(
        self, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        tx: Any = self
        fields = cls.value._fields  # type: ignore[attr-defined]
        owner, static = lookup(cls.value, "__new__")
        values = dict(zip(fields, args)) | kwargs
        if len(values) < len(fields):
            if id(cls.value) in tx.trace.findings.made:
                defaults = [meaning(tx, default) for default in static.__func__.__defaults__ or ()]
            else:
                defaults = self.class_attr(owner, "__new__", cls, part="__func__").defaults(tx)  # type: ignore[arg-type,attr-defined]
            values = dict(zip(fields[::-1], defaults[::-1])) | values
        if len(args) > len(fields) or set(values) != set(fields) or kwargs.keys() & set(fields[: len(args)]):
            unsupported("unsupported-call", value=f"named tuple {cls.value.__qualname__}")
        return NamedTupleVariable([values[name] for name in fields], cls.value)

    def named_tuple_attr(self, owner: NamedTupleVariable, name: str) -> VariableTracker:
        tx: Any = self
        base, static = lookup(owner.cls, name)
        if static is MISSING:
            tx.raise_error(AttributeError, f"{owner.cls.__name__!r} object has no attribute {name!r}")
        if is_a(static, property):
            return self.class_attr(base, name, owner, part="fget").call(tx, [owner], {})  # type: ignore[arg-type]
        if is_a(static, types.FunctionType) and not (name in ("_replace", "_asdict") and is_generated(static)):
            return BoundMethodVariable(self.class_attr(base, name, owner), owner)  # type: ignore[arg-type]
        if is_a(static, staticmethod):
            return self.class_attr(base, name, owner, part="__func__")  # type: ignore[arg-type]
        if is_a(static, classmethod):
            function = self.class_attr(base, name, owner, part="__func__")  # type: ignore[arg-type]
            return BoundMethodVariable(function, self.class_variable(owner.cls, owner))
        if not defines(type(static), "__get__"):
            return self.class_attr(base, name, owner)  # type: ignore[arg-type]
        return BuiltinMethodVariable(owner, name)

    def instance_attr(self, owner: VariableTracker, value: Any, name: str) -> VariableTracker:
        """A plain attribute that the user hung on an existing object of a built-in class (a tensor)."""
        tx: Tracer = cast(Any, self)
        assert owner.source is not None
        attributes = getattr(value, "__dict__", {})
        if name in attributes:
            return tx.wrap(attributes[name], AttrSource(owner.source, name))
        self.guard_absent(owner, name)
        tx.raise_error(AttributeError, f"{type(value).__name__!r} object has no attribute {name!r}")

    def instance_dict(self, owner: VariableTracker, value: Any) -> VariableTracker:
        return InstanceDictVariable(owner, value)

    def guard_absent(self, owner: VariableTracker, name: str) -> None:
        """The instance dict of an existing object has no entry `name`."""
        tx: Any = self
        if owner.source is not None:
            tx.guard(guards.HasAttr(owner.source, name, False))

    def guard_identity(self, function: UserFunctionVariable) -> None:
        """Nested functions are guarded by their code; where the object itself counts, by identity too."""
        tx: Any = self
        if function.source is not None:
            tx.guard(guards.FunctionMatch(function.source, function.value))

    def guard_globals(self, function: UserFunctionVariable) -> None:
        """What names mean in a function that is guarded by its code: in others of the same code they may be other globals."""
        tx: Any = self
        namespace = namespace_source(function.globals, tx.frames()[0].globals)
        if namespace is not None and function.source is not None:
            tx.guard(guards.SameObject(namespace, FunctionNamespaceSource(function.source)))

    def delete_attribute(self, owner: VariableTracker, name: str) -> None:
        tx: Any = self
        tx.effects.delete_attribute(owner, name, _existed(tx, owner, name))

    def tensor_grad(self, tensor: Any) -> VariableTracker:
        tx: Any = self
        real = tx.output.inputs[tensor.source].real
        return tx.wrap(real.grad, GradSource(tensor.source))

    # -- nn.Module -----------------------------------------------------------------------------------------------------

    def module_call(self, module: UserObjectVariable) -> VariableTracker | None:
        """A call of a module without hooks is a call of its `forward`: nn.Module.__call__ does nothing else then."""
        tx: Any = self
        cls = module.cls
        if module.value is not None and "_tracer_stands_for" in cls.__dict__:
            return self._call_stood_for(module)
        if not issubclass(cls, torch.nn.Module) or lookup(cls, "__call__")[1] is not _MODULE_CALL:
            return None
        if lookup(cls, "_call_impl")[1] is not _MODULE_CALL_IMPL or module.value is None:
            return None
        if module.instance_attr(tx, "_call_impl") is not None:
            return None
        if any(self._hooks_of_all(table).truth(tx) for table in _GLOBAL_HOOK_TABLES):
            return None
        for table in _HOOK_TABLES:
            hooks = module.instance_attr(tx, table)
            if hooks is None or hooks.truth(tx):
                return None
        compiled = module.get_attr(tx, "_compiled_call_impl")
        if not compiled.is_none():
            if not hasattr(compiled.python_type(), "_tracer_stands_for"):
                return None
        return module.get_attr(tx, "forward")

    def refuse_backward_hooks(self, module: VariableTracker, args: list[VariableTracker]) -> None:
        """The nodes of autograd on which torch sets backward hooks of a module do not exist while tracing: CPython makes the
        call, of which the module's `forward` is a frame of its own."""
        tx: Any = self
        real: Any = getattr(module, "value", None)
        if not isinstance(module, UserObjectVariable) or not is_a(real, torch.nn.Module) or not torch.is_grad_enabled():
            return
        own = [module.instance_attr(tx, table) for table in _HOOK_TABLES if "backward" in table]
        of_all = [self._hooks_of_all(table) for table in _GLOBAL_HOOK_TABLES if "backward" in table]
        tables = [table for table in (*own, *of_all) if table is not None]
        if not any(table.truth(tx) for table in tables):
            return
        needs = any(isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in args)
        if needs or any(parameter.requires_grad for parameter in real.parameters()):
            read = {table.source for table in tables}
            about_hooks = tuple(guard for guard in tx.output.guards if not read.isdisjoint(guard.sources()))
            unsupported("unsupported-module", value=f"{module.describe()}, which has backward hooks,", relies_on=about_hooks)

    def _hooks_of_all(self, table: str) -> VariableTracker:
        """Those of all modules."""
        tx: Any = self
        return tx.wrap(getattr(torch.nn.modules.module, table), ModuleGlobalsSource(_MODULE_FILE, table))

    def _call_stood_for(self, made: UserObjectVariable) -> VariableTracker:
        """What the user wrote, of an object that the tracer's decorators made of it."""
        tx: Any = self
        first, *rest = made.value._tracer_stands_for()
        found = made.instance_attr(tx, first) or made.get_attr(tx, first)
        for name in rest:
            found = found.get_attr(tx, name)
        return found


_NOT_MADE_BY_CALLS = 1 << 7  # Py_TPFLAGS_DISALLOW_INSTANTIATION
_ENUM_CALL = enum.EnumMeta.__dict__["__call__"]
_ENUM_GETITEM = enum.EnumMeta.__dict__["__getitem__"]
_TYPE_CALL = type.__dict__["__call__"]
_MODULE_CALL = torch.nn.Module.__dict__["__call__"]
_MODULE_CALL_IMPL = torch.nn.Module.__dict__["_call_impl"]
MODULE_CALLS = (_MODULE_CALL.__code__, _MODULE_CALL_IMPL.__code__)
_MODULE_FILE = "torch.nn.modules.module"
_GLOBAL_HOOK_TABLES = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks",
)  # fmt: skip


def _existed(tx: Any, owner: VariableTracker, name: str) -> bool:
    """Whether an object had an attribute of its own before the frame ran."""
    if owner.source is None:
        return False
    value = owner.real(tx) if isinstance(owner, TensorVariable) else getattr(owner, "value", None)
    try:
        _C.raw_attr(value, name)
    except AttributeError:
        return False
    return True


def _has_python_new(cls: type) -> bool:
    static = lookup(cls, "__new__")[1]
    return is_a(static, staticmethod) and isinstance(static.__func__, types.FunctionType)


def importable_source(cls: type) -> Source | None:
    """The class as a global of the module that defines it, if it is one."""
    module = sys.modules.get(cls.__module__)
    if module is not None and vars(module).get(cls.__name__) is cls:
        return ModuleGlobalsSource(cls.__module__, cls.__name__)
    return None


def mro_source(source: Source, index: int) -> Source:
    return ItemSource(GenericAttrSource(source, "__mro__"), index)
