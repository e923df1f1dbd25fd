"""Calls whose tensors have unusual strides at dims of size 1, as slices and transposed tensors have.

Such a stride is multiplied by index 0 only, and torch calls a tensor contiguous whatever it is. But results of the program may
inherit it, so in a trace it is a symbol, as a size is. Here it is a variable of a domain.
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

MOST_SIZES = 4  # that can be 1: each subset of them is a case of its own
LARGEST_STRIDE = 1 << 48


def calls_with_any_strides_of_one(calls: Calls) -> Iterator[Calls]:
    """For each subset of the sizes that can be 1: the calls in which these sizes are 1 and their strides are arbitrary.

    Raises UserError if there are too many such sizes.
    """
    bounds = Bounds(calls.domain.conditions())
    sizes = {size: None for layout in calls.layouts.values() for size in layout.sizes}
    can_be_one = [size for size in sizes if not size.is_Integer and bounds.interval(size)[0] <= 1 <= bounds.interval(size)[1]]
    if len(can_be_one) > MOST_SIZES:
        raise UserError(
            f"{len(can_be_one)} sizes may be 1: {', '.join(map(str, can_be_one))}",
            hint=f"declare all but {MOST_SIZES} of them as 2 or more, or leave strides_of_one out.",
        )
    for count in range(len(can_be_one) + 1):
        for chosen in itertools.combinations(can_be_one, count):
            found = _calls_where_ones_are(calls, {*chosen, sympy.Integer(1)})
            if found is not None:
                yield found


def _calls_where_ones_are(calls: Calls, ones: set[Any]) -> Calls | None:
    """The calls in which the sizes `ones` are 1. None if no stride is arbitrary then, or there is no such call."""
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
    """The text as an identifier that no other variable has."""
    name = re.sub(r"\W+", "_", text)
    while any(each.name == name for each in taken):
        name += "_"
    return name
