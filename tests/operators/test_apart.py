"""Tensors of one storage that have no element in common."""

from __future__ import annotations

import itertools

import pytest
import torch

from tracer.operators.apart import are_apart

BASE = torch.arange(240)


def have_no_element_in_common(one: torch.Tensor, other: torch.Tensor) -> bool:
    return not set(one.flatten().tolist()) & set(other.flatten().tolist())


PACKED = {
    "chunks": BASE.chunk(3),
    "columns": BASE.view(12, 20).unbind(1),
    "heads": BASE.view(5, 4, 12).split((4, 4, 4), -1),
    "in the middle": BASE.view(4, 5, 12)[:, 1:3].unbind(1),
    "transposed": [part.transpose(0, 1) for part in BASE.view(5, 4, 12).chunk(2, -1)],
    "rows of several sizes": BASE.view(20, 12).split((3, 7, 10)),
    "even and odd": (BASE[::2], BASE[1::2]),
    "a row and a later part": (BASE.view(12, 20)[0], BASE[30:50]),
}


@pytest.mark.parametrize("name", PACKED)
def test_parts_of_a_packed_tensor_are_apart(name):
    for one, other in itertools.permutations(PACKED[name], 2):
        assert are_apart(one, other) and have_no_element_in_common(one, other)


def test_what_is_said_to_be_apart_is():
    generator = torch.Generator().manual_seed(0)
    said = 0
    for _ in range(4000):
        one, other = (_random_part(generator) for _ in range(2))
        if are_apart(one, other):
            said += 1
            assert have_no_element_in_common(one, other)
    assert said > 500


def _random_part(generator: torch.Generator) -> torch.Tensor:
    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    sizes = [draw(1, 5) for _ in range(draw(1, 4))]
    strides = [draw(0, 16) for _ in sizes]
    reach = sum((size - 1) * stride for size, stride in zip(sizes, strides))
    return BASE.as_strided(sizes, strides, draw(0, 240 - reach))


def test_a_tensor_is_not_apart_from_itself_nor_from_one_of_another_dtype():
    assert not are_apart(BASE, BASE)
    assert not are_apart(BASE[:3], BASE.view(torch.int32)[100:])
