"""Shape contracts: what the file says, and which shapes differ in two of them."""

from __future__ import annotations

import json
import time

import pytest
import torch
import z3

import tracer
from shapes.parsing import variable
from shapes.solver import Answer
from tests.serving.test_coverage import BY_HAND, branching
from tests.support.processes import run_python
from tracer.__main__ import main
from tracer.serving.contract import Contract, difference

DOMAIN = "x: B, S; B in 1..256; S in 1..4096"


def contract_of(program, spec=DOMAIN, example=None):
    compiled = tracer.optimize("eager")(program)
    tracer.precompile(compiled, spec, torch.randn(128, 5) if example is None else example)
    return compiled.contract()


def plain(x):
    return x.sum(1) * 2


def refactored(data):
    doubled = data * 2
    return doubled.sum(1)


def restricted(x):
    if x.shape[0] % 128 == 0:
        return x.sum(1) * 2
    raise ValueError("B is a multiple of 128")


def test_the_file_says_what_is_served_and_why():
    def doubling(x):
        if x.shape[1] % 128 == 0:
            x = x.repeat(2, 1)
        return x.sum(1), x * 2

    data = json.loads(contract_of(doubling).text())
    assert data["certified"] and data["domain"]["places"] == {"L['x'].size()[0]": "B", "L['x'].size()[1]": "S"}
    even, odd = data["regions"]
    assert (even["text"], odd["text"]) == ("S % 128 == 0", "S % 128 >= 1")
    assert even["outputs"] == [["2*B"], ["2*B", "S"]] and odd["outputs"] == [["B"], ["B", "S"]]
    (guard,) = even["guards"]
    assert guard["line"] == "if x.shape[1] % 128 == 0:" and guard["at"].startswith("test_contract.py:")
    assert "(check-sat)" in even["smtlib"] and "mod" in even["smtlib"]


def test_a_contract_is_read_as_it_was_written(tmp_path):
    written = contract_of(branching)
    written.save(tmp_path / "a.json")
    read = Contract.read(tmp_path / "a.json")
    assert read.data == written.data and {region["text"] for region in read.data["regions"]} == BY_HAND
    assert difference(written, read).status == "equivalent"


def test_the_same_file_comes_of_every_process(tmp_path):
    program = "import sys; from tests.serving.test_contract import *; sys.stdout.write(contract_of(branching).text())"
    texts = {run_python(program, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    assert len(texts) == 1 and json.loads(texts.pop())["certified"]


def of_many_kinds(x, y):
    b, s = x.shape
    if s // 3 > b or (b * s) % 5 == 2:
        x = x + 1
    if max(b, s - 7) != 6 and not s % 4 == 3:
        x = x * 2
    if b & 3 == 1:
        x = x - 3
    return x.sum() + y.sum()


def models_at(script, sizes):
    """At which of the sizes a script can be satisfied, by a z3 that is told nothing but the text."""
    context = z3.Context()
    asked = z3.Solver(ctx=context)
    asked.from_string(script)
    found = set()
    for at in sizes:
        given = [z3.Int(name, context) == value for name, value in at.items()]
        found |= {tuple(at.values())} if asked.check(*given) == z3.sat else set()
    return found


def test_the_scripts_say_to_another_z3_what_the_regions_say_to_python():
    spec = "x: B, S; y: 2*B + 1; B in 0..7; S in 2..12 by 2; B <= S + 1"
    contract = contract_of(of_many_kinds, spec, (torch.ones(3, 4), torch.ones(7)))
    data, domain = contract.data, contract.domain()
    every = [{"B": b, "S": s} for b in range(-1, 9) for s in range(1, 14)]
    points = {tuple(at.values()): {variable(name): value for name, value in at.items()} for at in every}
    inside = {key for key, point in points.items() if domain.holds(point)}
    assert models_at(data["domain"]["smtlib"], every) == inside and len(inside) > 30
    assert len(data["regions"]) > 4
    for told, region in zip(data["regions"], contract.regions(), strict=True):
        assert models_at(told["smtlib"], every) == {key for key in inside if region.check(points[key])} != set()


def test_renaming_and_refactoring_are_equivalent():
    assert difference(contract_of(plain), contract_of(refactored, "data: N, M; N in 1..256; M in 1..4096")).status == "equivalent"
    divided = difference(contract_of(plain), contract_of(branching), ignore=["regions"])
    assert divided.status == "equivalent" and divided.notes == ("regions: 1 before, 6 now",)


def test_shapes_that_are_served_by_two_entries_now_are_a_difference_unless_it_is_ignored():
    found = difference(contract_of(plain), contract_of(branching))
    (change,) = found.changes
    assert found.status == "different" and found.lost is found.gained is None
    assert change.kind == "regions" and "were served by one entry, and are by two now" in change.text
    with pytest.raises(tracer.exc.UserError, match="'region' is not a kind of difference"):
        difference(contract_of(plain), contract_of(plain), ignore=["region"])


def test_an_inserted_divisibility_is_found_with_a_lost_size():
    started = time.process_time()
    found = difference(contract_of(plain), contract_of(restricted))
    assert time.process_time() - started < 10
    assert found.status == "different" and found.gained is None
    ((name, size), _) = sorted((str(symbol), value) for symbol, value in found.lost.items())
    assert name == "B" and size % 128 and f"lost: B = {size}" in str(found)


def test_gained_and_lost_shapes_are_both_shown():
    found = difference(contract_of(plain, "x: B, S; B in 1..128"), contract_of(plain, "x: B, S; B in 64..256"))
    assert found.lost[variable("B")] < 64 and found.gained[variable("B")] > 128


def test_contracts_over_other_sizes_differ():
    assert difference(contract_of(plain), contract_of(plain, "x: B, _")).status == "different"


def test_there_is_no_contract_of_entries_that_are_gone():
    made = tracer.optimize("eager")(lambda x: x * 2)
    tracer.precompile(made, "x: B; B in 1..64", torch.ones(3))
    made.contract()
    tracer.region_of(made).entries()[0].valid = False
    with pytest.raises(tracer.exc.UserError, match="have been dropped"):
        made.contract()


def test_every_unknown_of_the_solver_is_said(monkeypatch):
    old, new = contract_of(plain), contract_of(refactored, "data: B, S; B in 1..256; S in 1..4096")
    monkeypatch.setattr("shapes.solver.satisfy", lambda *args, **options: Answer("unknown"))
    found = difference(old, new)
    assert found.status == "unknown" and "cannot tell whether a shape was lost" in str(found)


def test_an_expression_that_cannot_be_read_is_no_difference_and_no_equivalence(tmp_path):
    contract = contract_of(plain)
    contract.data["regions"][0]["guards"] = [{"text": "math.sqrt(B) > 2.5", "why": ""}]
    with pytest.raises(tracer.exc.UserError, match="cannot be compared"):
        difference(contract, contract)


def test_the_command_exits_with_what_it_found(tmp_path, capsys, monkeypatch):
    contract_of(plain).save(tmp_path / "old.json")
    contract_of(restricted).save(tmp_path / "new.json")
    (tmp_path / "none.json").write_text("{}")
    (tmp_path / "later.json").write_text('{"version": 99}')
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    assert main(["contract", "diff", old, old]) == 0 and capsys.readouterr().out == "equivalent\n"
    assert main(["contract", "diff", old, new]) == 1 and "lost: B = " in capsys.readouterr().out
    for wrong in ("none.json", "later.json", "missing.json"):
        assert main(["contract", "diff", old, str(tmp_path / wrong)]) == 3
    monkeypatch.setattr("shapes.solver.satisfy", lambda *args, **options: Answer("unknown"))
    assert main(["contract", "diff", old, old]) == 2


def test_nobody_knows_what_was_never_asked():
    with pytest.raises(tracer.exc.UserError, match="it is not known yet"):
        tracer.optimize("eager")(plain).contract()
    with pytest.raises(tracer.exc.UserError, match="was not compiled"):
        tracer.contract(plain)


def test_another_process_declares_what_the_contract_says():
    def program(batch, y):
        return batch["ids"] * 2 if batch["ids"].shape[0] < 8 else y.sum()

    def precompiled(spec):
        made = tracer.optimize("eager")(program)
        assert tracer.precompile(made, spec, ({"ids": torch.ones(3, 8)}, torch.ones(11, 7))).certified
        return made.contract()

    first = precompiled("batch['ids']: B, S; y: S + 3, _; B in 1..32; S in 8..64 by 8; B <= S")
    sent = Contract(json.loads(first.text()))
    second = precompiled(sent.spec())
    assert second.data == first.data and difference(first, second).status == "equivalent"
    sent.data["domain"]["places"]["G['x'].size()[0]"] = "B"
    with pytest.raises(tracer.exc.UserError, match="not a dim of an argument"):
        sent.spec()
