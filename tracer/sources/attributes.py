"""Paths through objects: instance attributes, types and what classes hold, and attributes that C alone answers for."""

from __future__ import annotations

from typing import Any

from tracer.sources import steps
from tracer.sources.base import FrameValues, ReadScope, Source, SourceCodegen, source_kind
from tracer.sources.steps import Step


@source_kind
class AttrSource(Source):
    """An attribute in a slot or the instance dict, read there: no property, no `__getattr__`, no `__getattribute__`."""

    base: Source
    attr: str
    way = (steps.ATTR,)
    named = "{self.base}.{self.attr}"
    is_kept = True


@source_kind
class InstanceDictSource(Source):
    """The instance dict itself."""

    base: Source
    way = (steps.INSTANCE_DICT,)
    named = "{self.base}.__dict__"


@source_kind
class TypeSource(Source):
    """`type(base)`."""

    base: Source
    way = (steps.TYPE,)
    named = "type({self.base})"
    is_kept = True


@source_kind
class ClassAttrSource(Source):
    """An attribute in a class' own `__dict__`; `base` is the class. Descriptors are not called."""

    base: Source
    attr: str
    way = (steps.TYPE_ITEM,)
    named = "{self.base}.__dict__[{self.attr!r}]"
    is_kept = True


@source_kind
class TypeLookupSource(Source):
    """What a class' MRO holds under a name, unbound; `base` is the class. Follows a change anywhere in the MRO."""

    base: Source
    attr: str
    way = (steps.TYPE_LOOKUP,)
    named = "{self.base}.{self.attr}"


@source_kind
class GenericAttrSource(Source):
    """A real getattr: only where C alone answers it (functions, descriptors, torch.Size, ...), never a user's class.

    No row of the table is for any attribute of any type, so that it says itself how it is read; C knows two of them.
    """

    base: Source
    attr: str
    named = "{self.base}.{self.attr}"

    def steps(self) -> tuple[tuple[Step, Any], ...]:
        if self.attr == "__mro__":
            return ((steps.MRO, None),)
        if self.attr == "fget" and isinstance(self.base, (ClassAttrSource, TypeLookupSource)):
            return ((steps.PROPERTY_GETTER, None),)
        return ((_GETATTR, self.attr),)

    def read(self, scope: ReadScope) -> str:
        return f"{scope.read(self.base)}.{self.attr}"

    def emit(self, cg: SourceCodegen) -> None:
        cg.source(self.base)
        cg.load_attr(self.attr)

    def get(self, values: FrameValues) -> Any:
        return getattr(self.base.get(values), self.attr)


@source_kind
class SlicePartSource(GenericAttrSource):
    """`base.start`, `base.stop` or `base.step` of a slice: as an item of a tuple, it is passed and kept with its base."""

    is_part = True
    is_kept = True


_GETATTR: Step = Step(getattr, "getattr({0}, {1})")


@source_kind
class SubclassesSource(Source):
    """The list of the direct subclasses that a class has now."""

    base: Source
    way = (steps.SUBCLASSES,)
    named = "{self.base}.__subclasses__()"


@source_kind
class WeakTargetSource(Source):
    """What a weak reference refers to."""

    base: Source
    way = (steps.WEAK_TARGET,)
    named = "{self.base}()"


@source_kind
class ProxyTargetSource(Source):
    """What a weak proxy stands for."""

    base: Source
    way = (steps.PROXY_TARGET,)
    named = "proxied({self.base})"


@source_kind
class ContextVarSource(Source):
    """The value of a context variable, which has one."""

    base: Source
    way = (steps.CONTEXT_VALUE,)
    named = "{self.base}.get()"
