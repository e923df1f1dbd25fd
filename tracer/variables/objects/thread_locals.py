"""`threading.local`: each thread has attributes of its own. The trace and the guards read those of the current thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.containers import DictContains
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.variables.objects.instance_dict import InstanceDictVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.objects.untraceable import OpaqueVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source


class ThreadLocalVariable(OpaqueVariable):
    """A `threading.local` that is no instance of a subclass."""

    def __init__(self, value: threading.local, source: Source) -> None:
        super().__init__(threading.local, source)
        self.value = value

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        held = self.value.__dict__
        if name in held and not tx.effects.is_deleted(self, name):
            return tx.wrap(held[name], GenericAttrSource(self.source, name))
        if name == "__dict__":
            return ThreadLocalDictVariable(self, self.value)
        if hasattr(threading.local, name):
            return super().get_attr(tx, name)
        if name not in held:
            tx.guard(DictContains(GenericAttrSource(self.source, "__dict__"), name, present=False))
        tx.raise_error(AttributeError, f"'_thread._local' object has no attribute {name!r}")

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if hasattr(threading.local, name):
            return super().set_attr(tx, name, value)
        tx.effects.store_attribute(self, name, value)


class ThreadLocalObjectVariable(UserObjectVariable):
    """An instance of a subclass of `threading.local`. A thread that reads it for the first time runs its `__init__`: where the
    guards do so, that is before the program does."""

    source: Source

    def _is_plain_access(self, hook: Any) -> bool:
        return super()._is_plain_access(hook) or hook.__objclass__ is threading.local

    def instance_attr(self, tx: Tracer, name: str) -> VariableTracker | None:
        return ThreadLocalDictVariable(self, self.value).find(tx, ConstantVariable(name))

    def _through_descriptor(self, tx: Tracer, name: str, owner: Any, static: Any) -> VariableTracker | None:
        if name == "__dict__":
            return ThreadLocalDictVariable(self, self.value)
        return super()._through_descriptor(tx, name, owner, static)

    def default_del_attr(self, tx: Tracer, name: str) -> None:
        unsupported("unsupported-attribute-store", value=self.describe(), name=name)


class ThreadLocalDictVariable(InstanceDictVariable):
    """The `__dict__` of a `threading.local`, which is another in each thread."""

    owner: ThreadLocalVariable | ThreadLocalObjectVariable

    def _existing(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value.__dict__
        return found

    def _item_source(self, name: str) -> Source:
        return GenericAttrSource(self.owner.source, name)

    def _source(self) -> Source:
        return GenericAttrSource(self.owner.source, "__dict__")

    def _guard_absent(self, tx: Tracer, name: str) -> None:
        tx.guard(DictContains(self._source(), name, present=False))

    def _is_slot(self, name: str) -> bool:
        return hasattr(threading.local, name)
