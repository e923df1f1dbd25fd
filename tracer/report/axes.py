"""How the page names sizes: as the spec does, `B`, where one was declared, else `ids.size(0)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tracer.report.expressions import Unknown, expression, labels_of, substituted

Sizes = tuple[tuple[str, int], ...]
_LOCAL = re.compile(r"L\['(?:kwargs'\]\[')?(\w+)'\]")
_SIZE = re.compile(r"\.(size|stride)\(\)\[(\d+)\]")


def short(text: str) -> str:
    """`L['x'].size()[0]` as `x.size(0)`."""
    return _SIZE.sub(r".\1(\2)", _LOCAL.sub(r"\1", text))


class Axes:
    """What was declared of the sizes of calls: label (`L['x'].size()[0]`) -> `B`, or an expression over such names."""

    def __init__(self, declared: Mapping[str, str]) -> None:
        self._texts = {}
        self._trees: dict[str, Any] = {}
        names = {text for text in declared.values() if text.isidentifier()}
        for label, text in declared.items():
            try:
                tree = _over_names(text)
            except Unknown:
                continue
            if labels_of(tree) <= names:
                self._texts[label], self._trees[label] = text, tree

    def sizes(self, sizes: Iterable[tuple[str, int]]) -> Sizes:
        """The sizes of a call by name; those that follow from named ones are left out."""
        named: dict[str, int] = {}
        for label, value in sizes:
            if not self.follows(label):
                named.setdefault(self._texts.get(label, label), value)
        return tuple(sorted(named.items()))

    def follows(self, label: str) -> bool:
        """Whether a size is known from those that have names: it is an expression over them."""
        return not self._texts.get(label, "_").isidentifier()

    def tree(self, tree: Any) -> Any:
        """An expression over labels, over names."""
        return substituted(tree, self._trees)

    def text(self, label: str) -> str:
        """A label as it is read: `B`, `(S + 1)`, `x.size(2)`."""
        text = self._texts.get(label)
        if text is None:
            return short(label)
        return text if text.isidentifier() or text.isdigit() else f"({text})"


def _over_names(text: str) -> Any:
    names = list(dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text)))
    template = re.sub(r"[A-Za-z_]\w*", lambda found: f"{{{names.index(found[0])}}}", text)
    return expression(template, names)
