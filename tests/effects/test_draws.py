"""Random numbers that the output code draws: the state of the generators, taken and put back."""

from __future__ import annotations

import random

from tracer.effects.random_draws import generator_states, restore_states


def test_draws_of_a_generator_whose_init_is_not_over_can_be_undone():
    generator = random.Random.__new__(random.Random)
    states = generator_states(generator)
    drawn = generator.random()
    restore_states(states)
    assert generator.random() == drawn
    generator.seed(3)
    states, drawn = generator_states(generator), generator.gauss(0, 1)
    restore_states(states)
    assert generator.gauss(0, 1) == drawn
