"""The hash keys under which dicts and sets hold their items, and what CPython says where there is none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.operators.layout import hint
from tracer.protocol.error_words import NAMES_USE_OF_HASHES, unhashable_in
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.text import formatted
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.identities import refuse_unknown
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def key_in(tx: Tracer, container: type, entries: Callable[[], Collection[Any]], item: VariableTracker) -> Any:
    """The hash key of an item of a container, dict or set. Its entries are asked for only where it matters which there are."""
    hashed = _hashed(tx, container, item) if NAMES_USE_OF_HASHES else item.hash_key(tx)
    if tx.trace.ids_are_keys:
        refuse_unknown(hashed, entries())
    return hashed


_FEW = 16
_NUMBERS = (int, float, bool)
_NO_NUMBERS = (str, bytes, type(None), type)  # never equal to one


def is_none_of(tx: Tracer, item: VariableTracker, keys: Collection[Any]) -> bool:
    """Whether an int that varies is none of a few hash keys, with a guard for each: its value is not fixed. False where it is one
    of them, or where they would have to be asked themselves."""
    if not isinstance(item, SymNodeVariable) or item.python_type() is not int or item.depends_on_data() or len(keys) > _FEW:
        return False
    numbers = [key for key in keys if type(key) in _NUMBERS]
    if hint(item.example) in numbers or not all(type(key) in _NUMBERS or isinstance(key, _NO_NUMBERS) for key in keys):
        return False
    return all(tx.compare("!=", item, ConstantVariable(number)).truth(tx) for number in numbers)


def _hashed(tx: Tracer, container: type, item: VariableTracker) -> Any:
    """Gives a TypeError the words of the container. Errors of derived classes stay as they are."""
    try:
        return item.hash_key(tx)
    except ObservedException as raised:
        if raised.value.python_type() is not TypeError:
            raise
        if issubclass(container, OrderedDict):  # it has hashes taken here and there, and only some of these are told of so
            unsupported("call-arguments", error=f"{item.python_type().__name__} as a key of an OrderedDict")
        said = formatted(tx, str, [raised.value], {}).constant()
    tx.raise_error(TypeError, unhashable_in(container, item.python_type(), said))
