"""A storm of bad requests at a sealed server: each is refused, and no guard is asked for words meanwhile."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
import torch

from benchmarks import storm
from benchmarks.demo_models import build
from benchmarks.open_loop import together
from tracer.guards import manager
from tracer.metrics import counters

CLIENTS = 16


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 8)
        self.linear = torch.nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask):
        x = self.embedding(input_ids) * attention_mask[:, :, None]
        return self.linear(x if input_ids.shape[0] > 4 else x + 1)


def weather(model, requests, monkeypatch):
    """What each kind of request met, in a storm on 16 threads."""
    server = storm.Server(storm.sealed(model))
    texts, made = [], counters["explanations"]["made"]
    define = manager.define
    monkeypatch.setattr(manager, "define", lambda *args: texts.append(args) or define(*args))
    met, wrong, turns = Counter(), [], itertools.count()

    def client():
        while (turn := next(turns)) < requests:
            draw = random.Random(turn)
            inputs = storm.good_inputs(turn)
            bad = draw.choice(storm.BAD) if turn % 3 == 0 else None
            inputs = inputs if bad is None else bad(inputs)
            answer = server.answer(inputs)
            kind = "good" if bad is None else bad.__name__
            if isinstance(answer, storm.Refusal):
                met[kind, answer.kind] += 1
                continue
            met[kind, "served"] += 1
            with torch.no_grad():
                expected = model(**inputs)
            if not torch.equal(_first(answer), _first(expected)):
                wrong.append(turn)

    together(client, CLIENTS)
    assert not wrong and not texts and counters["explanations"]["made"] == made
    return met


def _first(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def hold(met, requests):
    assert met.total() == requests and met["good", "served"] == requests - -(-requests // 3)
    for kind in ("dtype", "rank", "size", "no_tensor"):
        assert met[kind, "sealed"] and not met[kind, "served"], met
    assert met["keyword", "no such argument"] or met["keyword", "sealed"]
    assert met["strides", "sealed"] or met["strides", "served"]


def test_bad_requests_are_refused_and_cost_no_words(monkeypatch):
    hold(weather(Small().eval(), 600, monkeypatch), 600)


@pytest.mark.full
def test_a_long_storm_on_bert(monkeypatch):
    hold(weather(build("bert", 4, storm.LENGTHS[1]), 6000, monkeypatch), 6000)
