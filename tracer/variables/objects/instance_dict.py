"""`obj.__dict__` as the traced program sees it: the attributes that existed before the frame ran, with the trace's stores and
deletions applied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.guards.containers import DictKeysMatch
from tracer.protocol.lookups import is_data_descriptor, lookup
from tracer.protocol.variable import VariableTracker, invoke
from tracer.sources.attributes import AttrSource, InstanceDictSource
from tracer.variables.containers.dict_views import KINDS, DictIterator
from tracer.variables.containers.dicts import DictVariable, pairs_of
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.slots import call_slot
from tracer.variables.values.constant import NONE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source


class InstanceDictVariable(VariableTracker):
    """A live view: reading or storing an item reads or stores an attribute of `owner`."""

    cls = dict
    missing = DictVariable.missing
    update = DictVariable.update

    def __init__(self, owner: VariableTracker, value: Any) -> None:
        self.owner = owner
        self.value = value

    def identity(self) -> Any:
        return ("__dict__", self.owner.identity())

    def children(self) -> Iterable[VariableTracker]:
        return (self.owner,)

    def _existing(self) -> dict[str, Any]:
        return {} if self.value is None else (_C.instance_dict(self.value) or {})

    def find(self, tx: Tracer, key: VariableTracker) -> VariableTracker | None:
        name = key.constant() if self._is_property(key) else self._name(key)
        pending = tx.effects.attribute(self.owner, name)
        if pending is not None or tx.effects.is_deleted(self.owner, name):
            return pending
        existing = self._existing()
        if name in existing:
            return tx.wrap(existing[name], self._item_source(name))
        if self.value is not None:
            self._guard_absent(tx, name)
        return None

    def _item_source(self, name: str) -> Source:
        assert self.owner.source is not None
        return AttrSource(self.owner.source, name)

    def _guard_absent(self, tx: Tracer, name: str) -> None:
        tx.guard_absent(self.owner, name)

    def _source(self) -> Source:
        """The dict itself."""
        assert self.owner.source is not None
        return InstanceDictSource(self.owner.source)

    def snapshot(self, tx: Tracer) -> DictVariable:
        """A copy of the whole dict, with a guard on the set of names."""
        existing = self._existing()
        if self.value is not None:
            tx.guard(DictKeysMatch(self._source(), tuple(existing)))
        unmoved = [name for name in existing if not tx.effects.was_deleted_and_set(self.owner, name)]
        stored = [name for name in tx.effects.attributes(self.owner) if not self._is_slot(name)]
        names = dict.fromkeys([*unmoved, *stored])
        entries: dict[Any, Any] = {}
        for name in names:
            key = ConstantVariable(name)
            value = self.find(tx, key)
            if value is not None:
                entries[name] = (key, value)
        return DictVariable(entries)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return self.snapshot(tx).compare(tx, op, _whole(tx, other))

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        left, right = self.snapshot(tx), _whole(tx, other)
        return right.binary(tx, op, left, False) if reflected else left.binary(tx, op, right, False)

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op != "|":
            return None
        for key, value in pairs_of(tx, _whole(tx, other)):
            self.set_item(tx, key, value)
        return self

    def form(self, tx: Tracer) -> Any:
        return self.snapshot(tx).form(tx)

    def text(self, tx: Tracer, kind: str) -> str:
        return self.snapshot(tx).text(tx, kind)

    def truth(self, tx: Tracer) -> bool:
        return self.snapshot(tx).truth(tx)

    def length(self, tx: Tracer) -> VariableTracker:
        return self.snapshot(tx).length(tx)

    def iterate(self, tx: Tracer) -> VariableTracker:
        return DictIterator(LiveAttributes(tx, self), "keys")

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(self.find(tx, item) is not None)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        found = self.find(tx, key)
        if found is None:
            tx.raise_error(KeyError, key.constant())
        return found

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        tx.effects.store_attribute(self.owner, self._name(key), value)

    def _name(self, key: VariableTracker) -> str:
        """The attribute that a key names. A name with a data descriptor in the class breaks the graph, as the attribute of that
        name is not the item of the dict."""
        if not key.is_constant() or type(key.constant()) is not str or self._is_slot(key.constant()):
            unsupported("unsupported-subscript", value="__dict__", key=key.describe())
        text: str = key.constant()
        return text

    def _is_property(self, key: VariableTracker) -> bool:
        """Whether the class has a property of that name. The dict may have an item of the same name, unrelated to it."""
        if not isinstance(self.owner, UserObjectVariable) or not key.is_constant() or type(key.constant()) is not str:
            return False
        return type(lookup(self.owner.cls, key.constant())[1]) is property

    def _is_slot(self, name: str) -> bool:
        """Whether a data descriptor of the class, such as a slot, keeps the attribute outside of the dict."""
        return isinstance(self.owner, UserObjectVariable) and is_data_descriptor(lookup(self.owner.cls, name)[1])

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        if self.find(tx, key) is None:
            tx.raise_error(KeyError, key.constant())
        tx.delete_attribute(self.owner, key.constant())

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if not hasattr(dict, name):
            tx.raise_error(AttributeError, f"'dict' object has no attribute {name!r}")
        return tx.bound_builtin_method(self, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in _BY_KEY:
            return invoke(DictVariable.methods.table[name], (tx, self, *args), kwargs)
        if name in _ITEMS:
            return call_slot(tx, self, name, args, kwargs)
        if name in KINDS:
            return LiveAttributes(tx, self).call_method(tx, name, args, kwargs)
        if name == "clear" and not args:
            for key in self.snapshot(tx).keys():
                self.del_item(tx, key)
            return NONE
        if name == "popitem" and not args and self.snapshot(tx).entries:
            key, value = self.snapshot(tx).pairs(tx)[-1]
            self.del_item(tx, key)
            return tx.tuple_of([key, value])
        if name == "copy":
            return self.snapshot(tx).call_method(tx, name, args, kwargs)
        unsupported("unsupported-method", value="__dict__", name=name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load(self.owner)
        cg.load_attr("__dict__")


class LiveAttributes(DictVariable):
    """What views of an instance dict, and iterators over it, show: its entries as they are when they are asked for."""

    def __init__(self, tx: Tracer, of: InstanceDictVariable) -> None:
        super().__init__({})
        self.of = self.holder = of
        self._of_now: tuple[tuple[Any, ...], DictVariable] | None = None
        self._tx = tx

    def _now(self) -> DictVariable:
        tx = self._tx.trace.frame or self._tx  # the frame that is traced now
        state = tuple(tx.effects.attributes(self.of.owner).items())
        if self._of_now is None or self._of_now[0] != state:
            self._of_now = state, self.of.snapshot(tx)
        return self._of_now[1]

    @property
    def entries(self) -> dict[Any, Any]:
        return self._now().entries

    @entries.setter
    def entries(self, value: dict[Any, Any]) -> None:
        """Ignored: the entries are the attributes."""

    @property
    def version(self) -> Any:
        return tuple(self.entries)

    @version.setter
    def version(self, value: Any) -> None:
        """Ignored: the keys say it."""

    def value(self, tx: Tracer, key: Any) -> VariableTracker:
        return self._now().value(tx, key)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return self.of.contains(tx, item)


def _whole(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return value.snapshot(tx) if isinstance(value, InstanceDictVariable) else value


_BY_KEY = ("get", "setdefault", "pop", "update")
_ITEMS = ("__len__", "__iter__", "__contains__", "__getitem__", "__setitem__", "__delitem__")
