"""Entries whose graphs call operators of the program: they serve as long as what a trace runs of these is what it was."""

from __future__ import annotations

import json

import pytest
import torch

import tracer
from tests.support.processes import run_python

FACTOR = 1


def wide(x):
    return torch.empty_like(x, dtype=torch.float64)


@torch.library.custom_op("saved_operators::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x.double() * by


@scaled.register_fake
def _(x, by):
    return wide(x)


def keep(ctx, inputs, output):
    ctx.by = inputs[1]


def backward(ctx, gradient):
    return (gradient * ctx.by * FACTOR).float(), None


scaled.register_autograd(backward, setup_context=keep)


@torch.library.custom_op("saved_operators::filled", mutates_args={"x"})
def filled(x: torch.Tensor, value: float) -> None:
    x.fill_(value)


library = torch.library.Library("saved_operators", "FRAGMENT")
library.define("shifted(Tensor x) -> Tensor")
library.impl("shifted", lambda x: x + 1, "CPU")
library.define("doubled(Tensor x) -> Tensor")
library.impl("doubled", lambda x: x * 2, "CompositeImplicitAutograd")


@torch.library.register_fake("saved_operators::shifted", lib=library)
def shape_of_shifted(x):
    return torch.empty_like(x)


def model(x):
    y = scaled(x, 2.0)
    filled(x.detach()[:1].clone(), 3.0)
    return y + torch.ops.saved_operators.shifted(x.detach()) + (1 if y.dtype is torch.float64 else 2)


def entry_in(path):
    compiled = tracer.compile(model)
    compiled(torch.ones(3))
    saved = tracer.save(compiled, path)
    assert saved.saved == 1 and not saved.refused
    return path


def loaded_from(path):
    compiled = tracer.compile(model)
    told = tracer.load(compiled, path)
    assert torch.equal(compiled(torch.ones(3)), model(torch.ones(3)))
    return tracer.stats(compiled)["compiles"], "\n".join(told.refused)


def other_wide(x):
    return torch.empty_like(x).double()


def test_entries_serve_while_what_a_trace_runs_of_an_operator_is_what_it_was(tmp_path, monkeypatch):
    path = entry_in(tmp_path / "entries")
    assert loaded_from(path) == (0, "")
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "wide", other_wide)
        assert loaded_from(path) == (1, "what is registered for the operator saved_operators::scaled has other code")
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "FACTOR", 3)
        assert "saved_operators::scaled has other code" in loaded_from(path)[1]
    assert loaded_from(path) == (0, "")


def test_a_kernel_may_change(tmp_path, monkeypatch):
    path = entry_in(tmp_path / "entries")
    monkeypatch.setattr(scaled._init_fn, "__code__", (lambda x, by: by * x.double()).__code__)
    assert loaded_from(path) == (0, "")


def test_an_operator_whose_code_cannot_be_seen_is_refused(tmp_path):
    compiled = tracer.compile(lambda x: torch.ops.saved_operators.doubled(x) + 1)
    compiled(torch.ones(3))
    [refused] = tracer.save(compiled, tmp_path / "entries").refused
    assert (
        "saved_operators::doubled" in refused and "CompositeImplicitAutograd" in refused and "torch.library.custom_op" in refused
    )


IN_ANOTHER_PROCESS = """
import json, sys
import torch, tracer
from tests.saving import test_operators as program

program.FACTOR, backend, tracer.config.cache_dir = int(sys.argv[1]), *sys.argv[2:]
x = torch.arange(3.0, requires_grad=True)
compiled = tracer.compile(program.model, backend=backend)
y = compiled(x)
y.sum().backward()
assert torch.equal(y, program.model(x)), y
print(json.dumps([tracer.stats(compiled)["compiles"], x.grad.tolist()]))
"""


@pytest.mark.full
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_the_cache_of_another_process_has_an_operator_with_its_gradients(backend, tmp_path):
    def served(factor):
        return json.loads(run_python(IN_ANOTHER_PROCESS, factor, backend, tmp_path / "cache").stdout.splitlines()[-1])

    assert served(1) == [1, [2.0, 2.0, 2.0]]
    assert served(1) == [0, [2.0, 2.0, 2.0]]
    if backend != "eager":
        assert served(3) == [1, [6.0, 6.0, 6.0]]
