"""Layers of torch.nn, traced at two batch sizes: results, gradients, buffers and random state are those of eager."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.library.torch_.layer_cases import LAYERS
from tests.library.torch_.many_calls import many_calls

BATCHES = (4, 5, 7)
LOOK_AT_DATA = {"CTC", "AdaptiveLSM"}
DIFFER_IN_EVAL = [
    name
    for name in LAYERS
    if name.startswith(("BN", "IN", "Sync", "Drop", "Alpha", "Feat", "RReLU", "MHA", "TEL", "TE", "TDL", "LSTM"))
]


def run(name: str, train: bool) -> None:
    make, arguments = LAYERS[name]
    torch.manual_seed(0)
    layer = make().train(train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = many_calls(layer, [arguments(n) for n in BATCHES], backward=True)
    looks = name in LOOK_AT_DATA or (name == "BNnomom" and train)
    assert bool(traced.breaks) is looks, traced.break_ids
    if not looks:
        assert len(traced.graphs) == 2, "one static graph, one for all batches"


@pytest.mark.parametrize("name", LAYERS)
def test_layer_in_training(name):
    run(name, train=True)


@pytest.mark.parametrize("name", DIFFER_IN_EVAL)
def test_layer_in_evaluation(name):
    run(name, train=False)
