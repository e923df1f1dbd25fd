"""Paths through objects: instance attributes, types and what classes hold, and attributes that C alone answers for."""

from __future__ import annotations

import contextvars
from typing import Any

from tracer.sources.base import FrameValues, ReadScope, Source, SourceCodegen, source_kind
from tracer.sources.reading import instance_dict, raw_attr, type_dict, type_lookup, weak_target


@source_kind
class AttrSource(Source):
    """An attribute in a slot or the instance dict, read there: no property, no `__getattr__`, no `__getattribute__`."""

    base: Source
    attr: str

    def label(self) -> str:
        return f"{self.base.name}.{self.attr}"

    def read(self, scope: ReadScope) -> str:
        return f"___raw_attr({scope.read(self.base)}, {self.attr!r})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(raw_attr)
        cg.source(self.base)
        cg.load_const(self.attr)
        cg.call(2)

    def get(self, values: FrameValues) -> Any:
        return raw_attr(self.base.get(values), self.attr)


@source_kind
class InstanceDictSource(Source):
    """The instance dict itself."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.__dict__"

    def read(self, scope: ReadScope) -> str:
        return f"___instance_dict({scope.read(self.base)})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(instance_dict)
        cg.source(self.base)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return instance_dict(self.base.get(values))


@source_kind
class TypeSource(Source):
    """`type(base)`."""

    base: Source

    def label(self) -> str:
        return f"type({self.base.name})"

    def read(self, scope: ReadScope) -> str:
        return f"type({scope.read(self.base)})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(type)
        cg.source(self.base)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return type(self.base.get(values))


@source_kind
class ClassAttrSource(Source):
    """An attribute in a class' own `__dict__`; `base` is the class. Descriptors are not called."""

    base: Source
    attr: str

    def label(self) -> str:
        return f"{self.base.name}.__dict__[{self.attr!r}]"

    def read(self, scope: ReadScope) -> str:
        return f"___type_dict({scope.read(self.base)})[{self.attr!r}]"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(type_dict)
        cg.source(self.base)
        cg.call(1)
        cg.load_const(self.attr)
        cg.getitem()

    def get(self, values: FrameValues) -> Any:
        return type_dict(self.base.get(values))[self.attr]


@source_kind
class TypeLookupSource(Source):
    """What a class' MRO holds under a name, unbound; `base` is the class. Follows a change anywhere in the MRO."""

    base: Source
    attr: str

    def label(self) -> str:
        return f"{self.base.name}.{self.attr}"

    def read(self, scope: ReadScope) -> str:
        return f"___type_lookup({scope.read(self.base)}, {self.attr!r})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(type_lookup)
        cg.source(self.base)
        cg.load_const(self.attr)
        cg.call(2)

    def get(self, values: FrameValues) -> Any:
        return type_lookup(self.base.get(values), self.attr)


@source_kind
class GenericAttrSource(Source):
    """A real getattr: only where C alone answers it (functions, descriptors, torch.Size, ...), never a user's class."""

    base: Source
    attr: str

    def label(self) -> str:
        return f"{self.base.name}.{self.attr}"

    def read(self, scope: ReadScope) -> str:
        return f"{scope.read(self.base)}.{self.attr}"

    def emit(self, cg: SourceCodegen) -> None:
        cg.source(self.base)
        cg.load_attr(self.attr)

    def get(self, values: FrameValues) -> Any:
        return getattr(self.base.get(values), self.attr)


@source_kind
class WeakTargetSource(Source):
    """What a weak reference refers to."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}()"

    def read(self, scope: ReadScope) -> str:
        return f"{scope.read(self.base)}()"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(weak_target)
        cg.source(self.base)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return self.base.get(values)()


@source_kind
class ContextVarSource(Source):
    """The value of a context variable, which has one."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.get()"

    def read(self, scope: ReadScope) -> str:
        return f"{scope.read(self.base)}.get()"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(contextvars.ContextVar.get)
        cg.source(self.base)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return self.base.get(values).get()
