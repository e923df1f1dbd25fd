"""Paths from the arguments of a function to a value inside one: `batch['ids']`, `self.cache.layers[0].keys`.

Following a path reads attributes as the tracer does: it runs no property and no other code of the program.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch

from tracer import _C
from tracer.bytecode.slots import argument_slots, slot_of_others
from tracer.errors import UserError
from tracer.forwarding import functions_naming, names_of_args
from tracer.sources.attributes import AttrSource
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.sources.reading import instance_dict, type_dict, type_lookup, type_mro
from tracer.sources.roots import ArgumentSource, LocalSource

Path = tuple[Any, ...]  # the name of a parameter, then keys, and `Attribute`s
_MODULE_TABLES = ("_parameters", "_buffers", "_modules")  # in the order in which nn.Module.__getattr__ looks a name up


@dataclasses.dataclass(frozen=True)
class Attribute:
    """A step of a path: `.name`"""

    name: str


def path_text(path: Path) -> str:
    """`batch['ids']`"""
    return str(path[0]) + "".join(f".{key.name}" if isinstance(key, Attribute) else f"[{key!r}]" for key in path[1:])


def parse_path(text: str) -> Path:
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
        raise UserError(f"{text!r} is not a path to an argument", hint="write x, batch['ids'] or x.mask.")
    return (node.id, *reversed(keys))


def path_from_slot(function: types.FunctionType, slots: Mapping[str, Any], path: Path) -> Path:
    """The path that begins at an argument slot of the frame, where an argument may be an item of `*args` or `**kwargs`.
    Empty if the call leaves the argument out."""
    name, *keys = path
    code = function.__code__
    if name in slots:
        return () if keys and _takes_others(code, name) and not _has_item(slots[name], keys[0]) else path
    others = slot_of_others(code, inspect.CO_VARKEYWORDS)
    if others is not None and name in slots[others]:
        return others, *path
    names = names_of_args(function, slots)
    if name in names:
        index, more = names.index(name), argument_slots(code)[-2]
        return (more, index, *keys) if index < len(slots[more]) else ()
    for named in functions_naming(function, slots):
        parameters = named.__code__.co_varnames[: named.__code__.co_argcount]
        if name in parameters[: code.co_argcount]:
            return argument_slots(code)[parameters.index(name)], *keys
        if name in argument_slots(named.__code__):
            return ()
    raise UserError(f"{code.co_qualname} has no argument {name!r}", hint=f"it has {', '.join(slots) or 'none'}.")


def _takes_others(code: types.CodeType, name: str) -> bool:
    """Whether a parameter is `*args` or `**kwargs`."""
    return name in argument_slots(code)[code.co_argcount + code.co_kwonlyargcount :]


def _has_item(container: tuple[Any, ...] | dict[Any, Any], key: Any) -> bool:
    return key in container if isinstance(container, dict) else type(key) is not int or -len(container) <= key < len(container)


def argument_sources(function: types.FunctionType, slots: Mapping[str, Any]) -> Iterator[tuple[Source, Any]]:
    """The arguments of a call, each with its source: those in *args and **kwargs one by one where their parameters are known."""
    names = names_of_args(function, slots)
    if not names:
        yield from ((LocalSource(name), value) for name, value in slots.items())
        return
    *own, more, others = slots
    yield from ((LocalSource(name), slots[name]) for name in own)
    for index, value in enumerate(slots[more]):
        name = names[index] if index < len(names) else None
        yield ItemSource(LocalSource(more), index) if name is None else ArgumentSource(name, index, more, others), value
    for key, value in slots[others].items():
        passed = ArgumentSource(key, names.index(key), more, others) if key in names else ItemSource(LocalSource(others), key)
        yield passed, value


def follow(function: types.FunctionType, slots: Mapping[str, Any], path: Path) -> tuple[Any, Source]:
    """The value at a path, and its source. A path that leads through None gives None."""
    name, *keys = path_from_slot(function, slots, path) or (None,)
    if name is None:
        return None, LocalSource(str(path[0]))
    value, source = slots[name], cast(Source, LocalSource(name))
    names = names_of_args(function, slots)
    if path[0] in names and path[0] not in slots:
        value, source, keys = value[keys[0]], ArgumentSource(path[0], names.index(path[0]), *list(slots)[-2:]), keys[1:]
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
        raise UserError(f"{path_text(path)} was declared, but {source.name} has no item {key!r}") from None


def _attribute(value: Any, source: Source, key: Attribute, path: Path) -> tuple[Any, Source]:
    name = key.name
    field = _field_index(value, name)
    if field is not None:
        return tuple.__getitem__(value, field), ItemSource(source, field)
    try:
        return _C.raw_attr(value, name), AttrSource(source, name)
    except AttributeError:
        pass
    table, own_dict = _module_table(value, name), instance_dict(value)
    if table is None or own_dict is None:
        raise UserError(
            f"{path_text(path)} was declared, but {source.name} has no attribute {name!r} of its own",
            hint="a path can use attributes that are stored in the object, not properties or attributes of its class.",
        )
    return own_dict[table][name], ItemSource(AttrSource(source, table), name)


def _field_index(value: Any, name: str) -> int | None:
    """The index of a field of a namedtuple."""
    fields = getattr(type(value), "_fields", None) if isinstance(value, tuple) else None
    return fields.index(name) if isinstance(fields, tuple) and name in fields else None


def _module_table(value: Any, name: str) -> str | None:
    """The table of a module that holds a parameter, a buffer or a submodule of this name."""
    own_dict = instance_dict(value) if torch.nn.Module in type_mro(type(value)) else None
    return next((table for table in _MODULE_TABLES if name in (own_dict or {}).get(table, ())), None)


# -- arguments with one value replaced ------------------------------------------------------------------------------------


def replaced_at(container: Any, keys: Path, value: Any, path: Path) -> Any:
    """A copy of nested containers and objects in which the value at `keys` is replaced. `path` is for error messages."""
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    field = _field_index(container, key.name) if isinstance(key, Attribute) else None
    if isinstance(key, Attribute) and field is None:
        return _with_attribute(container, key.name, rest, value, path)
    if isinstance(container, tuple):
        index = key if field is None else field
        items = list(container)
        items[index] = replaced_at(items[index], rest, value, path)
        if type(container) is not tuple and not hasattr(type(container), "_fields"):
            raise UserError(f"{path_text(path)} is an item of a {type(container).__name__}, which cannot be made again")
        return tuple.__new__(type(container), items)
    changed = copy.copy(container)
    changed[key] = replaced_at(container[key], rest, value, path)
    return changed


def _with_attribute(owner: Any, name: str, keys: Path, value: Any, path: Path) -> Any:
    copied = _copy_without_init(owner, path)
    own_dict = instance_dict(copied) or {}
    table = _module_table(owner, name)
    if name in own_dict:
        own_dict[name] = replaced_at(own_dict[name], keys, value, path)
    elif table is not None:
        own_dict[table] = own_dict[table] | {name: replaced_at(own_dict[table][name], keys, value, path)}
    else:
        slot = type_lookup(type(owner), name)
        slot.__set__(copied, replaced_at(slot.__get__(owner), keys, value, path))
    return copied


def _copy_without_init(owner: Any, path: Path) -> Any:
    """A shallow copy of an object, made without running code of the program."""
    cls = type(owner)
    try:
        copied = object.__new__(cls)
    except TypeError:
        raise UserError(
            f"{path_text(path)} is an attribute of a {cls.__name__}, which cannot be made again",
            hint="pass the value as an argument of its own, or as an item of a dict or a list.",
        ) from None
    for slot in (each for klass in type_mro(cls) for each in type_dict(klass).values()):
        if type(slot) is types.MemberDescriptorType:
            with contextlib.suppress(AttributeError):  # an empty one
                slot.__set__(copied, slot.__get__(owner))
    own_dict, original_dict = instance_dict(copied), instance_dict(owner)
    if own_dict is not None and original_dict is not None:
        own_dict.update(original_dict)
    return copied


__all__ = ["Attribute", "Path", "argument_sources", "follow", "parse_path", "path_from_slot", "path_text", "replaced_at"]
