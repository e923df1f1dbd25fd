"""Random numbers that the output code draws: the state of the generators, taken and put back."""

from __future__ import annotations

import random

from tracer.effects.random_draws import put_back, states_of


def test_draws_of_a_generator_whose_init_is_not_over_can_be_undone():
    generator = random.Random.__new__(random.Random)
    states = states_of(generator)
    drawn = generator.random()
    put_back(states)
    assert generator.random() == drawn
    generator.seed(3)
    states, drawn = states_of(generator), generator.gauss(0, 1)
    put_back(states)
    assert generator.gauss(0, 1) == drawn
