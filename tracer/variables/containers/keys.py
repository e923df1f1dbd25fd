"""The hash keys under which dicts and sets hold their items, and what CPython says where there is none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.error_words import NAMES_USE_OF_HASHES, unhashable_in
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.text import formatted
from tracer.variables.values.identities import refuse_unknown

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def key_in(tx: Tracer, container: type, entries: Callable[[], Collection[Any]], item: VariableTracker) -> Any:
    """The hash key of an item of a container, dict or set. Its entries are asked for only where it matters which there are."""
    hashed = _hashed(tx, container, item) if NAMES_USE_OF_HASHES else item.hash_key(tx)
    if tx.trace.ids_are_keys:
        refuse_unknown(hashed, entries())
    return hashed


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
