"""The interface of every tracked value.

A `VariableTracker` represents one Python value of the traced program. The interpreter and the library use it through CPython's
abstract object protocol (attributes, calls, operators, iteration) only, and an operation that a family of values does not
implement breaks the graph. `interpreter/operators.py` decides in which order two operands are tried.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines, type_name

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source


def _of_no_container() -> str:
    no_container: Any = object()
    try:
        operator.contains(no_container, 0)
    except TypeError as error:
        return str(error).replace("'object'", "{!r}")
    raise AssertionError


#: What CPython says of `item in x`, given the name of x's class, in the words of the running version.
NO_CONTAINER = _of_no_container()


class ObservedException(Exception):
    """An exception of the traced program. It unwinds the traced frames until one of them handles it."""

    def __init__(self, value: VariableTracker, again: bool = False) -> None:
        super().__init__(value)
        self.value = value
        self.again = again  # re-raised: its traceback has the current frame already


class VariableTracker:
    """One value of the traced program. If it existed before the frame ran, `source` says where it came from."""

    source: Source | None = None
    holder: VariableTracker | None = None  # the instance of a list, dict, set or deque subclass whose items these are

    # -- what it is ----------------------------------------------------------------------------------------------

    def python_type(self) -> type:
        """The exact type: the field `cls`, in families whose values are of several types."""
        cls: type | None = getattr(self, "cls", None)
        return unsupported("unknown-type", value=self.describe()) if cls is None else cls

    def is_constant(self) -> bool:
        """Whether `constant()` returns the Python value, which is then fixed by the guards of this trace."""
        return False

    def is_none(self) -> bool:
        return self.is_constant() and self.constant() is None

    def constant(self) -> Any:
        unsupported("not-a-constant", value=self.describe())

    def specialize(self, tx: Tracer) -> VariableTracker:
        """The value itself; of a symbolic number, the constant that it is in this call, with a guard."""
        return self

    def graph_arg(self) -> Any:
        """The value as an argument of an FX node."""
        unsupported("not-a-graph-argument", value=self.describe())

    def hash_key(self, tx: Tracer) -> Any:
        """A Python object that is equal for two values exactly when CPython would hash and compare them equal."""
        unsupported("unhashable-in-trace", value=self.describe())

    def identity(self) -> Any:
        """An object whose identity is the identity of the traced value."""
        return self

    def describe(self) -> str:
        return type(self).__name__ if self.source is None else f"{type(self).__name__}({self.source.name})"

    def __repr__(self) -> str:
        return self.describe()

    def text(self, tx: Tracer, kind: str) -> str:
        """str(self) or repr(self), as `kind` says."""
        unsupported("format-of-runtime-value", value=self.describe())

    def format(self, tx: Tracer, spec: str) -> str:
        """format(self, spec)"""
        if spec:
            unsupported("format-of-runtime-value", value=self.describe())
        return self.text(tx, "str")

    # -- attributes ----------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        unsupported("unsupported-attribute-store", value=self.describe(), name=name)

    def del_attr(self, tx: Tracer, name: str) -> None:
        unsupported("unsupported-attribute-store", value=self.describe(), name=name)

    # -- calls ---------------------------------------------------------------------------------------------------

    def resolve_call(
        self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> tuple[VariableTracker, list[VariableTracker], dict[str, VariableTracker]]:
        """(callee, args, kwargs) after unwrapping bound methods, partials and `__call__`. The interpreter inlines this callee
        directly, so that it can also resume inside it."""
        return self, args, kwargs

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        unsupported("unsupported-call", value=self.describe())

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        return self.get_attr(tx, name).call(tx, args, kwargs)

    # -- operators: None means NotImplemented --------------------------------------------------------------------

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        return None

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return None

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return None

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return None

    def truth(self, tx: Tracer) -> bool:
        """bool(self). What has neither `__bool__` nor `__len__` is true."""
        cls = self.python_type()
        if defines(cls, "__bool__") or defines(cls, "__len__"):
            unsupported("unsupported-truth", value=self.describe())
        return True

    # -- containers and iteration --------------------------------------------------------------------------------

    def length(self, tx: Tracer) -> VariableTracker:
        return self._special(tx, "__len__", [], "object of type {!r} has no len()")

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return self._special(tx, "__getitem__", [key], "{!r} object is not subscriptable")

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self._special(tx, "__setitem__", [key, value], "{!r} object does not support item assignment")

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        self._special(tx, "__delitem__", [key], "{!r} object doesn't support item deletion")

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        cls = self.python_type()
        if not defines(cls, "__contains__") and (defines(cls, "__iter__") or defines(cls, "__getitem__")):
            return self.iterate(tx).contains(tx, item)
        return self._special(tx, "__contains__", [item], NO_CONTAINER)

    def _special(self, tx: Tracer, name: str, args: list[VariableTracker], error: str) -> VariableTracker:
        cls = self.python_type()
        if not defines(cls, name):
            tx.raise_error(TypeError, error.format(type_name(cls)))
        return self.call_method(tx, name, args, {})

    def iterate(self, tx: Tracer) -> VariableTracker:
        """iter(self)"""
        unsupported("unsupported-iteration", value=self.describe())

    def iterate_in_any_order(self, tx: Tracer) -> VariableTracker:
        """As `iterate`, for a caller whose result is the same in whatever order it is given ints or strings, no two of which are
        equal."""
        return self.iterate(tx)

    def next(self, tx: Tracer) -> VariableTracker | None:
        """next(self), None when exhausted."""
        unsupported("unsupported-iteration", value=self.describe())

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        """list(self)"""
        return self.iterate(tx).drain(tx)

    def drain(self, tx: Tracer) -> list[VariableTracker]:
        """The remaining items of an iterator. Its `__iter__` is not called."""
        items = []
        while (item := self.next(tx)) is not None:
            items.append(item)
        return items

    def measured(self, tx: Tracer) -> VariableTracker:
        """iter(self) where CPython fills a list or a tuple, for which it asks for a length hint first."""
        return self.iterate(tx)

    def collect(self, tx: Tracer) -> list[VariableTracker]:
        """Like `unpack`, where CPython fills a list or a tuple."""
        return self.unpack(tx)

    # -- code generation -----------------------------------------------------------------------------------------

    def reconstruct(self, cg: ValueCodegen) -> None:
        """Emits code that pushes the value. Values with a source are loaded from it instead."""
        unsupported("cannot-reconstruct", value=self.describe())

    def fill(self, cg: ValueCodegen) -> None:
        """Emits what `reconstruct` left out because it may refer back to the value itself (list items, attributes)."""

    def children(self) -> Iterable[VariableTracker]:
        """The tracked values that this one holds."""
        return ()

    def hashed(self) -> Iterable[VariableTracker]:
        """What a new container hashes when it is filled. Empty for what is not made first and filled later."""
        return ()

    def holdings(self) -> Iterable[Any]:
        """Like `children`, with the `Unwrapped` items that have not been read yet."""
        return self.children()


class RealObjectVariable(VariableTracker):
    """An object of the process that is known by its identity: a class, a module, a function written in C."""

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def identity(self) -> Any:
        return self.value

    def hash_key(self, tx: Tracer) -> Any:
        return self.value

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_object(self.value)


class NullVariable(VariableTracker):
    """The NULL that CPython keeps on the stack below a callee."""

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.asm.push_null()


NULL = NullVariable()


def held(value: VariableTracker) -> Any:
    """The value that methods of built-in classes act on: the storage, for an instance of a subclass of one."""
    storage = getattr(value, "storage", None)
    return value if storage is None else storage


def whole(value: VariableTracker) -> VariableTracker:
    """The inverse of `held`: the object that iterators and views refer to, of which `value` may be the storage."""
    return value if value.holder is None else value.holder


def is_exception(value: VariableTracker, cls: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    """Whether `except cls` catches a value. Only the MRO counts; hooks of metaclasses do not."""
    mro = value.python_type().__mro__
    return any(each in mro for each in (cls if isinstance(cls, tuple) else (cls,)))


def no_keywords(tx: Tracer, name: str, kwargs: dict[str, Any]) -> None:
    if kwargs:
        tx.raise_error(TypeError, f"{name}() takes no keyword arguments")


Model = Callable[..., VariableTracker]  # called with the tracer and tracked arguments
_M = TypeVar("_M", bound=Model)
_R = TypeVar("_R")


def invoke(model: Callable[..., _R], args: Iterable[Any], kwargs: Mapping[str, Any]) -> _R:
    """model(*args, **kwargs). Arguments that do not fit the model's signature do not fit the modelled function's either. They
    break the graph, and CPython raises its own TypeError."""
    try:
        return model(*args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # raised by the call itself
            unsupported("call-arguments", error=str(error))
        raise


def unreachable(what: object) -> NoReturn:
    raise AssertionError(f"unreachable: {what}")
