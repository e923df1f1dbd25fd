"""Programs that patch `inline_call_` of torch's tracer to learn which functions a trace went through, and so which files a cache
of compiled code depends on. What they put there is called for each function that this tracer traced through."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any, NamedTuple

from tracer import metrics
from tracer.drop_in.replacements import Replacement
from tracer.drop_in.torchs import symbolic_convert
from tracer.guards.base import Guard
from tracer.guards.unchanged import Unchanged
from tracer.metrics import Event

_Inlining: Any = symbolic_convert.InliningInstructionTranslator
_inline_call = _Inlining.inline_call_


class InlinedCall(NamedTuple):
    """In place of a translator of torch's."""

    f_code: types.CodeType


def inline_call_(self: Any) -> Any:
    """Torch's, which those who patch it call in turn; nothing for what this tracer has traced."""
    return None if type(self) is InlinedCall else _inline_call(self)


def codes_in(guards: Iterable[Guard]) -> list[types.CodeType]:
    """The code of the functions that a trace went through, which its guards name."""
    facts = [fact for guard in guards if isinstance(guard, Unchanged) for fact in guard.functions]
    functions = [fact.function.get() for fact in facts]
    return list(dict.fromkeys(function.__code__ for function in functions if function is not None))


def tell(guards: Iterable[Guard]) -> None:
    """Calls what a program has put in place of `inline_call_`."""
    patched = _Inlining.inline_call_
    for code in codes_in(guards) if patched is not inline_call_ else ():
        patched(InlinedCall(code))


class InlinedCalls:
    """Tells of each new entry. Where a filter drops guards, `guard_filters` tells before."""

    def __init__(self) -> None:
        self.take_back = metrics.add_callback(self._tell, "compile")

    def _tell(self, event: Event) -> None:
        tell(event.about["entry"].guarded_code.manager.guards)


def table() -> list[Replacement]:
    """What is replaced in torch's tracer."""
    return [Replacement(_Inlining, "inline_call_", inline_call_)]
