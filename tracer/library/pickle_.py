"""Models of `pickle`. Plain values that are known while tracing go through C; for objects, its Python code is traced through."""

from __future__ import annotations

import copyreg
import enum
import io
import pickle
import sys
import types
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tracer.graph_breaks import unsupported
from tracer.guards.constants import constant_key
from tracer.guards.identity import IdMatch
from tracer.library.polyfills import pickle_ as polyfills
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import AttrSource
from tracer.sources.base import Source
from tracer.sources.roots import ModuleGlobalsSource
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import FunctionVariable, as_written
from tracer.variables.objects.buffers import BufferVariable
from tracer.variables.values.constant import NONE, TRUE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

_WITHOUT_MEMO = (int, float, bool, type(None))
_DUMPS, _LOADS, _LOAD = map(as_written, (polyfills.dumps, polyfills.loads, polyfills.load))


class PickleVariable(VariableTracker):
    """A pickle of which only the value is known: it refers back to an object, or has it twice. It can only be loaded."""

    cls = bytes

    def __init__(self, tx: Tracer, data: bytes) -> None:
        self.data = data
        self._step = tx.break_step()

    def _refuse(self) -> NoReturn:
        """CPython makes the pickle."""
        unsupported("unsupported-builtin", break_step=self._step, function="pickle.dumps of a value that has equal constants")

    def constant(self) -> NoReturn:
        self._refuse()

    def get_attr(self, tx: Tracer, name: str) -> NoReturn:
        self._refuse()

    def hash_key(self, tx: Tracer) -> NoReturn:
        self._refuse()

    def reconstruct(self, cg: ValueCodegen) -> None:
        self._refuse()


class _NotPlain(Exception):
    pass


class _Copied:
    """A plain value as CPython's objects. `is_ambiguous`: a pickle refers back to an object that it has written, and a trace does
    not know whether equal texts are two objects or one. It knows one container from another."""

    def __init__(self, tx: Tracer) -> None:
        self._tx = tx
        self._texts: set[Any] = set()
        self._copies: dict[VariableTracker, Any] = {}
        self.is_ambiguous = False

    def copy(self, value: VariableTracker) -> Any:
        if type(value) is ConstantVariable and type(value.value) in (*_WITHOUT_MEMO, str, bytes):
            return self._constant(value.value)
        if value not in self._copies:
            self._copies[value] = self._container(value)
        return self._copies[value]

    def _constant(self, value: Any) -> Any:
        if type(value) not in _WITHOUT_MEMO:
            self.is_ambiguous = self.is_ambiguous or value in self._texts
            self._texts.add(value)
        return value

    def _container(self, value: VariableTracker) -> Any:
        self._copies[value] = _UNFINISHED
        if type(value) in (ListVariable, TupleVariable):
            copied = [self.copy(item) for item in value.unpack(self._tx)]
        elif isinstance(value, DictVariable) and value.cls is dict:
            copied = [(self.copy(key), self.copy(item)) for key, item in value.pairs(self._tx)]
        else:
            raise _NotPlain
        if any(part is _UNFINISHED or (type(part) is tuple and _UNFINISHED in part) for part in copied):
            raise _NotPlain
        return copied if type(value) is ListVariable else tuple(copied) if type(value) is TupleVariable else dict(copied)


_UNFINISHED = object()


@models(pickle.dumps)
def _dumps(
    tx: Tracer, obj: VariableTracker, /, protocol: VariableTracker = NONE, *, fix_imports: VariableTracker = TRUE
) -> VariableTracker:
    number: Any = protocol.constant()
    copied = _Copied(tx)
    try:
        data, is_ambiguous = pickle.dumps(copied.copy(obj), number), copied.is_ambiguous
    except (TypeError, ValueError):  # CPython raises it instead
        unsupported("unsupported-builtin", function="pickle.dumps, which fails,")
    except _NotPlain:
        if number is not None and 0 <= number < 4:
            unsupported("unsupported-builtin", function=f"pickle.dumps of {obj.describe()} by an old protocol")
        data, is_ambiguous = (part.constant() for part in tx.inline(_DUMPS, [obj, protocol], {}).unpack(tx))
    return PickleVariable(tx, data) if is_ambiguous else ConstantVariable(data)


@models(pickle.dump)
def _dump(tx: Tracer, obj: VariableTracker, file: VariableTracker, /, protocol: VariableTracker = NONE) -> VariableTracker:
    if not isinstance(file, BufferVariable):
        unsupported("side-effect-call", name="pickle.dump", value=file.describe())
    file.call_method(tx, "write", [_dumps(tx, obj, protocol)], {})
    return NONE


class _OfPlainValues(pickle.Unpickler):
    """Makes no objects of other classes, which would run their code."""

    def find_class(self, module: str, name: str, /) -> Any:
        raise _NotPlain


@models(pickle.loads)
def _loads(tx: Tracer, data: VariableTracker, /) -> VariableTracker:
    given = data.data if isinstance(data, PickleVariable) else data.constant()
    if type(given) is not bytes:
        unsupported("unsupported-builtin", function=f"pickle.loads of {data.describe()}")
    try:
        value = _OfPlainValues(io.BytesIO(given)).load()
    except _NotPlain:
        value = given  # which is no value that holds one container twice
        is_plain = False
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, AttributeError, TypeError):
        unsupported("unsupported-builtin", function="pickle.loads, which fails,")  # CPython raises it instead
    else:
        is_plain = _is_tree(value, set())
    return tx.literal(value) if is_plain else tx.inline(_LOADS, [ConstantVariable(given)], {})


@models(pickle.load)
def _load(tx: Tracer, file: VariableTracker, /) -> VariableTracker:
    if not isinstance(file, BufferVariable):
        unsupported("unsupported-builtin", function=f"pickle.load of {file.describe()}")
    return tx.inline(_LOAD, [file], {})


def _is_tree(value: Any, met: set[int]) -> bool:
    """Whether no container is held twice."""
    if type(value) not in (list, dict, tuple, set, bytearray):
        return True
    if id(value) in met and value != ():
        return False
    met.add(id(value))
    return all(_is_tree(part, met) for part in (value.values() if type(value) is dict else value))


# -- what the Python code asks of the trace ------------------------------------------------------------------------


@models(polyfills.key_of)
def _key_of(tx: Tracer, obj: VariableTracker) -> VariableTracker:
    return ConstantVariable(constant_key(obj.constant())) if obj.is_constant() and not obj.is_none() else NONE


@models(polyfills.is_the_only_one)
def _is_the_only_one(tx: Tracer, obj: VariableTracker) -> VariableTracker:
    return boolean(isinstance(obj.constant(), (enum.Enum, type, torch.dtype)))


@models(polyfills.registered)
def _registered(tx: Tracer) -> VariableTracker:
    return tx.wrap(copyreg.dispatch_table, ModuleGlobalsSource("copyreg", "dispatch_table"))


@models(polyfills.names_of)
def _names_of(tx: Tracer, obj: VariableTracker, name: VariableTracker) -> VariableTracker:
    real: Any = obj.identity() if isinstance(obj, (ClassVariable, FunctionVariable, CallableVariable)) else obj.constant()
    given = name.constant() or getattr(real, "__qualname__", None) or real.__name__
    module = vars(pickle)["whichmodule"](real, given)
    if _found(tx, module, given)[0] is not real or (module, given) in vars(copyreg)["_extension_registry"]:
        unsupported("unsupported-builtin", function=f"pickle.dumps of {obj.describe()}")
    return tx.literal((module, given))


@models(polyfills.named)
def _named(tx: Tracer, module: VariableTracker, name: VariableTracker) -> VariableTracker:
    found, source = _found(tx, module.constant(), name.constant())
    return tx.wrap(found, source)


def _found(tx: Tracer, module: str, name: str) -> tuple[Any, Source]:
    """What a module has under a name, or a class in it under a dotted one, and how it is reached. It is guarded to stay."""
    first, *rest = name.split(".")
    space = sys.modules.get(module)
    if type(space) is not types.ModuleType or first not in vars(space):
        unsupported("unsupported-builtin", function=f"pickle with a {module}.{name}")
    found = vars(space)[first]
    source: Source = ModuleGlobalsSource(module, first)
    for part in rest:
        if not isinstance(found, type) or part not in vars(found):
            unsupported("unsupported-builtin", function=f"pickle with a {module}.{name}")
        found, source = vars(found)[part], AttrSource(source, part)
    tx.guard(IdMatch(source, found))
    return found, source
