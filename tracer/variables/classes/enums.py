"""Members of enums. They are constants, but methods that the user wrote for them are traced."""

from __future__ import annotations

import enum
import inspect
import types
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import C_METHOD_TYPES, MISSING, defines, lookup
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.sources.attributes import AttrSource
from tracer.sources.reading import is_a
from tracer.sources.roots import ObjectSource
from tracer.variables.functions.callables import BoundMethodVariable, BuiltinMethodVariable
from tracer.variables.iteration import SequenceIterator
from tracer.variables.slots import UNARY_DUNDER
from tracer.variables.text import Rendered
from tracer.variables.values.constant import ConstantVariable, boolean, fold, is_constant_value
from tracer.variables.values.special_results import checked_iterator, checked_length, checked_truth

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_TEXTS = ("__str__", "__repr__", "__format__")


def is_written_by_user(static: Any) -> bool:
    """Whether a class attribute is a function that is not the enum module's own."""
    return is_a(static, types.FunctionType) and static.__module__ != enum.__name__


class EnumMemberVariable(ConstantVariable):
    __slots__ = ()

    value: enum.Enum

    def _special(self, tx: Tracer, name: str, args: Any, error: str = "") -> Any:
        """The result of a special method that the user wrote; None if there is no such method or it returns NotImplemented."""
        owner, static = lookup(type(self.value), name)
        if not is_written_by_user(static):
            return None
        result = BoundMethodVariable(tx.class_attr(owner, name, None), self).call(tx, list(args), {})
        return None if result.is_constant() and result.constant() is NotImplemented else result

    def graph_arg(self) -> Any:
        """The plain number or string, for a member that is one as well (IntEnum, StrEnum)."""
        for base in (int, float, str):
            if isinstance(self.value, base):
                return base.__pos__(self.value) if base is not str else str.__str__(self.value)
        return self.value

    def reconstruct(self, cg: ValueCodegen) -> None:
        member = self.value
        if not cg.is_made(type(member)):
            super().reconstruct(cg)
            return
        key = member._name_ if member._name_ in type(member)._member_map_ else member._value_
        find = _member_by_name if key is member._name_ else _member_by_value
        cg.call_object(find, lambda: cg.load_class(type(member)), lambda: cg.load_const(key))

    def hash_key(self, tx: Tracer) -> Any:
        for name in ("__hash__", "__eq__"):
            if is_written_by_user(lookup(type(self.value), name)[1]):
                unsupported("unhashable-in-trace", value=self.describe())
        return super().hash_key(tx)

    # -- operators -----------------------------------------------------------------------------------------------

    def truth(self, tx: Tracer) -> bool:
        result = self._special(tx, "__bool__", [])
        if result is not None:
            return checked_truth(tx, result)
        length = self._special(tx, "__len__", [])
        return super().truth(tx) if length is None else checked_length(tx, length).truth(tx)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        name = tx.dunder(op, "r" if reflected else "")
        if is_written_by_user(lookup(type(self.value), name)[1]):
            result: VariableTracker | None = self._special(tx, name, [other])
            return result
        return super().binary(tx, op, other, reflected)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        name = tx.dunder(op)
        if is_written_by_user(lookup(type(self.value), name)[1]):
            result: VariableTracker | None = self._special(tx, name, [other])
            return result
        if op == "!=" and is_written_by_user(lookup(type(self.value), "__eq__")[1]):
            equal = self._special(tx, "__eq__", [other])
            return None if equal is None else boolean(not equal.truth(tx))
        return super().compare(tx, op, other)

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return self._special(tx, UNARY_DUNDER[op], []) or super().unary(tx, op)

    def length(self, tx: Tracer) -> VariableTracker:
        result = self._special(tx, "__len__", [])
        return super().length(tx) if result is None else checked_length(tx, result)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return self._special(tx, "__getitem__", [key]) or super().get_item(tx, key)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        result = self._special(tx, "__contains__", [item])
        return super().contains(tx, item) if result is None else boolean(result.truth(tx))

    def iterate(self, tx: Tracer) -> VariableTracker:
        made = self._special(tx, "__iter__", [])
        if made is not None:
            return checked_iterator(tx, made)
        if isinstance(self.value, enum.Flag):
            return SequenceIterator(tx.tuple_of(map(tx.literal, self.value)))
        return super().iterate(tx)

    # -- text ----------------------------------------------------------------------------------------------------

    def form(self, tx: Tracer) -> Any:
        written = any(is_written_by_user(lookup(type(self.value), name)[1]) for name in _TEXTS)
        return Rendered(tx, self) if written else self.value

    def text(self, tx: Tracer, kind: str) -> str:
        for name in ("__str__", "__repr__") if kind == "str" else ("__repr__",):
            static = lookup(type(self.value), name)[1]
            if is_written_by_user(static):
                text: str = self._special(tx, name, []).constant()
                return text
            if static is not enum.Enum.__str__:  # Enum.__str__ shows the names of class and member
                break
        return str(self.value) if kind == "str" else repr(self.value)

    def format(self, tx: Tracer, spec: str) -> str:
        made = self._special(tx, "__format__", [ConstantVariable(spec)])
        if made is not None:
            text: str = made.constant()
            return text
        if lookup(type(self.value), "__format__")[0] is enum.Enum:  # str.__format__(str(self), spec)
            return self.text(tx, "str").__format__(spec)
        return self.value.__format__(spec)

    # -- attributes and calls ------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        value, cls = self.value, type(self.value)
        owner, static = lookup(cls, name)
        if name == "__class__":
            return tx.class_variable(cls, self)
        if is_a(static, (property, types.DynamicClassAttribute)):
            if getattr(static.fget, "__module__", None) == enum.__name__:  # name, value
                return self._part(tx, f"_{name}_") if name in ("name", "value") else fold(tx, getattr, value, name)
            if static.fget is not None:
                return tx.class_attr(owner, name, None, part="fget").call(tx, [self], {})
        if name in vars(value):
            return self._part(tx, name)
        if is_a(static, types.FunctionType):
            return BoundMethodVariable(tx.class_attr(owner, name, None), self)
        if is_a(static, (staticmethod, classmethod)):
            function = tx.class_attr(owner, name, None, part="__func__")
            if is_a(static, staticmethod):
                return function
            return BoundMethodVariable(function, tx.class_variable(cls, self))
        if is_a(static, C_METHOD_TYPES):
            return BuiltinMethodVariable(self, name)
        if static is MISSING:
            if lookup(cls, "__getattr__")[1] is not MISSING:
                return self._special(tx, "__getattr__", [ConstantVariable(name)]) or super().get_attr(tx, name)
            tx.raise_error(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")
        if is_a(static, types.GetSetDescriptorType) and is_constant_value(getattr(value, name)):  # real, imag
            return tx.literal(getattr(value, name))
        if defines(type(static), "__get__"):
            unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)
        return tx.class_attr(owner, name, None)

    def _part(self, tx: Tracer, name: str) -> VariableTracker:
        """An attribute in the member's own dict."""
        part = vars(self.value).get(name)
        if is_constant_value(part) and name in ("_name_", "_value_"):
            return tx.literal(part)
        source = self.source or ObjectSource(self.value, f"{type(self.value).__qualname__}.{self.value._name_}")
        return tx.wrap(part, AttrSource(source, name))

    def resolve_call(
        self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> tuple[VariableTracker, list[VariableTracker], dict[str, VariableTracker]]:
        owner, static = lookup(type(self.value), "__call__")
        if not is_a(static, types.FunctionType):
            return self, args, kwargs
        return tx.class_attr(owner, "__call__", None).resolve_call(tx, [self, *args], kwargs)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        target, args, kwargs = self.resolve_call(tx, args, kwargs)
        if target is self:
            tx.raise_error(TypeError, f"{type(self.value).__name__!r} object is not callable")
        return target.call(tx, args, kwargs)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if isinstance(lookup(type(self.value), name)[1], C_METHOD_TYPES) and name not in vars(self.value):
            return super().call_method(tx, name, args, kwargs)
        return self.get_attr(tx, name).call(tx, args, kwargs)


def _member_by_name(cls: Any, name: str) -> Any:
    """Called by output code, of a class that it has made."""
    return cls._member_map_[name]


def _member_by_value(cls: Any, value: Any) -> Any:
    """Called by output code: a union of flags."""
    return enum.EnumMeta.__call__(cls, value)


def constant_of(value: Any, source: Source | None = None) -> ConstantVariable:
    return (EnumMemberVariable if isinstance(value, enum.Enum) else ConstantVariable)(value, source)


# -- the classes -------------------------------------------------------------------------------------------------------


def members(tx: Tracer, cls: Any) -> list[VariableTracker]:
    """The members of an enum in the order of iteration."""
    if is_written_by_user(lookup(type(cls), "__iter__")[1]):
        unsupported("unsupported-iteration", value=cls.__qualname__)
    return [EnumMemberVariable(member) for member in enum.EnumMeta.__iter__(cls)]


def member_of_name(tx: Tracer, cls: Any, name: str) -> VariableTracker | None:
    """The member that `cls.name` reads; None if the name is not that of a member or something else overrides it."""
    known = cls._member_map_
    if not is_a(known, dict):  # the class is still being made
        return None
    member = known.get(name)
    static = lookup(cls, name)[1]
    plain = static is member or (is_a(static, enum.property) and static.fget is None)
    return EnumMemberVariable(member) if member is not None and plain else None


#: Whether `value in cls` asks for values of members, as it does from 3.12 on. Before, it warns and raises for what is no member.
_CONTAINS_VALUES = "value" in inspect.signature(enum.EnumMeta.__contains__).parameters


def has_value(cls: Any, value: VariableTracker) -> bool | None:
    """`value in cls`, of a constant that is no member; None where that depends on code of the program (some versions ask
    `_missing_`), or on which unions of flags were made before."""
    known = cls._value2member_map_
    if not _CONTAINS_VALUES or not value.is_constant() or lookup(type(cls), "__contains__")[0] is not enum.EnumMeta:
        return None
    if not all(is_constant_value(member._value_) for member in cls._member_map_.values()):
        return None
    if value.constant() in known:
        return True
    asks = issubclass(cls, enum.Flag) or is_written_by_user(getattr(lookup(cls, "_missing_")[1], "__func__", None))
    return None if asks else False


def _leads_to(tx: Tracer, error: Any, not_valid: str) -> None:
    """Sets the ValueError for an invalid value as the context of the error that `_missing_` raised."""
    if issubclass(error.cls, Exception) and not issubclass(error.cls, ValueError):
        error.default_set_attr(tx, "__context__", tx.new_exception(ValueError, tx.literal(not_valid)))


def member_of_value(tx: Tracer, cls: Any, value: VariableTracker) -> VariableTracker:
    """`cls(value)`"""
    value = value.specialize(tx)
    if not value.is_constant():
        unsupported("not-a-constant", value=value.describe())
    owner, static = lookup(cls, "_missing_")
    if not is_written_by_user(getattr(static, "__func__", None)):
        return fold(tx, enum.EnumMeta.__call__, cls, value.constant())
    constant = value.constant()
    for member in cls._member_map_.values():
        if constant is member or constant == member._value_:
            return EnumMemberVariable(member)
    variable = tx.class_variable(cls)
    missing = BoundMethodVariable(tx.class_attr(owner, "_missing_", variable, part="__func__"), variable)
    try:
        found = missing.call(tx, [value], {})
    except ObservedException as raised:
        _leads_to(tx, raised.value, f"{constant!r} is not a valid {cls.__qualname__}")
        raise
    if isinstance(found, EnumMemberVariable) and isinstance(found.value, cls):
        return found
    if found.is_none():
        tx.raise_error(ValueError, f"{constant!r} is not a valid {cls.__qualname__}")
    unsupported("unsupported-call", value=f"{cls.__qualname__}._missing_, which gives {found.describe()}")
