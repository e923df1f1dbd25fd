"""Operations of the compiled graph that fail when it runs."""

from __future__ import annotations

import traceback

import torch

import tracer
from tests.support import check, check_made

X = torch.arange(6.0).reshape(2, 3)


def test_an_operation_that_fails_in_a_frame_with_a_break_after_it():
    def f(x, i):
        y = x + 1
        z = x[i]
        tracer.graph_break()
        return y, z

    check(f, X, torch.tensor([0, 1]))
    check(f, X, torch.tensor([0, 5]))


def test_a_handler_of_an_operation_that_fails_in_a_frame_with_a_break():
    def f(x):
        try:
            x.max()
        except RuntimeError as error:
            tracer.graph_break()
            return str(error)

    check(f, torch.zeros(0, 3))


def test_a_negative_constant_can_have_a_symbolic_power():
    def f(x, n):
        return x, (-7) ** n, (-2) ** x

    for n in (2, 3, 4):
        check_made(f, lambda n=n: ((X, n), {}), dynamic=True)


def test_effects_before_a_failing_operation_of_a_graph_that_writes_to_its_inputs():
    def f(x, i, log):
        log.append(1)
        x.add_(1)
        log.append(2)
        z = x[i]
        log.append(3)
        x.add_(1)
        return z

    check(f, X, torch.tensor([0, 1]), [])
    check(f, X, torch.tensor([0, 5]), [])


def test_a_handler_around_a_failing_operation_of_a_graph_that_writes_to_its_inputs():
    def f(x, i, log):
        try:
            x.mul_(2)
            z = x[i]
            log.append(1)
        except IndexError as error:
            log.append(str(error))
            z = x
        finally:
            log.append(2)
        return z * 2

    check(f, X, torch.tensor([0, 1]), [])
    check(f, X, torch.tensor([0, 5]), [])


def test_statistics_of_a_batch_norm_before_a_loss_that_refuses_its_target():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))

    def f(model, x, target, log):
        log.append("forward")
        loss = torch.nn.functional.cross_entropy(model(x), target)
        log.append("loss")
        return loss.detach()

    check(f, model, X, torch.tensor([0, 1]), [])
    check(f, model, X, torch.tensor([0, 9]), [])


def test_an_operation_that_fails_before_anything_was_written():
    def f(x, i, log):
        log.append(1)
        z = x[i]
        x.add_(1)
        return z

    checked = check(f, X, torch.tensor([0, 5]), [])
    assert isinstance(checked.error, IndexError)


def test_random_numbers_drawn_before_an_operation_that_fails():
    def f(x, i):
        x.add_(torch.rand(3))
        try:
            return x[i]
        except IndexError:
            return torch.rand(2)

    check(f, X, torch.tensor([0, 5]))


def test_a_bool_minus_a_tensor_fails_in_the_graph_after_an_input_was_written_and_is_handled():
    def program(x, k):
        x.unsqueeze(0)[...] = 0.75
        try:
            return k - x
        except RuntimeError as error:
            return type(error).__name__, x

    check(program, torch.randn(3, 3), 4)
    check(program, torch.randn(3, 3), True)


def test_a_product_of_two_dtypes_after_a_write_fails_at_its_own_line():
    weight = torch.ones(3, 3)

    def f(x):
        x += 1
        return x @ weight

    error = check(f, torch.ones(2, 3, dtype=torch.float64)).error
    lines = [line for _, line in traceback.walk_tb(error.__traceback__)]
    assert f.__code__.co_firstlineno + 2 in lines
