"""isinstance and issubclass: by the MRO, by the registries of abstract base classes, by protocols, and by the hooks that a
metaclass defines in Python, which are traced through."""

from __future__ import annotations

import _abc
import abc
import sys
import types
import typing
import weakref
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.guards.state import AbcRegistryMatch
from tracer.protocol.lookups import MISSING, is_data_descriptor, lookup, rely_on_answer, rely_on_bases
from tracer.protocol.models import models
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.sources.reading import is_a
from tracer.variables.builders.weak_references import WeakProxyVariable
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.type_forms import made
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.objects.instances import InstanceVariable
from tracer.variables.values.constant import boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

# Instance checks that use only the class of the object and, for a tensor, one of these attributes.
_FLAGS = {id(torch.nn.Parameter): "_is_param", id(torch.nn.Buffer): "_is_buffer"}
_BY_CLASS = frozenset(
    (type.__instancecheck__, abc.ABCMeta.__instancecheck__)
    + tuple(type(cls).__instancecheck__ for cls in (torch.nn.Parameter, torch.nn.Buffer, torch.Tensor))
)
_CHECK_OF_OLD_CLASSES: Any = type(torch.FloatTensor).__instancecheck__  # by dtype, device and layout
_UNSUBSCRIPTED: type = typing._SpecialGenericAlias  # type: ignore[attr-defined]  # typing.List and the like
_UNIONS = (types.UnionType, type(typing.Optional[int]))  # noqa: UP045  (typing's own kind, one with the other since 3.14)
_PROTOCOL_CHECK = type(typing.Protocol).__instancecheck__
# From Python 3.12 on: attributes count that the object or its class holds, and none that its code would compute.
_LOOKS_STATICALLY = any("getattr_static" in name for name in _PROTOCOL_CHECK.__code__.co_varnames)


@models(isinstance)
def _isinstance(tx: Tracer, value: Value, classes: Value, /) -> Value:
    return boolean(any(is_instance(tx, value, cls) for cls in _classes(tx, classes)))


@models(issubclass)
def _issubclass(tx: Tracer, cls: Value, classes: Value, /) -> Value:
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-builtin", function="issubclass of something else than a class")
    return boolean(any(is_subclass(tx, cls, base) for base in _classes(tx, classes)))


def is_instance(tx: Tracer, value: Value, cls: ClassVariable) -> bool:
    kind = value.python_type()
    if kind is cls.value:
        return True
    owner, check = lookup(type(cls.value), "__instancecheck__")
    if isinstance(value, WeakProxyVariable) and check in _BY_CLASS:
        return is_instance(tx, value.proxied(tx), cls)
    _refuse_own_class(value, kind)
    if check is _PROTOCOL_CHECK:
        return _has_protocol(tx, value, kind, cls)
    if check in _BY_CLASS:
        flag = _FLAGS.get(id(cls.value))
        if flag is not None and issubclass(kind, torch.Tensor):
            attribute = find_attr(tx, value, flag)
            if attribute is not None and attribute.truth(tx):
                return True
        return is_subclass(tx, tx.class_variable(kind, value), cls)
    if check is _CHECK_OF_OLD_CLASSES:
        return issubclass(kind, torch.Tensor) and value.call_method(tx, "type", [], {}).constant() == _old_name(cls.value)
    if not isinstance(check, types.FunctionType):
        unsupported("unsupported-builtin", function=f"isinstance with {cls.describe()}")
    function = tx.class_attr(owner, "__instancecheck__", None)
    return function.call(tx, [cls, value], {}).truth(tx)


def _old_name(cls: type) -> str:
    """What `tensor.type()` says of tensors that are instances of a class such as torch.FloatTensor."""
    return f"{cls.__module__}.{cls.__name__}"


def is_of(value: Value, kinds: type | tuple[type, ...]) -> bool:
    """isinstance, for `kinds` whose instance check uses only the class of the object."""
    kind = value.python_type()
    if issubclass(kind, kinds):
        return True
    _refuse_own_class(value, kind)
    return False


def _refuse_own_class(value: Value, kind: type) -> None:
    if kind is weakref.ProxyType or kind is weakref.CallableProxyType or _says_its_class(kind):
        unsupported("unsupported-builtin", function=f"isinstance of {value.describe()}, which has its own __class__")


def _says_its_class(kind: type) -> bool:
    """Whether reading `__class__` may run code of the program. isinstance reads it if the type itself does not match."""
    return lookup(kind, "__class__")[0] is not object or isinstance(lookup(kind, "__getattribute__")[1], types.FunctionType)


def is_subclass(tx: Tracer, cls: ClassVariable, base: ClassVariable) -> bool:
    owner, check = lookup(type(base.value), "__subclasscheck__")
    if check is type.__subclasscheck__:
        rely_on_bases(cls.value)
        return any(each is base.value for each in cls.value.__mro__)
    if check is abc.ABCMeta.__subclasscheck__:
        return _is_registered(tx, cls.value, base.value)
    if not isinstance(check, types.FunctionType):
        unsupported("unsupported-builtin", function=f"issubclass with {base.describe()}")
    function = tx.class_attr(owner, "__subclasscheck__", None)
    return function.call(tx, [base, cls], {}).truth(tx)


def _is_registered(tx: Tracer, cls: type, base: type) -> bool:
    """The answer of issubclass for an abstract base class, guarded against later registrations."""
    rely_on_bases(cls)
    tx.guard(AbcRegistryMatch())
    hook = lookup(base, "__subclasshook__")[1]
    function = getattr(hook, "__func__", hook)
    answered: Any = NotImplemented
    if isinstance(function, types.FunctionType) and not _of_the_standard_library(function):
        answered = _answer_of_hook(tx, cls, base)
    try:
        answer = answer_of_abc(cls, base)
        by_itself = base in cls.__mro__ or base.__subclasshook__(cls) is True
        if answer and id(cls) in tx.trace.findings.recreated and not by_itself:
            unsupported("unsupported-builtin", function=f"issubclass of {cls.__qualname__}, which was registered")
        if answered not in (answer, NotImplemented):  # abc remembers what the hook has said before
            unsupported("unsupported-builtin", function=f"issubclass with {base.__qualname__}, which has a __subclasshook__")
        rely_on_answer(cls, base, answer)
        return answer
    except TypeError as error:  # the protocol is not @runtime_checkable
        tx.raise_error(TypeError, *error.args)


def _answer_of_hook(tx: Tracer, cls: type, base: type) -> Any:
    """What the program's `__subclasshook__` answers. abc remembers answers and may not call it: it is traced for what it
    reads, and changes nothing."""
    name = f"issubclass with {base.__qualname__}, which has a __subclasshook__"

    def refuse(changed: Value | None) -> None:
        if changed is None or changed.source is not None:
            unsupported("unsupported-builtin", function=name)

    with tx.effects.observed_by(refuse):
        answer = tx.class_variable(base).get_attr(tx, "__subclasshook__").call(tx, [tx.class_variable(cls)], {})
    if not answer.is_constant():
        unsupported("unsupported-builtin", function=name)
    return answer.constant()


def answer_of_abc(cls: type, base: type) -> bool:
    """What abc answers in issubclass. A protocol with other members than methods asks it in isinstance alone (Python 3.12)."""
    return abc.ABCMeta.__subclasscheck__(base, cls)  # type: ignore[arg-type]  # base is of ABCMeta


def _of_the_standard_library(function: types.FunctionType) -> bool:
    return function.__module__.partition(".")[0] in sys.stdlib_module_names


def _has_protocol(tx: Tracer, value: Value, kind: type, cls: ClassVariable) -> bool:
    """typing._ProtocolMeta.__instancecheck__"""
    protocol: Any = cls.value
    if not getattr(protocol, "_is_protocol", False):
        return _is_registered(tx, kind, protocol)
    if not getattr(protocol, "_is_runtime_protocol", False):
        tx.raise_error(TypeError, "Instance and class checks can only be used with @runtime_checkable protocols")
    names = typing._get_protocol_attrs(protocol)  # type: ignore[attr-defined]  # private in typing
    for name in names if id(protocol) in tx.trace.findings.made else ():
        if isinstance(lookup(type(lookup(protocol, name)[1]), "__get__")[1], types.FunctionType):
            unsupported("unsupported-builtin", function=f"isinstance with {cls.describe()}, which has a descriptor")
    only_methods = all(callable(getattr(protocol, name, None)) for name in names)
    if (only_methods or _LOOKS_STATICALLY) and _is_registered(tx, kind, protocol):
        return True
    has = _has_statically if _LOOKS_STATICALLY else _has
    if all(has(tx, value, kind, name, not callable(getattr(protocol, name, None))) for name in names):
        return True
    return not _LOOKS_STATICALLY and not only_methods and _derives(tx, kind, protocol)


def _derives(tx: Tracer, kind: type, protocol: type) -> bool:
    """What abc answers of a protocol whose members tell nothing of a class."""
    rely_on_bases(kind)
    tx.guard(AbcRegistryMatch())
    registry = _abc._get_dump(protocol)[0]
    if registry:
        unsupported("unsupported-builtin", function=f"isinstance with {protocol.__qualname__}, for which classes are registered")
    return protocol in kind.__mro__


def _has(tx: Tracer, value: Value, kind: type, name: str, may_be_none: bool) -> bool:
    attribute = find_attr(tx, value, name)
    return attribute is not None and (may_be_none or not attribute.is_none())


def _has_statically(tx: Tracer, value: Value, kind: type, name: str, may_be_none: bool) -> bool:
    """Whether inspect.getattr_static finds an attribute, which runs no code of the program; None counts if it may be None."""
    static = lookup(kind, name)[1]
    if static is not MISSING and is_data_descriptor(static):
        return True
    if isinstance(value, InstanceVariable):
        own = value.instance_attr(tx, name)
        if own is not None:
            return may_be_none or not own.is_none()
    elif isinstance(value, ClassVariable) or kind.__dictoffset__ and (static is MISSING or not may_be_none):
        unsupported("unsupported-builtin", function=f"isinstance of {value.describe()} with a protocol")
    return static is not MISSING and (may_be_none or static is not None)


def find_attr(tx: Tracer, obj: Value, name: str) -> Value | None:
    """getattr(obj, name), or None if that raises AttributeError."""
    try:
        return obj.get_attr(tx, name)
    except ObservedException as raised:
        if is_exception(raised.value, AttributeError):
            return None
        raise


def _classes(tx: Tracer, value: Value) -> list[ClassVariable]:
    if isinstance(value, ClassVariable):
        return [value]
    if isinstance(value, TupleVariable):
        return [cls for item in value.items(tx) for cls in _classes(tx, item)]
    alias: Any = getattr(value, "value", None)
    if type(alias) in _UNIONS:
        parts = [tx.class_variable(part) if is_a(part, type) else made(part) for part in typing.get_args(alias)]
        return [cls for part in parts for cls in _classes(tx, part)]
    if is_a(alias, _UNSUBSCRIPTED):
        return [tx.class_variable(alias.__origin__)]
    unsupported("unsupported-builtin", function=f"isinstance with {value.describe()}")


@models(_abc._abc_instancecheck)
def _abc_instancecheck(tx: Tracer, cls: Value, value: Value, /) -> Value:
    return boolean(_is_registered(tx, value.python_type(), _classes(tx, cls)[0].value))


@models(_abc._abc_subclasscheck)
def _abc_subclasscheck(tx: Tracer, cls: Value, subclass: Value, /) -> Value:
    return boolean(_is_registered(tx, _classes(tx, subclass)[0].value, _classes(tx, cls)[0].value))
