"""Displays, comprehension accumulators, subscripts and unpacking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.handlers import handles
from tracer.library.class_checks import find_attr
from tracer.protocol.lookups import defines
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.variables.builders.literals import from_python
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.call_form import ArgumentsVariable, Keywords, SpreadVariable
from tracer.variables.containers.dicts import DictVariable, mapping_pairs
from tracer.variables.containers.lists import ListVariable, SliceVariable, TupleVariable
from tracer.variables.containers.sets import SetVariable
from tracer.variables.iteration import IteratorVariable
from tracer.variables.iterators.generators import GeneratorVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("BUILD_TUPLE")
def build_tuple(tx: Frame, inst: Instruction) -> None:
    """items... -> tuple"""
    tx.push(TupleVariable(tx.pop_many(inst.oparg)))


@handles("BUILD_LIST")
def build_list(tx: Frame, inst: Instruction) -> None:
    """items... -> list"""
    tx.push(ListVariable(tx.pop_many(inst.oparg)))


@handles("BUILD_SET")
def build_set(tx: Frame, inst: Instruction) -> None:
    """items... -> set"""
    items = tx.pop_many(inst.oparg)
    result = SetVariable({})
    for item in items:
        result.add(tx, item)
    tx.push(result)


@handles("BUILD_MAP")
def build_map(tx: Frame, inst: Instruction) -> None:
    """key, value, ... -> dict"""
    flat = tx.pop_many(2 * inst.oparg)
    result = DictVariable({})
    result.update(tx, zip(flat[::2], flat[1::2]))
    tx.push(result)


@handles("BUILD_CONST_KEY_MAP")
def build_const_key_map(tx: Frame, inst: Instruction) -> None:
    """values..., keys -> dict"""
    keys = tx.pop().constant()
    values = tx.pop_many(inst.oparg)
    result = DictVariable({})
    result.update(tx, zip(map(from_python, keys), values))
    tx.push(result)


@handles("BUILD_SLICE")
def build_slice(tx: Frame, inst: Instruction) -> None:
    """start, stop (, step) -> slice"""
    step = tx.pop() if inst.arg == 3 else NONE
    stop, start = tx.pop(), tx.pop()
    tx.push(SliceVariable(start, stop, step))


@handles("LIST_TO_TUPLE")
def list_to_tuple(tx: Frame, inst: Instruction) -> None:
    """list -> tuple"""
    value = tx.pop()
    spread = value.spread() if isinstance(value, SpreadVariable) else None
    tx.push(TupleVariable(value.unpack(tx)) if spread is None else spread)


@handles("LIST_APPEND")
def list_append(tx: Frame, inst: Instruction) -> None:
    """list..., item -> list..."""
    item = tx.pop()
    tx.stack[-inst.oparg].call_method(tx, "append", [item], {})


@handles("LIST_EXTEND")
def list_extend(tx: Frame, inst: Instruction) -> None:
    """list..., iterable -> list..."""
    items = tx.pop()
    if not any(defines(items.python_type(), name) for name in ("__iter__", "__getitem__")):
        tx.raise_error(TypeError, f"Value after * must be an iterable, not {items.python_type().__name__}")
    target = tx.stack[-inst.oparg]
    if isinstance(items, ArgumentsVariable) and not items.is_read() and type(target) is ListVariable and not items.first:
        tx.stack[-inst.oparg] = SpreadVariable(ArgumentsVariable(items.call_form, items.start, target.items(tx)))
    else:
        target.call_method(tx, "extend", [items], {})


@handles("SET_ADD")
def set_add(tx: Frame, inst: Instruction) -> None:
    """set..., item -> set..."""
    item = tx.pop()
    tx.stack[-inst.oparg].call_method(tx, "add", [item], {})


@handles("SET_UPDATE")
def set_update(tx: Frame, inst: Instruction) -> None:
    """set..., iterable -> set..."""
    items = tx.pop()
    tx.stack[-inst.oparg].call_method(tx, "update", [items], {})


@handles("MAP_ADD")
def map_add(tx: Frame, inst: Instruction) -> None:
    """dict..., key, value -> dict..."""
    value, key = tx.pop(), tx.pop()
    tx.stack[-inst.oparg].set_item(tx, key, value)


@handles("DICT_UPDATE")
def dict_update(tx: Frame, inst: Instruction) -> None:
    """dict..., mapping -> dict..."""
    mapping = tx.pop()
    pairs = mapping_pairs(tx, mapping)
    if pairs is None:
        if find_attr(tx, mapping, "keys") is not None:
            unsupported("unsupported-iteration", value=mapping.describe())
        tx.raise_error(TypeError, f"{mapping.python_type().__name__!r} object is not a mapping")
    target = tx.stack[-inst.oparg]
    for key, value in pairs:
        target.set_item(tx, key, value)


@handles("DICT_MERGE")
def dict_merge(tx: Frame, inst: Instruction) -> None:
    """dict..., mapping -> dict..., where a key that both have is an error of the call being built"""
    mapping, target = tx.pop(), tx.stack[-inst.oparg]
    assert isinstance(target, DictVariable)
    if isinstance(mapping, DictVariable) and isinstance(mapping.unread, Keywords) and target.unread is None:
        first = target.entries
        if not any(map(mapping.unread.look, first)):
            tx.stack[-inst.oparg] = DictVariable(mapping.unread.passed(first, first))
            return
    pairs = mapping_pairs(tx, mapping)
    if pairs is None:
        unsupported("call-arguments", error="argument after ** must be a mapping")
    for key, value in pairs:
        if target.contains(tx, key).truth(tx):
            unsupported("call-arguments", error=f"got multiple values for keyword argument {key.constant()!r}")
        target.set_item(tx, key, value)


# -- subscripts --------------------------------------------------------------------------------------------------------


@handles("BINARY_SUBSCR")
def binary_subscr(tx: Frame, inst: Instruction) -> None:
    """container, key -> container[key]"""
    key, container = tx.pop(), tx.pop()
    tx.push(container.get_item(tx, key))


@handles("BINARY_SLICE")
def binary_slice(tx: Frame, inst: Instruction) -> None:
    """container, start, stop -> container[start:stop]"""
    container, start, stop = tx.pop_many(3)
    tx.push(container.get_item(tx, SliceVariable(start, stop, NONE)))


@handles("STORE_SLICE")
def store_slice(tx: Frame, inst: Instruction) -> None:
    """value, container, start, stop ->"""
    value, container, start, stop = tx.pop_many(4)
    container.set_item(tx, SliceVariable(start, stop, NONE), value)


@handles("STORE_SUBSCR")
def store_subscr(tx: Frame, inst: Instruction) -> None:
    """value, container, key ->"""
    key, container, value = tx.pop(), tx.pop(), tx.pop()
    container.set_item(tx, key, value)


@handles("DELETE_SUBSCR")
def delete_subscr(tx: Frame, inst: Instruction) -> None:
    """container, key ->"""
    key, container = tx.pop(), tx.pop()
    container.del_item(tx, key)


# -- unpacking ---------------------------------------------------------------------------------------------------------


def _counted() -> tuple[type, ...]:
    try:
        (_,) = tuple("ab")
    except ValueError as error:
        return (list, tuple, dict) if "got 2" in str(error) else ()
    raise AssertionError


#: The classes whose objects CPython tells the length of, where they have too many values to unpack (from 3.14 on).
_COUNTED = _counted()


@handles("UNPACK_SEQUENCE")
def unpack_sequence(tx: Frame, inst: Instruction) -> None:
    """sequence -> items, the first on top"""
    count = inst.arg
    assert count is not None
    value = tx.pop()
    items = unpacked(tx, value, count + 1)
    if len(items) > count:
        got = f", got {value.length(tx).constant()}" if value.python_type() in _COUNTED else ""
        tx.raise_error(ValueError, f"too many values to unpack (expected {count}{got})")
    if len(items) < count:
        tx.raise_error(ValueError, f"not enough values to unpack (expected {count}, got {len(items)})")
    tx.stack.extend(reversed(items))


@handles("UNPACK_EX")
def unpack_ex(tx: Frame, inst: Instruction) -> None:
    """sequence -> first items, list of the middle, last items; the first on top"""
    assert inst.arg is not None
    before, after = inst.arg & 0xFF, inst.arg >> 8
    items = unpacked(tx, tx.pop())
    if len(items) < before + after:
        tx.raise_error(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    end = len(items) - after
    tx.stack.extend(reversed(items[end:]))
    tx.push(ListVariable(items[before:end]))
    tx.stack.extend(reversed(items[:before]))


def unpacked(tx: Frame, value: VariableTracker, most: int | None = None) -> list[VariableTracker]:
    """The items of a value. If producing an item may run code, no more than `most` are asked for."""
    try:
        if most is None or not isinstance(value, (IteratorVariable, GeneratorVariable, UserObjectVariable, ClassVariable)):
            return value.unpack(tx)
        iterator = value.iterate(tx)
    except ObservedException as raised:
        cls = value.python_type()
        if is_exception(raised.value, TypeError) and not (defines(cls, "__iter__") or defines(cls, "__getitem__")):
            tx.raise_error(TypeError, f"cannot unpack non-iterable {cls.__name__} object")
        raise
    items: list[VariableTracker] = []
    while len(items) < most and (item := iterator.next(tx)) is not None:
        items.append(item)
    return items
