"""Graphs that are cut where torch's state is another one: `no_grad`, inference mode, autocast. They are cut around `synchronize`,
which compilers are not given."""

from __future__ import annotations

import pytest
import torch

import tracer
from tracer.backends.torch_compilers import aot_eager


def many(x):
    for _ in range(4):
        x = (x.sin() + x.cos()).tanh()
    return x


def waiting(x):
    y = many(x)
    torch.cpu.synchronize()
    return many(y)


def without_gradients(x):
    with torch.no_grad():
        y = waiting(x)
    return y * x


def with_gradients_inside(x):
    with torch.no_grad():
        y = many(x)
        with torch.enable_grad():
            z = waiting(x)
        y = many(y)
    return y + z


def in_inference_mode(x):
    with torch.inference_mode():
        y = waiting(x)
    return y.clone()


def under_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = waiting(x.mT @ x)
        with torch.autocast("cpu", enabled=False):
            y = waiting(y.float()) @ x.mT
        return waiting((x @ x.mT).float().sum()), y


def beside_a_range(x):
    with torch.no_grad():
        before = many(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = before @ x.mT
    return waiting(x), before.float()


ALL = (without_gradients, with_gradients_inside, in_inference_mode, under_autocast, beside_a_range)


def run(fn, x):
    x = x.clone().requires_grad_()
    results = fn(x)
    tensors = results if isinstance(results, tuple) else (results,)
    wanted = [each.float().sum() for each in tensors if each.requires_grad]
    gradients = torch.autograd.grad(sum(wanted), x) if wanted else ()
    return [*tensors, *(each.is_inference() for each in tensors), *gradients]


@pytest.mark.parametrize("program", ALL, ids=lambda fn: fn.__name__)
def test_pieces_compute_what_the_program_does(program):
    compiled = tracer.optimize("aot_eager", fullgraph=True)(program)
    for rows in (3, 4, 5):
        x = torch.randn(rows, 3)
        want, got = run(program, x), run(compiled, x)
        _close(want, got)
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def _close(want, got):
    assert len(want) == len(got)
    for one, other in zip(want, got):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(other, one, rtol=0.02, atol=0.02)
        else:
            assert one == other


def states_of_pieces(fn, x):
    """Whether gradients are on and whether autocast is, where each piece with more than a few operations is compiled."""
    seen = []

    def backend(gm, inputs):
        if sum(node.op.startswith("call") for node in gm.graph.nodes) > 8:
            seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return aot_eager(gm, inputs)

    tracer.optimize(backend, fullgraph=True)(fn)(x)
    return seen


def test_pieces_are_compiled_in_the_state_that_they_run_in():
    x = torch.randn(3, 3)
    assert states_of_pieces(without_gradients, x) == [(False, False), (False, False)]
    assert states_of_pieces(in_inference_mode, x) == [(False, False), (False, False)]
    assert states_of_pieces(with_gradients_inside, x) == [(True, False), (True, False)]  # no range is cut
    assert {autocast for _, autocast in states_of_pieces(under_autocast, x)} == {True, False}


def test_a_range_without_a_cut_stays_in_one_piece():
    assert states_of_pieces(beside_a_range, torch.randn(3, 3))[0] == (True, False)


def test_the_state_is_restored_if_a_piece_raises():
    def fn(x, index):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            return waiting(x[index])

    compiled = tracer.optimize("aot_eager", fullgraph=True)(fn)
    compiled(torch.randn(3, 3), torch.tensor([1, 2]))
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(torch.randn(3, 3), torch.tensor([1, 7]))
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_the_state_is_restored_if_a_compiler_fails():
    def backend(gm, inputs):
        if torch.is_autocast_enabled("cpu"):
            raise ValueError("no code for it")
        return gm.forward

    compiled = tracer.optimize(backend)(under_autocast)
    x = torch.randn(3, 3)
    with pytest.raises(tracer.exc.BackendCompilerFailed):
        compiled(x)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
