"""How far each instruction moves the stack, and the stack depth of code that is being assembled.

Depths follow jumps and exception ranges (nested, entered in the middle, partly unreachable), which is
what lets the assembler drop code that is never reached and size the stack exactly.
"""

import dis
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from tracer.bytecode.dialect import DIALECT

_RETURN_GENERATOR = dis.opmap["RETURN_GENERATOR"]
_CALL_SEQUENCE = tuple(dis.opmap[opname] for opname in DIALECT.call_sequence)


class TryRange(Protocol):
    """A protected range: `depth` is the stack that its handler keeps, found here where it is None."""

    depth: int | None
    lasti: bool

    @property
    def handler_index(self) -> int: ...


class Step(Protocol):
    """What the flow of depths must know of an instruction."""

    @property
    def opcode(self) -> int: ...
    @property
    def effect_arg(self) -> int | None:
        """The argument as far as the stack effect depends on it."""

    @property
    def target_index(self) -> int | None: ...
    @property
    def final(self) -> bool: ...
    @property
    def protection(self) -> TryRange | None: ...


@lru_cache(maxsize=4096)
def stack_effects(opcode: int, arg: int | None) -> tuple[int, int]:
    """Change of depth when control goes on, and when the instruction jumps."""
    if opcode in _CALL_SEQUENCE:
        # `dis` books the arguments on PRECALL; really they stay until the last instruction of the call.
        if opcode != _CALL_SEQUENCE[-1]:
            return 0, 0
        effect = sum(dis.stack_effect(part, arg) for part in _CALL_SEQUENCE)
        return effect, effect
    if opcode == _RETURN_GENERATOR:  # `dis` leaves out the value that the first resumption sends
        return 1, 1
    return dis.stack_effect(opcode, arg, jump=False), dis.stack_effect(opcode, arg, jump=True)


class DepthError(ValueError):
    """The stack depth is inconsistent at an instruction."""

    def __init__(self, index: int, message: str):
        super().__init__(message)
        self.index = index


def measure(steps: Sequence[Step]) -> tuple[list[int | None], int]:
    """Depth before each step (None: never reached) and the deepest stack.

    The handler of a range keeps the stack as it is where the range begins; where nothing reaches the
    beginning, the shallowest stack inside. Raises DepthError on underflow, on paths that disagree and on
    code that runs off its end.
    """
    depths: list[int | None] = [None] * len(steps)
    deepest = 0
    work = [(0, 0)]
    entered: dict[int, TryRange] = {}
    while work:
        while work:
            index, depth = work.pop()
            deepest = max(deepest, depth)
            if not _arrive(depths, index, depth):
                continue
            step = steps[index]
            protection = step.protection
            if protection is not None:
                entered[id(protection)] = protection
            fall, jump = stack_effects(step.opcode, step.effect_arg)
            if step.target_index is not None:
                work.append((step.target_index, _moved(index, depth, jump)))
            if not step.final:
                work.append((index + 1, _moved(index, depth, fall)))
        for protection in list(entered.values()):
            del entered[id(protection)]
            if protection.depth is None:
                protection.depth = _depth_kept(steps, depths, protection)
            work.append((protection.handler_index, protection.depth + protection.lasti + 1))
    return depths, deepest


def _arrive(depths: list[int | None], index: int, depth: int) -> bool:
    """Note that control reaches a step; True the first time."""
    if index >= len(depths):
        raise DepthError(index, "control runs off the end of the code: end it with RETURN_VALUE or a raise")
    known = depths[index]
    if known is None:
        depths[index] = depth
        return True
    if known != depth:
        raise DepthError(index, f"reached with a stack of {known} values on one path and {depth} on another")
    return False


def _moved(index: int, depth: int, effect: int) -> int:
    if depth + effect < 0:
        raise DepthError(index, f"takes more from the stack than its {depth} values")
    return depth + effect


def _depth_kept(steps: Sequence[Step], depths: list[int | None], protection: TryRange) -> int:
    inside = [depth for step, depth in zip(steps, depths, strict=True) if step.protection is protection]
    if inside[0] is not None:
        return inside[0]
    return min(depth for depth in inside if depth is not None)
