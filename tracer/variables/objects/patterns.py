"""Compiled regular expressions and their matches. They are immutable, so searches of constant strings run while tracing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dicts import MappingProxyVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.iteration import SequenceIterator
from tracer.variables.values.constant import ZERO, ConstantVariable, plain_value

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source

MOST_MATCHES = 10_000
PATTERN_TYPES: tuple[type, ...] = (re.Pattern, re.Match)


class PatternVariable(ConstantVariable):
    """A re.Pattern or re.Match"""

    __slots__ = ()

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "groupindex" and isinstance(self.value, re.Pattern):
            return MappingProxyVariable(tx.new_dict({key: ConstantVariable(at) for key, at in self.value.groupindex.items()}))
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name != "finditer" and any(plain_value(value) is not value for value in args):
            made = self.call_method(tx, name, [plain_value(value) for value in args], kwargs)
            return MatchOfInstance(made.value) if isinstance(made, PatternVariable) else made
        if name in ("sub", "subn") and args and not args[0].is_constant() and kwargs.keys() <= {"string", "count"}:
            return self._substitute(tx, name, *args, **kwargs)
        if name == "finditer":
            matches = _constant_call(self.value.finditer, args, kwargs)
            return SequenceIterator(TupleVariable([PatternVariable(match) for match in matches]))
        if name == "scanner":
            unsupported("unsupported-method", value=self.describe(), name=name)
        return super().call_method(tx, name, args, kwargs)

    def _substitute(
        self, tx: Tracer, name: str, function: VariableTracker, string: VariableTracker, count: VariableTracker = ZERO
    ) -> VariableTracker:
        """pattern.sub(function, string): the function is traced through."""
        most = count.constant()
        pieces, end, done = [], 0, 0
        for match in _constant_call(self.value.finditer, [string], {}):
            if most and done == most:
                break
            made = function.call(tx, [PatternVariable(match)], {})
            if not made.is_constant() or type(made.constant()) is not type(match.string):
                unsupported("not-a-constant", value=made.describe())
            pieces += [match.string[end : match.start()], made.constant()]
            end, done = match.end(), done + 1
        pieces.append(string.constant()[end:])
        result = type(string.constant())().join(pieces)
        return tx.literal(result if name == "sub" else (result, done))


def tracked(value: re.Pattern[Any] | re.Match[Any], source: Source | None = None) -> PatternVariable:
    """A pattern or match as a constant. Breaks the graph at a match in memory that can change, such as a bytearray's: what its
    groups give changes with it."""
    if isinstance(value, re.Match) and not isinstance(value.string, (str, bytes)):
        unsupported("not-a-constant", value=f"a match in a {type(value.string).__name__}, which may change,")
    return PatternVariable(value, source)


class MatchOfInstance(PatternVariable):
    """A match in an instance of a subclass of str or bytes, which is searched as the text that it holds."""

    __slots__ = ()

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "string":  # the instance itself
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return super().get_attr(tx, name)


def _constant_call(method: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> list[Any]:
    for value in (*args, *kwargs.values()):
        if not value.is_constant():
            unsupported("not-a-constant", value=value.describe())
    found = []
    try:
        for match in method(*(a.constant() for a in args), **{key: value.constant() for key, value in kwargs.items()}):
            found.append(match)
            if len(found) > MOST_MATCHES:
                unsupported("constant-too-large", value=f"more than {MOST_MATCHES} matches of a pattern")
    except TypeError as error:
        unsupported("call-arguments", error=str(error))
    return found
