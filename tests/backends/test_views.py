"""Views of tensors whose layout torch's rules tell compilers wrong."""

from __future__ import annotations

import pytest
import torch

import tracer
from tracer.exc import BackendCompilerFailed

X = torch.linspace(-1, 1, 12).reshape(3, 4).t()


def of_a_power(x):
    return (2**x).view(-1) + 1


def of_a_question(x):
    return torch.isin(x, torch.ones(1)).view(12)


def of_a_log(x):
    return torch.nn.functional.logsigmoid(x).view(2, -1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [of_a_power, of_a_question, of_a_log], ids=lambda program: program.__name__)
def test_views_that_the_program_can_make_are_compiled(program, backend):
    torch.testing.assert_close(tracer.optimize(backend)(program)(X), program(X))


def test_where_the_shared_memory_shows_nothing_is_copied():
    def written(x):
        y = 2**x
        y.view(-1).add_(1)
        return y

    def returned(x):
        y = 2**x
        return y, y.view(-1)

    for program in (written, returned):
        torch.testing.assert_close(tracer.optimize("eager")(program)(X), program(X))
        with pytest.raises(BackendCompilerFailed, match="Cannot view a tensor"):
            tracer.optimize("aot_eager")(program)(X)
