"""What one process saves, another one serves: the same guards, the same certificate, nothing traced."""

from __future__ import annotations

import json

import pytest

from tests.support.processes import run_python

MODEL = '''
import random, sys, torch, tracer

SCALE = 3

def shifted(x):
    return x + SCALE

class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x)))

class Model(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(width) for _ in range(3)])
        self.register_buffer("bias", torch.ones(width))

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x)
        if mask is not None:
            x = x * mask[:, :, None]
        if x.shape[0] <= 8:
            x = shifted(x)
        if x.shape[1] % 4 == 0:
            x = x - self.bias
        with torch.no_grad():
            total = x.sum()
        return x.mean(1), total

SHAPES = "x: B, S, _; mask: B, S; B in 1..64; S in 1..64"

def built():
    torch.manual_seed(0)
    model = Model().eval()
    return model, tracer.compile(model, shapes=SHAPES, recompile_limit=64)

EXAMPLE = torch.randn(3, 5, 8), torch.randn(3, 5)

def calls():
    """Calls of many kinds; most are served, some are not."""
    chance = random.Random(1)
    for _ in range(150):
        b, s = [1 if chance.random() < 0.2 else chance.randint(1, 64) for _ in range(2)]
        x = torch.randn(b, s, 8, dtype=chance.choice([torch.float32] * 8 + [torch.float64]))
        mask = torch.randn(b, s)
        if chance.random() < 0.1:
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        if chance.random() < 0.1:
            mask = mask.requires_grad_()
        yield x, mask

def served(model, compiled):
    """For each call the number of the entry that serves it, or the guard that fails in each."""
    entries = tracer.region_of(compiled).entries()
    told = []
    for x, mask in calls():
        why = tracer.why(compiled, x, mask)
        told.append(entries.index(why.entry) if why.hit else [str(miss.failure) for miss in why.misses])
    return told
'''
SAVE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from model import *
model, compiled = built()
with torch.no_grad():
    certificate = tracer.precompile(compiled, example=EXAMPLE)
    assert certificate.certified, certificate
    result = tracer.save(compiled, sys.argv[1] + "/entries")
    assert result.saved == len(certificate.covering) and not result.refused, result
    compiled.contract().save(sys.argv[1] + "/contract.json")
    print(json.dumps({"served": served(model, compiled), "regions": sorted(certificate.regions())}))
"""
LOAD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from model import *
model, compiled = built()
with torch.no_grad():
    result = tracer.load(compiled, sys.argv[1] + "/entries")
    assert result, result
    certificate = tracer.coverage(compiled, example=EXAMPLE)
    assert certificate.certified, certificate
    compiled.seal()
    told = served(model, compiled)
    for x, mask in calls():
        if tracer.why(compiled, x, mask).hit:
            got, expected = compiled(x, mask), model(x, mask)
            assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1]) and not got[1].requires_grad
    compiled.contract().save(sys.argv[1] + "/contract2.json")
    stats = tracer.stats(compiled)
    assert stats["compiles"] == 0 and stats["hits"] > 100, stats
    print(json.dumps({"served": told, "regions": sorted(certificate.regions())}))
"""


def run(program, folder):
    return json.loads(run_python(program, folder).stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("restart")
    (folder / "model.py").write_text(MODEL)
    return run(SAVE, folder), run(LOAD, folder), folder


def test_the_certificate_holds_at_start_without_a_trace(both):
    first, second, _ = both
    assert first["regions"] == second["regions"] and len(first["regions"]) == 4


def test_a_loaded_entry_passes_exactly_the_guards_of_the_traced_one(both):
    first, second, _ = both
    hits = [told for told in first["served"] if isinstance(told, int)]
    assert len(first["served"]) == 150 and 90 < len(hits) < 150 and len(set(hits)) == 4
    assert first["served"] == second["served"]


def test_the_contracts_are_equivalent_and_tell_the_same_outputs(both):
    from tracer.serving.contract import Contract, difference

    contracts = [Contract.read(both[2] / name) for name in ("contract.json", "contract2.json")]
    assert difference(*contracts).status == "equivalent"
    outputs = [[region["outputs"] for region in each.data["regions"]] for each in contracts]
    assert outputs[0] == outputs[1] and outputs[0][0]
