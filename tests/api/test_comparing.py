"""`compare_with_eager`: the first operation that a backend computes wrongly, and a program that shows it."""

import os
import subprocess
import sys

import pytest
import torch

import tracer
from tracer.exc import BackendCompilerFailed, UserError


def with_tanh_for_sigmoid(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.target == "sigmoid":
            node.op, node.target = "call_function", torch.tanh
    gm.recompile()
    return gm.forward


def without_writes(gm, example_inputs):
    """Writes to copies in place of the inputs."""
    return lambda *inputs: gm.forward(*[value.clone() if isinstance(value, torch.Tensor) else value for value in inputs])


def without_gradients(gm, example_inputs):
    def run(*inputs):
        return tuple([each.detach().requires_grad_() for each in gm.forward(*inputs)])

    return run


def wrong_from_five_rows(gm, example_inputs):
    def run(*inputs):
        (result,) = gm.forward(*inputs)
        return (result + (result.shape[0] >= 5),)

    return run


def layers(x, weight):
    hidden = torch.relu(x @ weight)
    gates = (hidden + 1).sigmoid()
    return gates.sum(-1) * 2, hidden


def rewritten(x):
    x.mul_(2)
    return x + 1


def compared(program, backend, folder, **settings):
    return tracer.compile(program, backend=tracer.compare_with_eager(backend, folder=folder, **settings))


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_first_wrong_operation_is_named_with_the_users_line(dynamic, tmp_path):
    backend = tracer.compare_with_eager(with_tanh_for_sigmoid, folder=tmp_path)
    compiled = tracer.compile(layers, backend=backend, dynamic=dynamic)
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(torch.randn(3, 4, requires_grad=True), torch.randn(4, 5))
    words = str(caught.value)
    assert "first operation that differs is %sigmoid" in words and "gates = (hidden + 1).sigmoid()" in words


def test_the_program_that_is_written_has_that_operation_alone_and_shows_the_difference(tmp_path):
    with pytest.raises(BackendCompilerFailed) as caught:
        compared(layers, with_tanh_for_sigmoid, tmp_path)(torch.randn(3, 4), torch.randn(4, 5))
    (path,) = tmp_path.glob("difference_*.py")
    text = path.read_text()
    assert str(path) in str(caught.value)
    assert "sigmoid" in text and "relu" not in text and "sum" not in text and "matmul" not in text
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=".", env=_environment())
    assert run.returncode == 1 and "first operation that differs is %sigmoid" in run.stderr, run.stderr


def _environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])}


@pytest.mark.parametrize(
    "program, backend, part",
    [(rewritten, without_writes, "input 0"), (torch.sin, without_gradients, "gradient of input 0")],
    ids=["writes", "gradients"],
)
def test_what_is_left_in_the_inputs_and_gradients_are_compared(program, backend, part, tmp_path):
    x = torch.randn(3, requires_grad=program is torch.sin)
    before = x.detach().clone()
    with pytest.raises(BackendCompilerFailed, match=part):
        compared(lambda x: program(x), backend, tmp_path)(x)
    assert torch.equal(x, before)


def test_calls_are_compared_as_often_as_asked_for_and_until_they_agree(tmp_path):
    often = tracer.compare_with_eager(wrong_from_five_rows, folder=tmp_path, calls=2)
    compiled = tracer.compile(lambda x: x * 2, backend=often, dynamic=True)
    rows = torch.ones(3, 2)
    compiled(rows)
    for _ in range(2):
        with pytest.raises(BackendCompilerFailed):
            compiled(torch.ones(5, 2))
    compiled(rows)
    assert torch.equal(compiled(torch.ones(6, 2)), torch.full((6, 2), 3.0))


def test_a_right_backend_raises_nothing_and_leaves_no_file(tmp_path):
    compiled = compared(layers, "aot_eager", tmp_path)
    x, weight = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5)
    for seen, expected in zip(compiled(x, weight), layers(x, weight), strict=True):
        torch.testing.assert_close(seen, expected)
    assert not list(tmp_path.iterdir())


def test_a_result_that_is_nearer_to_float64_than_eagers_is_right(tmp_path):
    def in_float32(gm, example_inputs):
        return lambda *inputs: tuple([each.bfloat16() for each in gm.forward(*[each.float() for each in inputs])])

    def added_often(x):
        total = x
        for _ in range(400):
            total = total + x
        return total

    x = torch.full((3,), 0.1, dtype=torch.bfloat16)
    assert not torch.allclose(added_often(x), x * 401, rtol=1.6e-2)
    compared(added_often, in_float32, tmp_path)(x)


def test_a_nan_in_place_of_a_number_is_wrong(tmp_path):
    def with_a_nan(gm, example_inputs):
        return lambda *inputs: tuple([torch.where(each == each.max(), torch.nan, each) for each in gm.forward(*inputs)])

    with pytest.raises(BackendCompilerFailed, match="result 0"):
        compared(lambda x: x * 2, with_a_nan, tmp_path)(torch.arange(3.0))


def test_random_draws_of_the_comparison_are_not_the_programs(tmp_path):
    compiled = compared(lambda x: x + torch.rand(3), "eager", tmp_path)
    torch.manual_seed(1)
    seen = compiled(torch.zeros(3))
    torch.manual_seed(1)
    assert torch.equal(seen, torch.rand(3))


@pytest.mark.parametrize("calls", [0, -1, 1.5, True])
def test_a_number_of_calls_is_one_or_more(calls):
    with pytest.raises(UserError, match="calls="):
        tracer.compare_with_eager("eager", calls=calls)
