"""What PyTorch's rules ask of sizes to find a layout divides no entries: one serves sizes of 1, too, and equals eager."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F

import tracer
from tests.support.comparing import Comparison, deep_copied
from tests.support.regions import entries

WEIGHT = torch.randn(5, 4)


def scattered(x, y):
    places = torch.arange(y.shape[0]) % x.shape[0]
    return torch.zeros(x.shape[0]).scatter_add_(0, places, y[:, 0])


PROGRAMS = {
    "a product with a matrix": (lambda x, y: F.linear(torch.stack((x, x)), WEIGHT), "x: B, _"),
    "products of batches": (lambda x, y: x[:, :, None] @ y[:, None, :], "x: B, _; y: B, _"),
    "broadcast": (lambda x, y: x[:, None] + y[None], "x: B, _; y: S, _"),
    "expanded": (lambda x, y: x[:1].expand(y.shape[0], -1) * y, "x: B, _; y: S, _"),
    "converted as it lies": (lambda x, y: (x[:, None] * y).transpose(0, 1).double(), "x: B, _; y: S, _"),
    "normalised": (lambda x, y: F.layer_norm(x[:, None] * y, (4,)), "x: B, _; y: S, _"),
    "split and viewed": (lambda x, y: (x[:, None] * y).split(2, -1)[1].view(x.shape[0], y.shape[0], 1, 2), "x: B, _; y: S, _"),
    "scattered": (scattered, "x: B, _; y: S, _"),
    "picked": (lambda x, y: x[torch.arange(y.shape[0]) % 1], "x: B, _; y: S, _"),
}


def certified(fn, spec, relations=""):
    made = tracer.optimize("eager")(fn)
    bounds = "".join(f"; {name} in 1..6" for name in "BS" if name in spec)
    others = 3 if "y: B" in spec or relations else 5
    found = tracer.precompile(made, spec + bounds + relations, (torch.ones(3, 4), torch.ones(others, 4)))
    assert found.certified, str(found)
    made.seal()
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_entry_serves_all_sizes_and_gives_what_eager_gives(name):
    fn, spec = PROGRAMS[name]
    made = certified(fn, spec)
    assert len(entries(made)) == 1
    for rows, others in itertools.product((1, 2, 6), repeat=2):
        args = torch.randn(rows, 4), torch.randn(5 if "y" not in spec else rows if "y: B" in spec else others, 4)
        Comparison().same(fn(*args), made(*deep_copied(args)), f"{rows}, {others}")


def test_sizes_that_were_taken_for_equal_are_checked():
    def fn(x, y):
        return x + y

    made = certified(fn, "x: B, _; y: S, _", "; B == S or B == 1 or S == 1")
    for rows, others in ((1, 1), (4, 4), (1, 4), (4, 1), (6, 1), (1, 6)):
        args = torch.randn(rows, 4), torch.randn(others, 4)
        Comparison().same(fn(*args), made(*args), f"{rows}, {others}")


def test_a_program_that_reads_the_layout_gets_that_of_each_call():
    def fn(x, y):
        z = (x[:, None] * y).transpose(0, 1).double()
        return z.stride(), z.is_contiguous(), z[:1].expand(y.shape[0], -1, -1).stride()

    made = certified(fn, "x: B, _; y: S, _")
    for rows, others in itertools.product((1, 2, 6), repeat=2):
        args = torch.randn(rows, 4), torch.randn(others, 4)
        assert made(*args) == fn(*args)


def test_whether_a_reshape_copies_is_still_told_apart():
    def fn(x, y):
        z = x[:, None] * y
        turned = z.transpose(0, 1).reshape(-1)
        turned.add_(1)
        return z, turned

    made = certified(fn, "x: B, _; y: S, _")
    for rows, others in itertools.product((1, 2, 6), repeat=2):
        args = torch.randn(rows, 4), torch.randn(others, 4)
        Comparison().same(fn(*args), made(*args), f"{rows}, {others}")
