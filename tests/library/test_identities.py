"""`id()` of what existed before, among plain numbers."""
from __future__ import annotations

import torch

from tests.support import captured


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
