"""`id()` of what existed before, among plain numbers."""

from __future__ import annotations

import torch

from tests.support import breaks, captured


class Layer(torch.nn.Module):
    pass


LAYER = Layer()


def test_the_id_of_an_object_is_compared_with_a_number():
    known = id(LAYER)
    captured(lambda x: x + 1 if id(LAYER) == known else x * 2, torch.ones(2))
    captured(lambda x: x + 1 if id(LAYER) != 5 else x * 2, torch.ones(2))


def test_the_id_of_another_object_is_another_number():
    def fn(x, layer, number):
        return x + 1 if id(layer) == number else x * 2

    captured(lambda x: fn(x, LAYER, id(Layer)), torch.ones(2))


def test_a_shape_is_a_tensor():
    captured(lambda x: 1 + torch._shape_as_tensor(x)[0], torch.ones(3, 4))


def test_ids_beside_other_parts_are_keys():
    def fn(x):
        known = {(id(LAYER), "weight"): 1, (id(Layer), "weight"): 2}
        return x + known[id(LAYER), "weight"], known.get((id(LAYER), "bias")), known.get(("weight", id(LAYER)))

    captured(fn, torch.ones(2))


def test_whether_an_id_in_a_key_is_a_number_is_left_to_cpython():
    known = id(LAYER)

    def of_a_number(x):
        return {(id(LAYER), "weight"): x + 1}.get((known, "weight"), x)

    def of_an_id(x):
        return {((known, 2), "weight"): x + 1}.get(((id(LAYER), 2), "weight"), x)

    for fn in (of_a_number, of_an_id):
        assert breaks(fn, torch.ones(2)).break_ids == ["unhashable-in-trace"]
