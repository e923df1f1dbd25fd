"""Several shape specs of one function, of which each call follows one: a prefill and a decode step, a mask and none."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Any

from tracer.errors import ConstraintViolationError, UserError
from tracer.runtime.shape_spec import Declared, ShapeSpec


class SpecChoice:
    """A call follows the spec that it lies in; of several such, the one that declares most of its sizes. Specs that declare an
    argument which the call leaves out, or gives as None, count only if there is no other.

    `preferred`: the spec that calls follow, whatever the others say, if they lie in it.
    """

    def __init__(self, specs: Sequence[ShapeSpec], preferred: ShapeSpec | None = None) -> None:
        self.specs = tuple(specs)
        self.preferred = preferred

    def bind(self, function: types.FunctionType, args: Sequence[Any]) -> Declared:
        """As `ShapeSpec.bind`. If the call lies in none of the specs, what is nearest to being declared of it."""
        return self.chosen(function, args)[1]

    def chosen(self, function: types.FunctionType, args: Sequence[Any]) -> tuple[ShapeSpec, Declared]:
        """The spec that a call follows, and what that declares of it. Raises UserError if no spec fits its arguments."""
        errors: list[UserError] = []
        bound = list(self._bound(function, args, errors))
        if not bound:
            raise errors[0]
        bound = [each for each in bound if _is_complete(*each)] or bound
        inside = [each for each in bound if _lies_inside(each[1])]
        for each in inside:
            if each[0] is self.preferred:
                return each
        return max(inside or bound, key=lambda each: sum(1 for _ in each[1].places()))

    def _bound(
        self, function: types.FunctionType, args: Sequence[Any], errors: list[UserError]
    ) -> Iterator[tuple[ShapeSpec, Declared]]:
        for spec in self.specs:
            try:
                yield spec, spec.bind(function, args)
            except UserError as error:
                errors.append(error)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of torch that any of the specs names."""
        return tuple(dict.fromkeys(mode for spec in self.specs for mode in spec.modes))

    def __repr__(self) -> str:
        return f"<one of {', '.join(map(repr, self.specs))}>"


def _is_complete(spec: ShapeSpec, declared: Declared) -> bool:
    """Whether the call has every argument that the spec declares."""
    return len(declared.tensors) + len(declared.ints) == len(spec.dims)


def _lies_inside(declared: Declared) -> bool:
    try:
        declared.point()
    except ConstraintViolationError:
        return False
    return True


def spec_of(shapes: Any) -> ShapeSpec | SpecChoice:
    """The spec of any form in which shapes are declared; of a list, the choice among its items."""
    if isinstance(shapes, SpecChoice):
        return shapes
    return SpecChoice(list(map(ShapeSpec.of, shapes))) if isinstance(shapes, (list, tuple)) else ShapeSpec.of(shapes)


def choice_of(specs: Sequence[ShapeSpec], preferred: ShapeSpec | None = None) -> ShapeSpec | SpecChoice:
    """The choice among specs, each once; the spec itself if there is but one."""
    different = list({repr(spec): spec for spec in specs}.values())
    return different[0] if len(different) == 1 else SpecChoice(different, preferred)
