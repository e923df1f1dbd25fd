"""object.__reduce_ex__, by which `copy` and `pickle` learn how to make an object again."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines, lookup
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.sources.roots import ModuleGlobalsSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.objects.objects import UserObjectVariable


def reduced(tx: Tracer, owner: UserObjectVariable, name: str, args: list[VariableTracker]) -> VariableTracker:
    """Does what object.__reduce_ex__, __reduce__ and __getstate__ do (reduce_newobj in CPython's Objects/typeobject.c)."""
    if name == "__getstate__":
        return _state(tx, owner)
    if name == "__reduce__" or not args or not args[0].is_constant() or args[0].constant() < 2:
        unsupported("unsupported-method", value=owner.describe(), name=name)
    if lookup(owner.cls, "__reduce__")[0] is not object:
        return owner.call_method(tx, "__reduce__", [], {})
    if lookup(owner.cls, "__getnewargs_ex__")[0] is not None:
        unsupported("unsupported-method", value=owner.describe(), name="__getnewargs_ex__")
    arguments = owner.call_special(tx, "__getnewargs__")
    if arguments is not None and not issubclass(arguments.python_type(), tuple):
        unsupported("unsupported-method", value=owner.describe(), name="__getnewargs__")
    new = tx.wrap(copyreg.__newobj__, ModuleGlobalsSource("copyreg", "__newobj__"))  # type: ignore[attr-defined]  # private in copyreg
    made_of = [tx.class_variable(owner.cls, owner), *([] if arguments is None else arguments.unpack(tx))]
    state = owner.call_method(tx, "__getstate__", [], {})
    items: VariableTracker = NONE
    pairs: VariableTracker = NONE
    if isinstance(owner.storage, ListVariable):
        items = owner.iterate(tx)
    elif isinstance(owner.storage, DictVariable):
        pairs = owner.call_method(tx, "items", [], {}).iterate(tx)
    elif owner.storage is not None and arguments is None:
        unsupported("unsupported-method", value=owner.describe(), name=name)
    return TupleVariable([new, TupleVariable(made_of), state, items, pairs])


def _state(tx: Tracer, owner: UserObjectVariable) -> VariableTracker:
    """object.__getstate__: the instance dict or None; paired with a dict of the slots' values if any are set."""
    state: VariableTracker = NONE
    if owner.cls.__dictoffset__:
        attributes = tx.instance_dict(owner, owner.value)
        if attributes.truth(tx):
            state = attributes
    values: dict[str, VariableTracker] = {}
    names = _slot_names(owner.cls)
    if vars(owner.cls).get("__slotnames__", names) != names:  # the program has set it
        unsupported("unsupported-attribute", value=owner.describe(), name="__slotnames__")
    for name in names:
        value = _slot_value(tx, owner, name)
        if value is not None:
            values[name] = value
    return TupleVariable([state, tx.new_dict(values)]) if values else state


def _slot_value(tx: Tracer, owner: UserObjectVariable, name: str) -> VariableTracker | None:
    """The value of a slot; None if it is empty and the class's `__getattr__` or `__getattribute__` gives no value either."""
    if not defines(owner.cls, "__getattr__") and lookup(owner.cls, "__getattribute__")[0] is object:
        return owner.slot(tx, name)
    try:
        return owner.get_attr(tx, name)
    except ObservedException as raised:
        if not is_exception(raised.value, AttributeError):
            raise
        return None


def _slot_names(cls: type) -> list[str]:
    """As copyreg._slotnames, which however also stores its result on the class."""
    names = []
    for base in cls.__mro__:
        slots: Any = lookup(base, "__slots__")[1] if "__slots__" in base.__dict__ else ()
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            stripped = base.__name__.lstrip("_")
            if name not in ("__dict__", "__weakref__"):
                names.append(f"_{stripped}{name}" if private and stripped else name)
    return names
