"""Buckets with the least padding there is, and only where padding changes nothing."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

import tracer
from tracer import Contract

SPEC = "x: B, S; B in 1..64; S in 1..64"


def contract_of(function, spec=SPEC, example=None):
    made = tracer.optimize("eager")(function)
    found = tracer.precompile(made, spec, torch.randn(3, 4) if example is None else example)
    assert found, str(found)
    return made.contract()


@pytest.fixture(scope="module")
def plain():
    return contract_of(lambda x: (x * 2).softmax(1))


def brute_force(counts, k):
    sizes = sorted(counts)
    best = None
    for number in range(1, min(k, len(sizes)) + 1):
        for buckets in itertools.combinations(sizes, number):
            if buckets[-1] == sizes[-1]:
                padding = sum(count * (min(b for b in buckets if b >= size) - size) for size, count in counts.items())
                best = padding if best is None else min(best, padding)
    return best


def test_the_padding_is_the_least_there_is(plain):
    draw = random.Random(0)
    for _ in range(40):
        counts = {size: draw.randint(1, 30) for size in draw.sample(range(1, 65), draw.randint(1, 10))}
        k = draw.randint(1, 5)
        plan = tracer.plan_buckets(counts, k, plain, size="B")
        assert plan.padding == brute_force(counts, k) and len(plan.buckets) <= k
        assert all(plan.bucket_for(size) >= size and plan.bucket_for(size) in plan.buckets for size in counts)
        assert plan.padding == sum(count * (plan.bucket_for(size) - size) for size, count in counts.items())


def test_a_plan_says_what_it_costs(plain):
    plan = tracer.plan_buckets([1, 1, 1, 7, 8, 8], 2, plain, size="B")
    assert plan.buckets == (1, 8) and plan.padding == 1 and plan.rows == 26 and plan.requests == 6
    assert "2 buckets for B: 1, 8; 3.7% of the rows are padding" in str(plan)
    with pytest.raises(tracer.exc.UserError, match="not among the sizes"):
        plan.bucket_for(9)


def test_a_contract_read_from_a_file_is_enough(plain, tmp_path):
    plain.save(tmp_path / "c.json")
    assert tracer.plan_buckets({3: 1, 5: 2}, 1, Contract.read(tmp_path / "c.json"), size="B").buckets == (5,)


def test_padded_requests_give_what_they_give_alone():
    def f(x):
        return (x.exp() @ torch.ones(4, 3)).softmax(-1)

    made = tracer.optimize("eager")(f)
    assert tracer.precompile(made, "x: B, _; B in 1..64", torch.randn(3, 4))
    made.seal()
    plan = tracer.plan_buckets({size: 1 for size in range(1, 33)}, 4, made.contract())
    for size in range(1, 33):
        x = torch.randn(size, 4)
        padded = torch.cat([x, torch.full((plan.bucket_for(size) - size, 4), 9.0)])
        torch.testing.assert_close(made(padded)[:size], f(x))


def test_sizes_that_the_program_tells_apart_are_not_padded_into_each_other():
    contract = contract_of(lambda x: x * 2 if x.shape[0] <= 8 else x * 3)
    plan = tracer.plan_buckets({3: 10, 7: 10, 9: 1, 64: 1}, 2, contract, size="B")
    assert plan.buckets == (7, 64) and plan.classes == ((3, 7), (9, 64))
    with pytest.raises(tracer.exc.UserError, match="tells 2 groups of sizes apart"):
        tracer.plan_buckets({3: 10, 9: 1}, 1, contract, size="B")
    three = tracer.plan_buckets({3: 10, 7: 10, 9: 1, 64: 1}, 3, contract, size="B")
    assert three.buckets == (7, 9, 64) or three.padding == min(40, 55)


def test_groups_that_alternate_have_buckets_of_their_own():
    contract = contract_of(lambda x: x * 2 if x.shape[0] % 2 else x * 3)
    plan = tracer.plan_buckets({1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1}, 2, contract, size="B")
    assert plan.buckets == (5, 6) and plan.bucket_for(1) == 5 and plan.bucket_for(2) == 6


def test_a_difference_in_another_size_does_not_tell_batches_apart():
    contract = contract_of(lambda x: x * 2 if x.shape[1] <= 8 else x * 3)
    assert tracer.plan_buckets({3: 1, 9: 1}, 1, contract, size="B").buckets == (9,)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x - x.mean(0), "reduces over the rows"),
        (lambda x: x * x.shape[0], "computes with the batch size"),
        (lambda x: x + 1 if x.shape[1] < 9 else x.cumsum(0), "goes along the rows"),
        (lambda x: x + torch.linspace(0, 1, x.shape[0]).unsqueeze(1), "combines rows with a tensor that has"),
    ],
)
def test_rows_that_are_not_proved_independent_are_refused(function, words):
    with pytest.raises(tracer.exc.UserError, match=words):
        tracer.plan_buckets({3: 1}, 1, contract_of(function), size="B")


def test_what_does_not_fit_is_refused(plain):
    for arguments, words in (
        (({3: 1}, 0, plain), "not a number of buckets"),
        (({}, 1, plain), "is empty"),
        (({"3": 1}, 1, plain), "is not a size"),
        (({3: 1}, 1, plain), "is not a size of the contract"),
    ):
        with pytest.raises(tracer.exc.UserError, match=words):
            tracer.plan_buckets(*arguments)
    with pytest.raises(tracer.exc.UserError, match="is outside the declared range"):
        tracer.plan_buckets({65: 1}, 1, plain, size="B")
    with pytest.raises(tracer.exc.UserError, match="is tied to other sizes"):
        tracer.plan_buckets({3: 1}, 1, contract_of(lambda x: x * 2, SPEC + "; B <= S"), size="B")
    old = {**plain.data, "regions": [{**region, "rows": {}} for region in plain.data["regions"]]}
    with pytest.raises(tracer.exc.UserError, match="does not say whether rows"):
        tracer.plan_buckets({3: 1}, 1, Contract(old), size="B")
    with pytest.raises(tracer.exc.UserError, match="not certified"):
        tracer.plan_buckets({3: 1}, 1, Contract({**plain.data, "certified": False}), size="B")


def test_what_the_solver_cannot_tell_is_told_apart(monkeypatch):
    contract = contract_of(lambda x: x * 2 if x.shape[0] * x.shape[1] < 512 else x * 3)
    plan = tracer.plan_buckets({60: 1, 61: 1, 62: 1}, 3, contract, size="B")
    monkeypatch.setattr("tracer.serving.buckets.solver.equivalent", lambda *args: None)
    apart = tracer.plan_buckets({60: 1, 61: 1, 62: 1}, 3, contract, size="B")
    assert len(apart.classes) == 3 >= len(plan.classes)


def test_python_and_broken_regions_are_refused():
    def f(x):
        if x.shape[0] > 50:
            raise ValueError("too many")
        return x * 2

    with pytest.raises(tracer.exc.UserError, match="no graph runs"):
        tracer.plan_buckets({3: 1}, 1, contract_of(f), size="B")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, x.shape[0] : x.shape[0] + 2],
        lambda x: x[:, x.shape[0]],
        lambda x: x[:, -x.shape[0]],
        lambda x: torch.nn.functional.pad(x, (x.shape[0], -x.shape[0])),
        lambda x: (x.sum(1), torch.arange(200.0)[: -x.shape[0]]),
    ],
    ids=["slice", "select", "select from the end", "shifted by", "size left"],
)
def test_places_and_values_that_depend_on_the_batch_size_are_refused(function):
    contract = contract_of(function, "x: B, 128; B in 2..64", torch.randn(3, 128))
    with pytest.raises(tracer.exc.UserError, match=r"computes with the batch size|gives B \*"):
        tracer.plan_buckets({3: 1, 5: 1}, 1, contract)


def test_a_float_that_follows_the_size_is_no_proof_of_rows():
    contract = contract_of(
        lambda x: torch.nn.functional.layer_norm(x, (8,), eps=float(x.shape[0])), "x: B, 8; B in 2..5", torch.randn(3, 8)
    )
    assert [region["outputs"] for region in contract.data["regions"]] == [[["B", "8"]]]
    with pytest.raises(tracer.exc.UserError, match="may depend on each other"):
        tracer.plan_buckets({3: 1, 5: 1}, 1, contract)


def test_entries_of_one_size_each_do_not_prove_rows_of_all_sizes():
    contract = contract_of(lambda x: x + torch.kaiser_window(x.shape[0]).unsqueeze(1), "x: B, 8; B in 2..5", torch.randn(3, 8))
    assert sorted(region["outputs"] for region in contract.data["regions"]) == [[[str(size), "8"]] for size in range(2, 6)]
    with pytest.raises(tracer.exc.UserError, match="tells 2 groups of sizes apart"):
        tracer.plan_buckets({3: 1, 5: 1}, 1, contract)


def test_every_size_within_the_bounds_has_the_least_bucket_that_it_may_be_padded_to(plain):
    plan = tracer.plan_buckets({3: 900, 7: 250, 20: 90}, 2, plain, size="B")
    for size in range(1, plan.buckets[-1] + 1):
        assert plan.bucket_for(size) == min(bucket for bucket in plan.buckets if bucket >= size)
    for size in (21, 64, 65, 0, -1, 2.5, None):
        with pytest.raises(tracer.exc.UserError, match="not among the sizes that were planned for: up to 20"):
            plan.bucket_for(size)


def test_a_size_is_padded_only_to_one_that_the_program_treats_alike():
    contract = contract_of(lambda x: (x if x.shape[0] <= 8 else x * 2).softmax(1))
    plan = tracer.plan_buckets({3: 10, 20: 90}, 2, contract, size="B")
    assert plan.buckets == (3, 20) and [plan.bucket_for(size) for size in (1, 2, 3, 9, 12, 20)] == [3, 3, 3, 20, 20, 20]
    for size in (4, 8):
        with pytest.raises(tracer.exc.UserError, match="does something else for these sizes"):
            plan.bucket_for(size)


def test_sizes_that_were_not_declared_have_no_bucket():
    contract = contract_of(lambda x: (x * 2).softmax(1), "x: B, _; B in 8..64 by 8", torch.randn(8, 4))
    plan = tracer.plan_buckets([8, 32], 1, contract)
    assert plan.bucket_for(16) == 32
    with pytest.raises(tracer.exc.UserError, match="it was not declared: 8 <= B <= 64"):
        plan.bucket_for(12)


def test_a_plan_is_exported_as_the_settings_of_engines(plain):
    plan = tracer.plan_buckets({3: 900, 7: 250, 20: 90}, 2, plain, size="B")
    assert plan.capture_sizes() == [3, 20]
    assert plan.settings("vllm") == {"compilation_config": {"cudagraph_capture_sizes": [3, 20]}}
    assert plan.arguments("vllm") == ["--compilation-config", '{"cudagraph_capture_sizes": [3, 20]}']
    assert plan.settings("sglang") == {"cuda_graph_bs": [3, 20], "cuda_graph_max_bs": 20}
    assert plan.arguments("sglang") == ["--cuda-graph-bs", "3", "20", "--cuda-graph-max-bs", "20"]
    with pytest.raises(tracer.exc.UserError, match='"vllm" and "sglang" are'):
        plan.settings("another")


def test_an_engine_pads_to_the_next_size_so_that_has_to_be_right_for_each():
    contract = contract_of(lambda x: x * 2 if x.shape[0] <= 8 else x * 3)
    with pytest.raises(
        tracer.exc.UserError, match="B = 8 would be padded to the next bucket, 20, for which the program does something else"
    ):
        tracer.plan_buckets({3: 10, 20: 90}, 2, contract, size="B").capture_sizes()
    assert tracer.plan_buckets({3: 10, 8: 1, 20: 90}, 2, contract, size="B").capture_sizes() == [8, 20]
