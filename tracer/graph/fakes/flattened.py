"""What a wrapper is made of: the tensors inside, and the rest, as the `__tensor_flatten__` of its class says it.

Torch's compilers take a wrapper apart and put it together by that method and by `__tensor_unflatten__`. A graph with wrappers is
given to a backend that compiles only if the classes have both.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes as outside_of_modes

from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.operators.proxies import SYM_TYPES
from tracer.protocol.lookups import lookup
from tracer.sources.reading import is_a, type_dict


@dataclasses.dataclass(frozen=True, eq=False)
class Flattened:
    """A wrapper that exists before the trace. Numbers may be symbolic in all of it."""

    parts: dict[str, torch.Tensor]  # the fakes of the tensors inside, by attribute, in the order of `__tensor_flatten__`
    context: Any  # the second result of `__tensor_flatten__`
    lost: frozenset[str]  # other attributes, which `__tensor_unflatten__` does not make again


@dataclasses.dataclass(frozen=True, eq=False)
class Form:
    """How wrappers are taken apart that are alike: of one class, with attributes of the same names, and the same constants."""

    names: tuple[str, ...]  # of the tensors inside
    context: Any  # the second result of `__tensor_flatten__`, with a `Place` for each number that is symbolic
    places: tuple[tuple[Any, ...], ...]  # for each of these, the indices and keys that lead to it


class Place(int):
    """Where a number goes: its index among those that are symbolic."""


def with_places(value: Any, note: Callable[[Any, tuple[Any, ...]], Place], path: tuple[Any, ...] = ()) -> Any:
    """A context with places for its symbolic numbers; `note` is told of each, with the indices and keys that lead to it."""
    if type(value) in (list, tuple, torch.Size):
        kind = tuple if type(value) is torch.Size else type(value)
        return kind(with_places(item, note, (*path, i)) for i, item in enumerate(value))
    if type(value) is dict:
        return {key: with_places(item, note, (*path, key)) for key, item in value.items()}
    return note(value, path) if isinstance(value, SYM_TYPES) else value


def filled(value: Any, numbers: Sequence[Any]) -> Any:
    """A context with numbers at its places."""
    if type(value) in (list, tuple):
        return type(value)(filled(item, numbers) for item in value)
    if type(value) is dict:
        return {key: filled(item, numbers) for key, item in value.items()}
    return numbers[value] if type(value) is Place else value


def found_at(value: Any, path: tuple[Any, ...]) -> Any:
    """What lies in a context where the indices and keys of `path` lead."""
    for key in path:
        value = value[key]
    return value


def tensors_inside(fake: Any) -> Iterator[torch.Tensor]:
    """The plain tensors in a wrapper, as far as they are known; none in any other value."""
    if isinstance(fake, WrapperFake):
        for part in (fake.held if fake.flattened is None else fake.flattened.parts).values():
            yield from tensors_inside(part) if isinstance(part, WrapperFake) else (part,)


def is_written(wrapper: WrapperFake) -> bool:
    """Whether the trace writes to a tensor inside."""
    written = wrapper.fake_mode.written_storages
    return any(each.untyped_storage()._cdata in written for each in tensors_inside(wrapper) if each.layout is torch.strided)


def flattens(cls: type) -> bool:
    """Whether a class can be taken apart and put together."""
    apart, together = lookup(cls, "__tensor_flatten__")[1], lookup(cls, "__tensor_unflatten__")[1]
    return is_a(apart, types.FunctionType) and is_a(together, (staticmethod, classmethod))


def put_together_again(wrapper: torch.Tensor) -> Any:
    """What the class of a real wrapper makes of it, taking it apart and putting it together. Its own code runs, and may raise."""
    cls: Any = type(wrapper)
    with torch._C.DisableTorchFunctionSubclass(), outside_of_modes(), torch.no_grad():
        names, context = cls.__tensor_flatten__(wrapper)
        inner = {name: getattr(wrapper, name) for name in names}
        return cls.__tensor_unflatten__(inner, context, wrapper.size(), wrapper.stride())


def slots_of(cls: type) -> Iterator[str]:
    """The names of a class's slots, and of its bases'."""
    for base in cls.__mro__[: cls.__mro__.index(torch.Tensor)]:
        yield from (name for name, static in type_dict(base).items() if is_a(static, types.MemberDescriptorType))


def attributes_of(wrapper: torch.Tensor) -> dict[str, Any]:
    """The attributes that an instance holds itself. No code of its class runs."""
    found = dict(object.__getattribute__(wrapper, "__dict__"))
    for name in slots_of(type(wrapper)):
        try:
            found[name] = object.__getattribute__(wrapper, name)
        except AttributeError:  # an empty slot
            continue
    return found
