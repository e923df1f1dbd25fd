"""What every guard is: a frozen statement about sources, how it is checked, and the words for its failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

import torch

from tracer import _C
from tracer.guards.references import ObjectRef, class_name
from tracer.locations import UserLocation
from tracer.sources.base import ReadScope, Source

if TYPE_CHECKING:
    from tracer.guards.demands import Demand
    from tracer.guards.implication import Known


class Mismatch(NamedTuple):
    """Why a guard failed: a sentence, what the trace saw, and what is there now."""

    message: str
    expected: str
    seen: str


class CheckScope(ReadScope):
    """What a guard needs to print its check: reading sources, and noting what the check will have shown."""

    def show_type(self, source: Source, cls: type) -> None:
        """From here on the value at `source` is known to be exactly a `cls`."""
        raise NotImplementedError

    def show_state(self) -> None:
        """From here on torch's settings are known to be those of now."""
        raise NotImplementedError

    def distinct(self, sources: tuple[Source, ...]) -> str:
        """An expression that says that no two of the sources lead to one object."""
        raise NotImplementedError

    def type_text(self, cls: type) -> str | None:
        """An expression for the class, if check_fn may hold it: None where that would keep it alive."""
        raise NotImplementedError


def type_check(value: str, cls: type, code: CheckScope) -> str:
    """`type(value) is cls`, or by address where check_fn must not keep the class alive."""
    text = code.type_text(cls)
    return f"type({value}) is {text}" if text else f"___type_id({value}) == {id(cls)}"


_G = TypeVar("_G", bound=type[_C.Value])


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def guard_kind(cls: _G) -> _G:
    """Makes a class a kind of guard: a dataclass with slots, compared as `Guard` says. It is frozen for type checkers only,
    because frozen dataclasses are slower to make."""
    return dataclass(slots=True, eq=False)(cls)  # type: ignore[return-value]  # slots make another class


@guard_kind
class Guard(_C.Value):
    """One assumption of a trace. Equal guards say the same of the same source: all fields count but `where`."""

    where: UserLocation | None = field(default=None, kw_only=True)  # the user's line at which the trace relied on it
    kind: ClassVar[str] = "GUARD"
    rank: ClassVar[int] = 5  # the order among guards on one source: a lower rank is checked first
    of_tensor: ClassVar[bool] = False  # whether it is on a tensor, which its demand `Tensor` describes
    told: ClassVar[bool] = False  # whether the guard holds exactly if all of its demands do

    def __init_subclass__(cls) -> None:
        """A kind that overrides `check` and not `demands` is checked otherwise than the demands that it inherits say."""
        if "check" in vars(cls) and "demands" not in vars(cls):
            cls.told = False

    def sources(self) -> tuple[Source, ...]:
        """What it reads: the source in its field `source`, or those in `group`. A kind with neither reads none."""
        source: Source | None = getattr(self, "source", None)
        if source is not None:
            return (source,)
        group: tuple[Source, ...] = getattr(self, "group", ())
        return group

    def demands(self) -> tuple[Demand, ...]:
        """What it demands of the values at its sources, see `guards.demands`. C checks these, and decisions between entries are
        made from them."""
        return ()

    def says_all(self) -> bool:
        """Whether the guard holds exactly if all of its demands do. If not, they only follow from it."""
        return self.told

    def check(self, code: CheckScope) -> str | None:
        """A Python expression that is true exactly if the guard holds; None if earlier guards have shown it.

        A kind overrides it unless it is exactly one demand.
        """
        [demand] = self.demands()
        return demand.text(code)

    def follows_from(self, known: Known) -> bool:
        """Whether it follows from guards that hold. Sizes, strides and expressions over them are left out; see
        `guards.implication`."""
        if self in known.guards:
            return True
        demands = self.demands() if self.says_all() else ()
        return len(demands) > 0 and all(map(known.shows, demands))

    def lines(self) -> list[str]:
        """The guard as logs show it, in terms of `L['a']`."""
        raise NotImplementedError

    def explain(self, *seen: Any) -> Mismatch:
        """Words for its failure, given the values now at its sources."""
        raise NotImplementedError

    def shows_data(self) -> bool:
        """Whether the words of `explain` may show values that the program computes with, beside types, sizes and the like."""
        return True

    def references(self) -> Iterator[ObjectRef]:
        """The objects whose death makes the guard fail for ever."""
        return iter(())

    def parts(self) -> tuple[Guard, ...]:
        """The guards that this one stands for."""
        return (self,)

    def log_name(self) -> str:
        """`local 'a' TENSOR_MATCH`."""
        named = " and ".join(source_title(source) for source in self.sources())
        return f"{named} {self.kind}" if named else self.kind

    def __str__(self) -> str:
        return " and ".join(self.lines())


def source_title(source: Source) -> str:
    """`local 'a'`, `global 'torch.nn'`, `local 'l[0]'`."""
    root = source.root()
    name = str(root._fields()[0]) if root._fields() else root.name
    path = source.name.replace(root.name, name) if source is not root else name
    return f"{getattr(root, 'root_kind', 'object')} '{path}'"


_SHOWN_AS_REPR = (int, float, complex, bool, str, bytes, type(None), type(...))


def shown(value: Any) -> str:
    """A value for a message. Runs no user code: what is not plain is shown by its type alone."""
    cls = type(value)
    if cls in _SHOWN_AS_REPR:
        text = repr(value)
        return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"
    if cls in (tuple, list) and len(value) <= 16:
        inner = ", ".join(shown(item) for item in value)
        return f"[{inner}]" if cls is list else f"({inner}{',' if len(value) == 1 else ''})"
    if issubclass(cls, type):
        return type.__repr__(value)
    if cls in _TORCH_VALUES:
        return repr(value)
    name = class_name(cls)
    own_name = getattr(value, "__qualname__", None) if cls in _NAMED else None
    return f"<{name} {own_name}>" if own_name else f"<{name} object>"


def _def() -> None: ...


_TORCH_VALUES = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_NAMED: tuple[type, ...] = (type(_def), type(len), CodeType)
