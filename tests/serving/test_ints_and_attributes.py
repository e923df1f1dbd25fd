"""Ints, and what attributes hold, in a declared domain: certified, checked at the entry, and in the contract."""

from __future__ import annotations

import json

import pytest
import torch

import tracer
from shapes.parsing import variable
from tracer.serving.contract import Contract, difference

N = variable("N")
WEIGHTS = [1.0, 2.0, 3.0, 4.0]


def precompiled(program, spec, example, **options):
    compiled = tracer.optimize("eager")(program)
    found = tracer.precompile(compiled, spec, example, **options)
    compiled.seal()
    return compiled, found


def grows(x, n):
    if n > 8:
        x = x * 2
    return x.repeat(n, 1) + n


def test_an_int_is_a_size_of_the_domain():
    spec = "x: B, _; n: N in 2..64; B in 1..16"
    compiled, found = precompiled(grows, spec, (torch.ones(3, 4), 5))
    assert found.certified and set(found.regions()) == {"N <= 8", "9 <= N"}
    for batch, n in ((1, 2), (3, 8), (5, 9), (16, 64)):
        x = torch.randn(batch, 4)
        assert torch.equal(compiled(x, n), grows(x, n))
    with pytest.raises(tracer.exc.SealedError, match=r"L\['n'\] is 65, but it was declared as 2 <= N <= 64"):
        compiled(torch.ones(3, 4), 65)
    for other in (3.0, True):
        with pytest.raises(tracer.exc.SealedError, match="n was declared with dims, but is"):
            compiled(torch.ones(3, 4), other)


@pytest.mark.parametrize(
    ("program", "spec", "regions"),
    [
        (lambda x, n: x * 2 if n else x, "n: N in 0..9", {"N == 0", "1 <= N"}),
        (lambda x, n: x * 2 if n < 0 else x + n, "n: N in -5..5", {"0 <= N", "N <= -1"}),
        (lambda x, n: x * WEIGHTS[n % 4], "n: N in 0..99", {f"N % 4 == {rest}" for rest in range(4)}),
        (lambda x, n: x * n, "n: 5; x: B, _", {"every shape"}),
        (lambda x, n: x.new_ones(n) * n, "n: 2*B + 1; x: B, _", {"every shape"}),
        (lambda x, n: x.new_zeros(x.shape[0]), "x: N, _; n: N", {"every shape"}),
        (lambda x, n: (x * 2, f"{n}")[0], "n: N in 0..99", {"every shape"}),
    ],
)
def test_every_int_of_the_domain_finds_an_entry_that_computes_what_eager_computes(program, spec, regions):
    example = torch.ones(2, 4), {"5": 5, "2*B + 1": 5}.get(spec.split("; ")[0].removeprefix("n: "), 2)
    compiled, found = precompiled(program, spec, example)
    assert found.certified and set(found.regions()) == regions
    for point in found.domain.samples(30):
        sizes = found.domain.sizes_at(point)
        x, n = torch.randn(sizes.get("L['x'].size()[0]", 2), 4), sizes["L['n']"]
        assert torch.equal(compiled(x, n), program(x, n))


def test_an_int_that_a_trace_took_for_a_constant_is_no_proof_for_others():
    compiled = tracer.optimize("eager")(lambda x, n: x * n)
    compiled(torch.ones(3), 4)
    found = tracer.coverage(compiled, "n: N in 2..9", (torch.ones(3), 5))
    assert found.status == "uncovered" and found.regions() == ["N == 4"]


def test_a_guard_on_an_int_that_is_not_understood_covers_nothing(monkeypatch):
    from tracer.guards.identity import IdMatch
    from tracer.serving import regions

    monkeypatch.setattr(regions, "TypeMatch", IdMatch)  # as if nothing were known of it
    compiled = tracer.optimize("eager", shapes="n: N in 2..9")(lambda x, n: x * n)
    compiled(torch.ones(3), 4)
    found = tracer.coverage(compiled, example=(torch.ones(3), 5))
    assert found.status == "uncovered" and "is not looked into" in found.entries[0].refused


@pytest.mark.parametrize(
    ("spec", "words"), [("n: N, M", "2 dims of n were declared, but it is an int"), ("x: N, _; N in -1..3", "min of N is -1")]
)
def test_what_no_int_and_no_size_can_be_is_refused(spec, words):
    with pytest.raises(tracer.exc.UserError, match=words):
        tracer.coverage(tracer.optimize("eager")(lambda x, n: x * n), spec, (torch.ones(3, 3), 5))


def test_a_contract_says_the_ints_and_another_process_declares_them():
    spec = "x: B, _; n: N; B in 2..16; N in -3..64"
    first, _ = precompiled(lambda x, n: x * 2 if n < 0 else x * n, spec, (torch.ones(3, 4), 5))
    sent = Contract(json.loads(first.contract().text()))
    second, found = precompiled(lambda x, n: x * 2 if n < 0 else x * n, sent.spec(), (torch.ones(3, 4), 5))
    assert found.certified and second.contract().data["domain"] == first.contract().data["domain"]
    assert difference(first.contract(), second.contract()).status == "equivalent"
    third, _ = precompiled(lambda x, n: x * n, "x: B, _; n: N; B in 2..16; N in -2..64", (torch.ones(3, 4), 5))
    assert difference(first.contract(), third.contract()).lost[N] == -3
    with pytest.raises(tracer.exc.UserError, match="it is an int of the program"):
        tracer.plan_buckets({3: 4}, 1, first.contract(), size="N")


# -- attributes ----------------------------------------------------------------------------------------------------------


class Cache:
    def __init__(self, size):
        self.size, self.keys = size, torch.randn(3, size)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache, self.linear = Cache(7), torch.nn.Linear(4, 4)
        self.register_buffer("table", torch.zeros(3, 5))

    def forward(self, x):
        y = self.linear(x).sum() + self.cache.keys.sum(1) + self.table.sum(1)
        return y * 3 if self.cache.size > 16 else y


SPEC = "x: B, _; self.cache.size: P; self.cache.keys: _, P; self.table: _, Q; P in 2..32; B in 2..9; Q in 2..9"


def test_what_a_module_holds_is_declared_by_its_path():
    model = Model()
    compiled = tracer.compile(model)
    found = tracer.precompile(compiled, SPEC, torch.ones(2, 4))
    assert found.certified and set(found.regions()) == {"P <= 16", "17 <= P"}
    assert model.cache.size == 7 and model.cache.keys.shape == (3, 7) and model.table.shape == (3, 5)
    compiled.seal()
    for size, length in ((7, 5), (2, 4), (32, 9)):
        model.cache, model.table = Cache(size), torch.randn(3, length)
        x = torch.randn(4, 4)
        assert torch.equal(compiled(x), model(x))
    model.cache.size = 3
    with pytest.raises(tracer.exc.SealedError, match=r"cache.keys.size\(\)\[1\] is 32|was declared as P"):
        compiled(torch.ones(2, 4))
    again = tracer.compile(model, shapes=compiled.contract().spec())
    model.cache = Cache(9)
    assert tracer.precompile(again, example=torch.ones(2, 4)).certified


class Holder:
    def __init__(self, x):
        self.x = x


KNOWN = Holder(torch.ones(3))


def test_a_program_that_knows_its_object_is_not_certified_by_copies_of_it():
    compiled = tracer.optimize("eager")(lambda holder: holder.x * 2 if holder is KNOWN else holder.x * 3)
    found = tracer.precompile(compiled, "holder.x: B in 1..9", (KNOWN,))
    assert found.status == "refused" and "are one object" in found.reason
    assert torch.equal(compiled(KNOWN), KNOWN.x * 2)
    assert tracer.precompile(compiled, "holder.x: B in 1..9", (Holder(torch.ones(3)),)).certified
