"""torch.distributions inside: whole, with the validation of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributions as d

import tracer
from tests.support import captured, check


@pytest.fixture(autouse=True)
def arguments_are_validated() -> Iterator[None]:
    """torch.compile, which other tests run beside us, switches this off for the whole process."""
    before = d.Distribution._validate_args
    d.Distribution.set_default_validate_args(True)
    yield
    d.Distribution.set_default_validate_args(before)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: d.Normal(x, x.exp()).log_prob(x + 1),
        lambda x: d.Normal(x, x.exp()).rsample((2,)),
        lambda x: d.Categorical(logits=x).sample(),
        lambda x: d.Categorical(logits=x).entropy(),
        lambda x: d.Bernoulli(logits=x).log_prob((x > 0).float()),
        lambda x: d.Uniform(x, x + 1).rsample(),
        lambda x: d.Beta(x.exp(), x.exp()).log_prob(x.sigmoid()),
        lambda x: d.Gamma(x.exp(), x.exp()).rsample(),
        lambda x: d.MultivariateNormal(x, torch.eye(3), validate_args=False).log_prob(x),
        lambda x: d.MultivariateNormal(x, torch.diag(x.exp())).log_prob(x),
        lambda x: d.MultivariateNormal(x, precision_matrix=torch.diag(x.exp()).expand(2, 3, 3)).rsample(),
        lambda x: d.Independent(d.Normal(x, x.exp()), 1).log_prob(x),
        lambda x: d.TransformedDistribution(d.Normal(x, x.exp()), [d.ExpTransform()]).log_prob(x.exp()),
        lambda x: d.kl_divergence(d.Normal(x, x.exp()), d.Normal(x * 0, x.exp() + 1)),
    ],
)
def test_a_distribution_is_captured_whole(fn: Callable[..., Any]) -> None:
    captured(fn, torch.tensor([0.3, -0.2, 1.5]))


def test_an_argument_that_is_not_valid_raises_as_in_eager() -> None:
    checked = check(lambda x, scale: d.Normal(x, scale).sample(), torch.zeros(2), torch.tensor([1.0, -1.0]))
    assert isinstance(checked.error, ValueError)
    assert "scale" in str(checked.error)


SYMMETRIC = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
MATRICES = {
    "positive definite": SYMMETRIC,
    "positive semidefinite": torch.ones(2, 2),
    "indefinite": torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
    "not symmetric": torch.tensor([[1.0, 0.5], [0.0, 1.0]]),
    "not square": torch.ones(2, 3),
    "one of a batch is indefinite": torch.stack([SYMMETRIC, -SYMMETRIC]),
    "one of a batch is not symmetric": torch.stack([SYMMETRIC, SYMMETRIC.triu()]),
    "not a number": SYMMETRIC * float("nan"),
    "none": torch.ones(0, 2, 2),
}


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("constraint", ["square", "symmetric", "positive_semidefinite", "positive_definite"])
def test_a_constraint_of_matrices_holds_of_the_same_ones(constraint: str, matrix: torch.Tensor) -> None:
    check(lambda x: getattr(d.constraints, constraint).check(x), matrix)


def test_a_covariance_that_is_not_positive_definite_raises_as_in_eager() -> None:
    fn = tracer.optimize("eager")(lambda x, covariance: d.MultivariateNormal(x, covariance).log_prob(x))
    x = torch.zeros(2)
    assert torch.equal(fn(x, SYMMETRIC), d.MultivariateNormal(x, SYMMETRIC).log_prob(x))
    with pytest.raises(ValueError, match="covariance_matrix"):
        fn(x, -SYMMETRIC)
    assert len(tracer.region_of(fn).entries()) == 1
