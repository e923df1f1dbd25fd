"""Which tensors share a version counter, so that a write to one counts as a write to the other."""

from __future__ import annotations

import pytest
import torch

from tracer import _C


def test_tensors_that_share_a_version_count_their_writes_together():
    one, other = torch.zeros(2), torch.zeros(3)
    other.add_(1)
    _C.share_version(one, other)
    assert one._version == other._version == 1
    one.add_(1)
    assert one._version == other._version == 2
    del other
    assert one.add_(1)._version == 3


@pytest.mark.parametrize("wrong", [(), (1, 2), (torch.ones(1),), (torch.ones(1), None)])
def test_only_tensors_have_versions(wrong):
    with pytest.raises(TypeError, match="share_version"):
        _C.share_version(*wrong)


def test_writes_to_inference_tensors_are_not_counted():
    with torch.inference_mode():
        inferred = torch.ones(1)
    with pytest.raises(TypeError, match="not counted"):
        _C.share_version(torch.ones(1), inferred)
