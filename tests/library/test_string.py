"""Formatters and templates of `string`."""

from __future__ import annotations

import string
from typing import Any

import torch

from tests.support import breaks, captured

X = torch.ones(3)


class Shouting(string.Formatter):
    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:
        return kwargs.get(key, "none") if isinstance(key, str) else args[key]

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value.upper() if conversion == "u" else super().convert_field(value, conversion)


def test_a_formatter_fills_in_fields() -> None:
    def f(x: torch.Tensor) -> Any:
        plain = string.Formatter().format("{0:>{1}} {a[k]} {b.real!r} {{}}", 1, 5, a={"k": 2}, b=3)
        parsed = list(string.Formatter().parse("a{b:c}d{}"))
        return x + 1, plain, parsed, Shouting().format("{name!u} {other} {0}", x.shape[0], name="n")

    captured(f, X)


def test_a_template_substitutes_names() -> None:
    def f(x: torch.Tensor, name: str) -> Any:
        template = string.Template("$name has ${count} of $$ and $unknown")
        return x + 1, template.safe_substitute(name=name, count=2), template.substitute({"name": 1, "count": 2}, unknown=3)

    captured(f, X, "a")


def test_a_wrong_format_is_left_to_cpython() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            string.Formatter().format("{missing} {")
        except (KeyError, ValueError) as error:
            return x + 1, type(error), str(error)
        return x

    breaks(f, X)
