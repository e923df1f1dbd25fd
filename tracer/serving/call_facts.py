"""What the calls of a variant have in common beside their declared sizes, as data: dtypes, devices, layouts, constants, modes.

A contract writes it down, and by it two examples are told to be of the same variant or of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from shapes.domain import show
from tracer import _C
from tracer.bytecode.slots import argument_slots
from tracer.guards.constants import is_enum_member, is_guardable_constant
from tracer.runtime.argument_paths import Attribute, Path, path_from_slot, path_text
from tracer.serving.calls import Calls, Layout

Facts = dict[str, Any]


def facts_of(calls: Calls) -> Facts:
    """`{"parameters": names, "arguments": {path: fact}, "modes": {name: value}}`, as JSON has it. The modes are those of now."""
    names = argument_slots(calls.function.__code__)
    declared = {
        path_from_slot(calls.function, dict(zip(names, calls.slots)), path): path
        for path in (*calls.layouts, *calls.declared.ints)
    }
    found: dict[str, Facts] = {}
    for name, value in zip(names, calls.slots):
        for path, leaf in _leaves((name,), value):
            found[path_text(path)] = _fact(leaf, calls, declared.pop(path, None))
    for path, named in declared.items():  # what attributes hold
        layout = calls.layouts.get(named)
        value = calls.declared.ints[named].value if layout is None else layout.tensor.value
        found[path_text(path)] = _fact(value, calls, named)
    return {"parameters": list(names), "arguments": found, "modes": _modes()}


def same_variant(one: Facts, other: Facts) -> bool:
    """Whether two examples differ in nothing but sizes and ints that one of them declares."""
    if one["parameters"] != other["parameters"] or one["modes"] != other["modes"]:
        return False
    if one["arguments"].keys() != other["arguments"].keys():
        return False
    return all(_same_fact(fact, other["arguments"][path]) for path, fact in one["arguments"].items())


def _same_fact(one: Facts, other: Facts) -> bool:
    if one["kind"] != other["kind"] or one["kind"] != "tensor":
        ints = one["kind"], other["kind"]
        declared = "int" in ints and set(ints) <= {"int", "constant"} and {one.get("type"), other.get("type")} <= {"int", None}
        return declared or one == other
    if any(one[key] != other[key] for key in one if key not in ("shape", "strides")):
        return False
    numbers = [size for size in zip(one["shape"], other["shape"]) if all(isinstance(each, int) for each in size)]
    return len(one["shape"]) == len(other["shape"]) and all(a == b for a, b in numbers)


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The parts of an argument, through plain containers."""
    if type(value) is dict and value and all(type(key) in (str, int) for key in value):
        for key, item in value.items():
            yield from _leaves((*path, key), item)
    elif type(value) in (list, tuple) and value:
        for index, item in enumerate(value):
            yield from _leaves((*path, index), item)
    elif isinstance(value, tuple) and hasattr(type(value), "_fields"):
        for name, item in zip(type(value)._fields, value):  # type: ignore[attr-defined]  # a namedtuple has them
            yield from _leaves((*path, Attribute(name)), item)
    else:
        yield path, value


def _fact(value: Any, calls: Calls, declared_at: Path | None) -> Facts:
    if isinstance(value, torch.Tensor):
        return _tensor(value, None if declared_at is None else calls.layouts.get(declared_at))
    if declared_at is not None:
        return {"kind": "int", "value": show(calls.declared.ints[declared_at].expr)}
    if is_guardable_constant(value):
        return {"kind": "constant", "type": type(value).__qualname__, "value": _text(value)}
    if isinstance(value, torch.nn.Module):
        held = [*value.parameters(), *value.buffers()]
        dtypes, devices = ({str(getattr(each, name)).removeprefix("torch.") for each in held} for name in ("dtype", "device"))
        return {
            "kind": "module",
            "type": type(value).__qualname__,
            "training": value.training,
            "dtype": " ".join(sorted(dtypes)),
            "device": " ".join(sorted(devices)),
        }
    return {"kind": "object", "type": type(value).__qualname__}


def _text(constant: Any) -> str:
    """The constant as text that is the same in every process. No code of the program runs for it."""
    if is_enum_member(constant):
        return f"{type(constant).__qualname__}.{constant._name_}"
    return f"{{{', '.join(sorted(map(_text, constant)))}}}" if type(constant) is frozenset else repr(constant)


def _tensor(value: torch.Tensor, layout: Layout | None) -> Facts:
    fact = {
        "kind": "tensor",
        "type": type(value).__qualname__,
        "dtype": str(value.dtype).removeprefix("torch."),
        "device": str(value.device),
        "layout": str(value.layout).removeprefix("torch."),
        "requires_grad": value.requires_grad,
        "shape": list(value.shape),
    }
    if layout is not None:
        fact["shape"] = [int(size) if size.is_Integer else show(size) for size in layout.sizes]
        fact["strides"] = [int(stride) if stride.is_Integer else show(stride) for stride in layout.strides]
    elif value.layout is torch.strided:
        fact["strides"] = list(value.stride())
    return fact


def _modes() -> Facts:
    """torch's settings, and the modes that the thread is in, by class."""
    settings = _C.GlobalState().settings()
    for device in ("cpu", "cuda"):  # the dtype of an autocast that is off changes nothing
        if not settings[f"autocast_{device}"]:
            del settings[f"autocast_{device}_dtype"]
    found = {name: value if type(value) in (bool, int) else str(value).removeprefix("torch.") for name, value in settings.items()}
    modes = torch.overrides._get_current_function_mode_stack()
    return {**found, "torch_function_modes": [type(mode).__qualname__ for mode in modes]}
