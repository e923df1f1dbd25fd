"""Paths from the arguments of a function to a part of one: `batch['ids']`, `self.cache.layers[0].keys`.

A path is followed as the tracer reads attributes: no property and no code of the program is run.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import types
from collections.abc import Mapping
from typing import Any, cast

import torch

from tracer import _C
from tracer.errors import UserError
from tracer.forwarding import NAMED_BY
from tracer.guards import argument_slots
from tracer.sources import AttrSource, ItemSource, LocalSource, Source
from tracer.sources.reading import instance_dict, type_dict, type_lookup, type_mro

Path = tuple[Any, ...]  # the name of a parameter, then keys, and `Attribute`s
_TABLES = ("_parameters", "_buffers", "_modules")  # of a module, in the order in which its __getattr__ asks them


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A step of a path: `.name`"""

    name: str


def shown(path: Path) -> str:
    """`batch['ids']`"""
    return str(path[0]) + "".join(f".{key.name}" if isinstance(key, Attribute) else f"[{key!r}]" for key in path[1:])


def parsed(text: str) -> Path:
    """`batch['ids'][0].mask` -> ("batch", "ids", 0, Attribute("mask"))"""
    keys: list[Any] = []
    try:
        node = ast.parse(text.strip(), mode="eval").body
        while isinstance(node, (ast.Subscript, ast.Attribute)):
            keys.append(Attribute(node.attr) if isinstance(node, ast.Attribute) else ast.literal_eval(node.slice))
            node = node.value
        hash(tuple(keys))
    except (SyntaxError, ValueError, TypeError):
        node = ast.Constant(None)
    if not isinstance(node, ast.Name):
        raise UserError(f"{text!r} is no path to an argument", hint="write x, batch['ids'] or x.mask.")
    return (node.id, *reversed(keys))


def placed(code: types.CodeType, slots: Mapping[str, Any], path: Path) -> Path:
    """The path from a slot of the frame on: an argument may be an item of `*args` or `**kwargs`. Empty where it is left out."""
    name, *keys = path
    if name in slots:
        return path
    others = argument_slots(code)[-1] if code.co_flags & 0x08 else None  # CO_VARKEYWORDS
    if others is not None and name in slots[others]:
        return others, *path
    if code in NAMED_BY:
        first, more, _ = slots
        for function in NAMED_BY[code](slots[first]):
            names = argument_slots(function.__code__)[: function.__code__.co_argcount]
            if name in names:
                index = names.index(name) - 1
                if index >= len(slots[more]):
                    return ()
                return (first, *keys) if index < 0 else (more, index, *keys)
    raise UserError(f"{code.co_qualname} has no argument {name!r}", hint=f"it has {', '.join(slots) or 'none'}.")


def follow(code: types.CodeType, slots: Mapping[str, Any], path: Path) -> tuple[Any, Source]:
    """The value at a path, and its source. Behind a None there is nothing: it is None."""
    name, *keys = placed(code, slots, path) or (None,)
    if name is None:
        return None, LocalSource(str(path[0]))
    value, source = slots[name], cast(Source, LocalSource(name))
    for key in keys:
        if value is None:
            break
        step = _attribute if isinstance(key, Attribute) else _item
        value, source = step(value, source, key, path)
    return value, source


def _item(value: Any, source: Source, key: Any, path: Path) -> tuple[Any, Source]:
    try:
        if not isinstance(value, (list, tuple, dict)):
            raise TypeError
        return value[key], ItemSource(source, key)
    except (LookupError, TypeError):
        raise UserError(f"{shown(path)} was declared, but {source.name} has no item {key!r}") from None


def _attribute(value: Any, source: Source, key: Attribute, path: Path) -> tuple[Any, Source]:
    name = key.name
    field = _field(value, name)
    if field is not None:
        return tuple.__getitem__(value, field), ItemSource(source, field)
    try:
        return _C.raw_attr(value, name), AttrSource(source, name)
    except AttributeError:
        pass
    table, held = _table_of(value, name), instance_dict(value)
    if table is None or held is None:
        raise UserError(
            f"{shown(path)} was declared, but {source.name} holds no attribute {name!r}",
            hint="a path leads through what objects hold themselves, not through properties or what their classes have.",
        )
    return held[table][name], ItemSource(AttrSource(source, table), name)


def _field(value: Any, name: str) -> int | None:
    """Where a namedtuple has a field."""
    fields = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
    return fields.index(name) if isinstance(fields, tuple) and name in fields else None


def _table_of(value: Any, name: str) -> str | None:
    """Which table of a module has a parameter, a buffer or a submodule."""
    held = instance_dict(value) if torch.nn.Module in type_mro(type(value)) else None
    return next((table for table in _TABLES if name in (held or {}).get(table, ())), None)


# -- calls that nobody has made -------------------------------------------------------------------------------------------


def replaced(container: Any, keys: Path, value: Any, path: Path) -> Any:
    """A copy of nested containers and objects with one item replaced."""
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    field = _field(container, key.name) if isinstance(key, Attribute) else None
    if isinstance(key, Attribute) and field is None:
        return _with_attribute(container, key.name, rest, value, path)
    if isinstance(container, tuple):
        index = key if field is None else field
        items = list(container)
        items[index] = replaced(items[index], rest, value, path)
        if type(container) is not tuple and not hasattr(type(container), "_fields"):
            raise UserError(f"{shown(path)} is an item of a {type(container).__name__}, which cannot be made again")
        return tuple.__new__(type(container), items)
    changed = copy.copy(container)
    changed[key] = replaced(container[key], rest, value, path)
    return changed


def _with_attribute(owner: Any, name: str, keys: Path, value: Any, path: Path) -> Any:
    twin = _twin(owner, path)
    held = instance_dict(twin) or {}
    table = _table_of(owner, name)
    if name in held:
        held[name] = replaced(held[name], keys, value, path)
    elif table is not None:
        held[table] = held[table] | {name: replaced(held[table][name], keys, value, path)}
    else:
        slot = type_lookup(type(owner), name)
        slot.__set__(twin, replaced(slot.__get__(owner), keys, value, path))
    return twin


def _twin(owner: Any, path: Path) -> Any:
    """A new object of the same class that holds the same; no code of the program makes it."""
    cls = type(owner)
    try:
        twin = object.__new__(cls)
    except TypeError:
        raise UserError(
            f"{shown(path)} is an attribute of a {cls.__name__}, which cannot be made again",
            hint="declare what is handed in as an argument of its own, or as an item of a dict or a list.",
        ) from None
    for slot in (each for klass in type_mro(cls) for each in type_dict(klass).values()):
        if type(slot) is types.MemberDescriptorType:
            with contextlib.suppress(AttributeError):  # an empty one
                slot.__set__(twin, slot.__get__(owner))
    held, own = instance_dict(twin), instance_dict(owner)
    if held is not None and own is not None:
        held.update(own)
    return twin


__all__ = ["Attribute", "Path", "follow", "parsed", "placed", "replaced", "shown"]
