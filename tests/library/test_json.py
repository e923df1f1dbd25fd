"""json with functions of the program: hooks, `default`, encoders and decoders of its own; and texts that are wrong."""

from __future__ import annotations

import json
import types
from decimal import Decimal
from typing import Any

import pytest
import torch

from tests.support import captured

X = torch.ones(3)
TEXT = '{"a": {"b": [1, {"c": null}]}, "d": [-1.5e3, NaN, "\\u00e9\\n"], "e": {}}'


class Shape:
    def __init__(self, sizes: Any) -> None:
        self.sizes = sizes


class Encoder(json.JSONEncoder):
    def default(self, o: Any) -> Any:
        if isinstance(o, torch.Tensor):
            return list(o.shape)
        return sorted(o) if isinstance(o, (set, frozenset)) else super().default(o)


class Decoder(json.JSONDecoder):
    def __init__(self, **options: Any) -> None:
        super().__init__(object_hook=self.hook, **options)

    def hook(self, found: dict[str, Any]) -> Any:
        return tuple(found.items())


def test_hooks_see_the_objects_from_the_inside_out() -> None:
    def f(x: torch.Tensor) -> Any:
        met: list[Any] = []
        made = json.loads(TEXT, object_hook=lambda found: met.append(list(found)) or types.SimpleNamespace(**found))
        pairs = json.loads(TEXT, object_pairs_hook=lambda found: [key for key, _ in found])
        return x * made.a.b[0], met, pairs, json.loads('{"n": 2}', object_hook=lambda found: x * found["n"])

    captured(f, X)


def test_numbers_are_made_by_functions_of_the_program() -> None:
    def f(x: torch.Tensor) -> Any:
        made = json.loads(TEXT, parse_float=Decimal, parse_int=lambda text: f"int {text}", parse_constant=lambda text: text)
        return x + 1, made, json.loads('{"a": {"b": 2}}', cls=Decoder)

    captured(f, X)


def test_what_json_does_not_know_is_encoded_by_the_program() -> None:
    def f(x: torch.Tensor) -> Any:
        shape = Shape({"rows": 3})
        texts = json.dumps([shape, shape], default=vars), json.dumps({"b": shape, "a": 1}, default=vars, indent=2, sort_keys=True)
        return x + 1, texts, json.dumps({"t": x, "s": {3, 1}, None: 1.5}, cls=Encoder), json.JSONEncoder(indent=1).encode([1, {}])

    captured(f, X)


@pytest.mark.parametrize(
    "text", ["", "{", "[1,", '{"a"', '{"a": }', "[1 2]", '"abc', '"\\u12"', "1 2", "{1: 2}", '"\x01"', "nul"]
)
def test_a_wrong_text_raises_the_error_of_cpython(text: str) -> None:
    def f(x: torch.Tensor, given: str, hook: Any) -> Any:
        try:
            return json.loads(given, object_hook=hook)
        except json.JSONDecodeError as error:
            return x + 1, str(error), error.pos, error.lineno

    captured(f, X, text, None)
    captured(f, X, text, len)


def test_what_cannot_be_encoded_raises_the_error_of_cpython() -> None:
    def f(x: torch.Tensor) -> Any:
        told = []
        itself: list[Any] = []
        itself.append(itself)
        for value in (object, x, itself, {(1, 2): 3}, [1, {"a": {2}}]):
            try:
                json.dumps(value)
            except (TypeError, ValueError) as error:
                told.append((type(error), str(error), getattr(error, "__notes__", None)))
        return x + 1, told

    captured(f, X)


def test_an_error_of_a_hook_leaves_the_decoder() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            json.loads("[{}]", object_hook=lambda found: found["missing"])
        except KeyError as error:
            return x + 1, str(error)
        return x

    captured(f, X)
