"""Calls with keywords that cannot be written in Python: `t.random_(**{"from": -10, "to": 10})`.

FX prints keywords verbatim, so the code generated for a graph with such a call would not compile.
"""

from __future__ import annotations

import dataclasses
import keyword
import operator
from typing import Any

from torch import fx


@dataclasses.dataclass(frozen=True)
class KeywordCall:
    """A call target that takes the values of some keywords as its last positional arguments."""

    target: Any  # a function, or the name of a method of the first argument
    keywords: tuple[str, ...]

    @property
    def __name__(self) -> str:
        name = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", "call")
        return "_".join((name, "with", *filter(str.isidentifier, self.keywords)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = len(args) - len(self.keywords)
        kwargs.update(zip(self.keywords, args[first:]))
        if isinstance(self.target, str):
            return operator.methodcaller(self.target, *args[1:first], **kwargs)(args[0])
        return self.target(*args[:first], **kwargs)


def make_printable(node: fx.Node) -> None:
    """Turns keywords that are not valid Python identifiers into positional arguments of a `KeywordCall`."""
    odd = tuple([name for name in node.kwargs if not _is_printable(name)])
    if odd:
        values = [node.kwargs[name] for name in odd]
        target = KeywordCall(node.target, odd)
        node.op, node.target = "call_function", target
        node.args = (*node.args, *values)
        node.kwargs = {name: value for name, value in node.kwargs.items() if name not in odd}


def _is_printable(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__"
