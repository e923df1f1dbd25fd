"""Calls whose tensors have strides of their own at dims of size 1, as slices and transposed tensors have.

No element lies by such a stride, and torch calls a tensor contiguous whatever they are; but what the program gives may have them,
too, so that they are symbols of a trace as sizes are. Here they are variables of a domain.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any

import sympy

from shapes.domain import Variable
from shapes.solver.bounds import Bounds
from tracer.errors import UserError
from tracer.runtime.argument_paths import path_text
from tracer.serving.calls import Calls
from tracer.sources.tensors import TensorStrideSource

MOST_SIZES = 4  # that may be 1: there are calls of a kind of their own for each choice of them
LARGEST_STRIDE = 1 << 48


def of_ones(calls: Calls) -> Iterator[Calls]:
    """For each choice of sizes that can be 1 at once: the calls in which they are, and the strides there are whatever they are.

    Raises UserError where these are too many.
    """
    bounds = Bounds(calls.domain.conditions())
    sizes = {size: None for layout in calls.layouts.values() for size in layout.sizes}
    may_be = [size for size in sizes if not size.is_Integer and bounds.interval(size)[0] <= 1 <= bounds.interval(size)[1]]
    if len(may_be) > MOST_SIZES:
        raise UserError(
            f"{len(may_be)} sizes may be 1: {', '.join(map(str, may_be))}",
            hint=f"declare all but {MOST_SIZES} of them as 2 or more, or leave strides_of_one out.",
        )
    for count in range(len(may_be) + 1):
        for chosen in itertools.combinations(may_be, count):
            found = _with_ones(calls, {*chosen, sympy.Integer(1)})
            if found is not None:
                yield found


def _with_ones(calls: Calls, ones: set[Any]) -> Calls | None:
    """None if no stride is free there, or no call is so."""
    variables = list(calls.domain.variables)
    places = dict(calls.domain.places)
    found = copy.copy(calls)
    found.layouts, found.include_example = {}, False
    for path, layout in calls.layouts.items():
        strides = list(layout.strides)
        for dim in range(len(strides)):
            if layout.sizes[dim] in ones:
                free = Variable(_name(f"{path_text(path)}_stride_{dim}", variables), min=0, max=LARGEST_STRIDE)
                variables.append(free)
                strides[dim] = places[TensorStrideSource(layout.tensor.source, dim).name] = free.symbol
        found.layouts[path] = dataclasses.replace(layout, strides=tuple(strides))
    if len(variables) == len(calls.domain.variables):
        return None
    relations = [sympy.Eq(size, 1) for size in ones if not size.is_Symbol and not size.is_Integer]
    try:
        variables = [dataclasses.replace(each, min=1, max=1) if each.symbol in ones else each for each in variables]
    except ValueError:  # none of its multiples is 1
        return None
    found.domain = dataclasses.replace(
        calls.domain, variables=tuple(variables), places=places, relations=(*calls.domain.relations, *relations)
    )
    return found


def _name(text: str, taken: list[Variable]) -> str:
    """As an identifier that no other variable has."""
    name = re.sub(r"\W+", "_", text)
    while any(each.name == name for each in taken):
        name += "_"
    return name
