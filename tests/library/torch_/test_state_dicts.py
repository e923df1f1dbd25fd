"""`state_dict()` inside the traced function."""

from __future__ import annotations

import torch

from tests.support import captured


def test_the_state_dict_of_a_module_is_read_inside():
    linear = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())

    def fn(x):
        state = linear.state_dict()
        return linear(x), state["0.weight"] * 2, list(state), sorted(state._metadata)

    captured(fn, torch.ones(2, 3))
