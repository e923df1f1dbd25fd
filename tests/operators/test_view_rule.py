"""The rule of `view` gives the strides that C gives, at dims of size 1 up to what nobody asks."""

from __future__ import annotations

import itertools

import pytest
import torch

import tracer
from tests.support.comparing import Comparison
from tests.support.regions import entries

VIEWS = {
    "rows joined": lambda x: x.view(-1, 12),
    "columns split": lambda x: x.view(x.shape[0], x.shape[1], 3, -1),
    "all in one": lambda x: x.view(-1),
    "ones put in": lambda x: x.view(x.shape[0], 1, x.shape[1], 1, 12),
    "rows joined, columns split": lambda x: x.view(x.shape[0] * x.shape[1], 4, 3),
    "a part with gaps": lambda x: x[:, :, 4:8].view(x.shape[0], x.shape[1], 2, 2),
    "a part of the rows": lambda x: x[:, :1].view(x.shape[0], 12),
}


@pytest.mark.parametrize("name", VIEWS)
def test_one_entry_serves_each_view_at_all_sizes(name):
    fn = VIEWS[name]
    made = tracer.optimize("eager")(fn)
    assert tracer.precompile(made, "x: B, S, _; B in 1..5; S in 1..5", torch.ones(3, 2, 12)).certified
    made.seal()
    assert len(entries(made)) == 1
    for sizes in itertools.product((1, 2, 5), repeat=2):
        x = torch.randn(*sizes, 12)
        Comparison().same((fn(x), x), (made(x), x), str(sizes))


def test_the_strides_that_a_program_reads_of_a_view_are_those_of_each_call():
    def fn(x):
        return x[:, :, 4:8].view(x.shape[0], x.shape[1], 2, 2).stride(), x.view(-1, 4).stride()

    made = tracer.optimize("eager")(fn)
    assert tracer.precompile(made, "x: B, S, _; B in 1..5; S in 1..5", torch.ones(3, 2, 12)).certified
    for sizes in itertools.product((1, 2, 5), repeat=2):
        assert made(torch.randn(*sizes, 12)) == fn(torch.randn(*sizes, 12))


def test_a_view_that_is_none_for_some_sizes_is_refused_there_alone():
    def fn(x):
        return x.transpose(0, 1).view(-1)

    made = tracer.optimize("eager")(fn)
    x = torch.ones(1, 4, 2)
    assert torch.equal(made(x), fn(x))
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        made(torch.ones(3, 4, 2))


FREE = "x: B, S, D strided R, T, U; B in 1..5; S in 1..5; D in 2..6 by 2"
OF_FREE_STRIDES = {  # where there is such a view: in the spec, and of sizes and strides; entries
    "columns joined": (
        lambda x: x.view(x.shape[0], -1),
        "S == 1 or T == D * U",
        lambda sizes, strides: sizes[1] == 1 or strides[1] == sizes[2] * strides[2],
        1,
    ),
    "rows joined": (
        lambda x: x.view(x.shape[0] * x.shape[1], x.shape[2]),
        "B == 1 or S == 1 or R == S * T",
        lambda sizes, strides: 1 in sizes[:2] or strides[0] == sizes[1] * strides[1],
        2,
    ),
    "columns split": (lambda x: x.view(x.shape[0], 1, x.shape[1], 2, -1), "", lambda sizes, strides: True, 1),
}


@pytest.mark.parametrize("name", OF_FREE_STRIDES)
@pytest.mark.parametrize("reads_strides", [False, pytest.param(True, marks=pytest.mark.full)], ids=["given", "read"])
def test_free_strides_are_asked_where_c_asks_them_and_at_no_dim_of_size_one(name, reads_strides):
    view, relation, exists, needed = OF_FREE_STRIDES[name]

    def fn(x):
        return view(x).stride() if reads_strides else view(x)

    made = tracer.optimize("eager")(fn)
    found = tracer.precompile(made, f"{FREE}; {relation}", torch.ones(3, 5, 4))
    assert found.certified, str(found)
    made.seal()
    assert reads_strides or len(entries(made)) == needed
    for sizes in itertools.product((1, 2, 5), (1, 5), (2, 6)):
        for strides in itertools.product((0, 1, 5, 6, 10, 30), (0, 1, 2, 6, 12), (0, 1, 2)):
            if exists(sizes, strides):
                x = torch.randn(400).as_strided(sizes, strides)
                Comparison().same((fn(x), x), (made(x), x), f"{sizes}, {strides}")
