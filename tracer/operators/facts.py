"""What operators (OpOverloads) do besides computing their results, as their schemas and tags tell it, and as they do not."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

Place = tuple[int, str]  # the position and the name of an argument

# An argument, and the value with which no random number is drawn and no statistics are updated.
_SWITCHED_OFF: dict[str, Any] = {"training": False, "train": False, "dropout_p": 0.0}
_STATISTICS = ("running_mean", "running_var")
_NOT_BY_METADATA = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view)


class OperatorEffects(NamedTuple):
    """What an operator does besides computing its results. `switch`: an argument that may turn off the first two, which
    `off_by_default` does where it is not given."""

    random: bool
    statistics: tuple[Place, ...]
    written: tuple[Place, ...]
    switch: Place | None
    off_by_default: bool

    def switched_off(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        if self.switch is None:
            return False
        position, name = self.switch
        if position >= len(args) and name not in kwargs:
            return self.off_by_default
        return _is_off(name, argument(self.switch, args, kwargs))

    def tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
        """What a call writes to."""
        for place in self.written if self.switched_off(args, kwargs) else (*self.statistics, *self.written):
            value = argument(place, args, kwargs)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, torch.Tensor):
                    yield tensor


def _is_off(name: str, value: Any) -> bool:
    off = _SWITCHED_OFF[name]
    return type(value) is type(off) and value == off


def argument(place: Place, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    position, name = place
    return args[position] if position < len(args) else kwargs.get(name)


@functools.cache
def operator_effects(func: Any) -> OperatorEffects | None:
    """None for an operator that only computes. Batch norm's schema does not say that it updates its statistics."""
    schema = getattr(func, "_schema", None)  # higher-order operators have none
    if schema is None:
        return None
    places: list[tuple[Place, Any]] = [((i, each.name), each.alias_info) for i, each in enumerate(schema.arguments)]
    normalises = "batch_norm" in schema.name and not schema.name.endswith("_no_training")
    statistics = tuple([place for place, _ in places if normalises and place[1] in _STATISTICS])
    written = tuple([p for p, alias in places if alias is not None and alias.is_write and p not in statistics])
    random = torch.Tag.nondeterministic_seeded in func.tags
    switches = [(i, each) for i, each in enumerate(schema.arguments) if each.name in _SWITCHED_OFF]
    switch = (switches[0][0], switches[0][1].name) if switches else None
    off_by_default = bool(switches) and _is_off(switches[0][1].name, switches[0][1].default_value)
    if not (random or statistics or written):
        return None
    return OperatorEffects(random, statistics, written, switch, off_by_default)


@functools.cache
def told_by_metadata(func: Any) -> bool:
    """Whether the metadata of an operator's results follow from those of its arguments."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace not in ("aten", "prims"):
        return False
    return not any(tag in func.tags for tag in _NOT_BY_METADATA) and func not in _LIFTING


_LIFTING = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.lift.default)


@functools.cache
def takes_one_for_all(function: Any, position: int | str) -> bool:
    """Whether a plain number may stand, as an argument of an operator, for a list of them (`kernel_size=3`). A symbolic one
    may not: torch refuses it."""
    if isinstance(function, torch._ops.OpOverloadPacket):
        return any(takes_one_for_all(getattr(function, name), position) for name in function.overloads())
    if not isinstance(function, torch._ops.OpOverload):
        return False
    arguments = enumerate(function._schema.arguments)
    return any(each.N is not None for index, each in arguments if position in (index, each.name))


def is_compliant(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the author of an operator says that compilers may take it as its schema says; True of what is no operator."""
    if isinstance(function, torch._ops.OpOverloadPacket):
        try:
            chosen = torch._C._jit_resolve_packet(function._qualified_op_name, *args, **kwargs)
        except RuntimeError:  # no overload takes these: running it says so
            return True
        function = getattr(function, chosen)
    return not isinstance(function, torch._ops.OpOverload) or torch.Tag.pt2_compliant_tag in function.tags
