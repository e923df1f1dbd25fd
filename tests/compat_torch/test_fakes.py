"""Fakes that are made without the checks of PyTorch are what PyTorch makes."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from tracer.compat_torch.fakes import FakeMaker

DEVICES = [torch.device("cpu"), torch.device("cuda", 1), torch.device("xpu:0")]


def seen(fake):
    state = {name: value for name, value in vars(fake).items() if name != "fake_mode"}
    keys = torch._C._dispatch_keys(fake).raw_repr()
    return type(fake), state, keys, fake.device, fake.dtype, fake.shape, fake.stride(), fake.requires_grad, fake.is_leaf


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_each_fake_is_like_one_of_pytorch(device, requires_grad, monkeypatch):
    monkeypatch.setattr(FakeTensor, "_normalize_fake_device", staticmethod(lambda device: device))
    mode = FakeTensorMode()
    maker = FakeMaker()
    metas = [torch.empty(sizes, device="meta", requires_grad=requires_grad) for sizes in ((2, 3), (4,), ())]
    fakes = [maker.make(mode, meta, device) for meta in metas]
    assert [seen(fake) for fake in fakes] == [seen(FakeTensor(mode, meta, device)) for meta in metas]
    assert all(fake.fake_mode is mode for fake in fakes)
    fakes[1].item_memo = 3
    assert fakes[2].item_memo is None and maker.make(mode, metas[0], device).item_memo is None


def test_where_fakes_hold_more_pytorch_makes_each(monkeypatch):
    made = []
    original = FakeTensor.__new__

    def with_more(cls, *args, **kwargs):
        made.append(original(cls, *args, **kwargs))
        made[-1].more = []
        return made[-1]

    monkeypatch.setattr(FakeTensor, "__new__", staticmethod(with_more))
    maker, mode = FakeMaker(), FakeTensorMode()
    fakes = [maker.make(mode, torch.empty(2, device="meta"), torch.device("cpu")) for _ in range(3)]
    assert all(one is other for one, other in zip(fakes, made, strict=True))
