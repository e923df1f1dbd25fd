"""torch.distributions inside: whole, with the validation of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributions as d

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
