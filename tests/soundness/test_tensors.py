"""What can change about a tensor argument between two calls is noticed, or served right by the entry there is."""

from __future__ import annotations

import operator

import pytest
import torch

from tests.soundness.watching import Watched, noticed, traced, unharmed


def double(x):
    return x * 2 if x.dim() < 3 else x


def asks_everything(x):
    return x + 1, x.requires_grad, x.dtype, tuple(x.shape), x.stride(), x.is_contiguous(), x.device.type, x.dim()


CHANGES = {
    "requires_grad_": lambda t: t.requires_grad_(),
    "data of another size": lambda t: setattr(t, "data", torch.randn(5, 2)),
    "data of another stride": lambda t: setattr(t, "data", torch.randn(3, 4).t()),
    "data of another dtype": lambda t: setattr(t, "data", torch.randn(4, 3).double()),
    "set_": lambda t: t.set_(torch.randn(6).untyped_storage(), 0, (2, 3), (3, 1)),
    "set_ to other strides": lambda t: t.set_(torch.randn(12).untyped_storage(), 0, (4, 3), (1, 4)),
    "resize_": lambda t: t.resize_(2, 3),
    "transpose_": lambda t: t.transpose_(0, 1),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "t_": lambda t: t.t_(),
    "as a Parameter": lambda t: setattr(t, "__class__", torch.nn.Parameter),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("fn", [double, asks_everything])
def test_a_tensor_changed_in_place(name, fn):
    t = torch.randn(4, 3)
    noticed(fn, (t,), lambda: CHANGES[name](t))


def test_new_data_of_the_same_kind_is_served_by_the_entry():
    t = torch.randn(4, 3)

    def change():
        t.data = torch.randn(4, 3)
        t.set_(torch.randn(4, 3))
        t.add_(1)

    unharmed(double, (t,), change)


OTHERS = {
    "dtype": torch.randn(4, 3).double(),
    "an integer dtype": torch.ones(4, 3, dtype=torch.int64),
    "bool": torch.ones(4, 3, dtype=torch.bool),
    "device": torch.ones(4, 3, device="meta"),
    "stride": torch.randn(3, 4).t(),
    "expanded": torch.randn(1, 3).expand(4, 3),
    "rank": torch.randn(12),
    "size": torch.randn(4, 2),
    "empty": torch.randn(0, 3),
    "requires_grad": torch.randn(4, 3, requires_grad=True),
    "Parameter": torch.nn.Parameter(torch.randn(4, 3)),
    "frozen Parameter": torch.nn.Parameter(torch.randn(4, 3), requires_grad=False),
    "conjugated": torch.randn(4, 3, dtype=torch.complex64).conj(),
    "sparse": torch.eye(4, 3).to_sparse(),
    "not a tensor": [1.0, 2.0],
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_tensor(name):
    other = OTHERS[name]
    watched = traced(lambda x: x * 2, (torch.randn(4, 3),))
    before = watched.traces, len(watched.entries)
    if name == "device":
        assert watched.compiled(other).device.type == "meta"
    elif name == "sparse":
        assert torch.equal(watched.compiled(other).to_dense(), (other * 2).to_dense())
    else:
        watched(other)
    assert watched.reasons or (watched.traces, len(watched.entries)) != before


def test_conjugate_and_negative_bits():
    z = torch.randn(3, dtype=torch.complex64)
    watched = Watched(lambda x: (x * 2, x.is_conj(), x.is_neg()))
    for t in (z, z.conj(), z.conj().resolve_conj(), z.conj().imag, z.imag, z):
        watched(t)


def test_an_inference_tensor():
    with torch.inference_mode():
        made_inside = torch.randn(3)
    watched = Watched(lambda x: (x * 2, x.is_inference()))
    watched(torch.randn(3))
    watched(made_inside)
    watched(torch.randn(3))


def test_a_leaf_and_a_result():
    leaf = torch.randn(3, requires_grad=True)
    watched = Watched(lambda x: (x * 2 if x.is_leaf else x * 3).detach())
    watched(leaf)
    watched(leaf * 1)
    watched(leaf)


def test_retains_grad():
    leaf = torch.randn(3, requires_grad=True)
    plain, kept = leaf * 1, leaf * 1
    kept.retain_grad()
    watched = Watched(lambda x: (x * 2 if x.retains_grad else x * 3).detach())
    watched(plain)
    watched(kept)


def test_grad_appears_and_goes():
    leaf = torch.randn(3, requires_grad=True)
    watched = Watched(lambda x: x.detach() * 2 if x.grad is None else x.grad * 3)
    watched(leaf)
    leaf.sum().backward()
    watched(leaf)
    leaf.grad = torch.randn(3)
    watched(leaf)
    leaf.grad = None
    watched(leaf)
    assert watched.traces == 2


def test_storage_offset():
    base = torch.randn(10)
    watched = Watched(lambda x: x * (x.storage_offset() + 1))
    watched(base[2:6])
    watched(base[4:8])


def test_a_view_keeps_to_its_own_offset():
    base = torch.randn(10)
    watched = Watched(lambda x: torch.as_strided(x, (2, 2), (2, 1)) + 1)
    watched(base[2:6])
    watched(base[4:8])
    assert watched.traces == 1


def test_is_view_and_base():
    t = torch.randn(4)
    watched = Watched(lambda x: x * 2 if x._is_view() else x * 3)
    watched(t)
    watched(t[:])


def test_the_grad_function():
    leaf = torch.randn(3, requires_grad=True)
    watched = Watched(lambda x: x.detach() * (2 if x.grad_fn is None else 3))
    watched(leaf)
    watched(leaf * 2)
    watched(leaf)


def test_the_version_counter():
    t = torch.randn(3)
    watched = Watched(lambda x: x * x._version)
    watched(t)
    t.add_(1)
    watched(t)


def test_an_attribute_of_a_tensor():
    t, plain = torch.randn(3), torch.randn(3)
    t.scale = 2.0
    watched = Watched(lambda x: x * x.scale if hasattr(x, "scale") else x - 1)
    watched(plain)
    watched(t)
    t.scale = 3.0
    watched(t)
    del t.scale
    watched(t)


def test_a_subclass_and_a_monkey_patched_method_of_it():
    class Named(torch.Tensor):
        pass

    t = torch.randn(3)
    watched = Watched(lambda x: x + 1)
    watched(t)
    result = watched.compiled(t.as_subclass(Named))
    assert type(result) is Named and torch.equal(result.as_subclass(torch.Tensor), t + 1)


def test_a_method_of_tensor_that_was_patched(monkeypatch):
    t = torch.randn(3)
    watched = traced(lambda x: x.relu(), (t,))
    monkeypatch.setattr(torch.Tensor, "relu", lambda self: self * 100, raising=False)
    watched(t)


def test_memory_format_of_a_channels_last_tensor():
    x = torch.randn(2, 3, 4, 5)
    watched = Watched(lambda x: (x * 2, x.is_contiguous(), x.is_contiguous(memory_format=torch.channels_last)))
    watched(x)
    watched(x.to(memory_format=torch.channels_last))
    watched(x[:, :, ::2])


def test_contiguity_of_a_symbolic_size_is_checked():
    watched = Watched(lambda x: (x * 2, x.is_contiguous()), dynamic=True)
    watched(torch.randn(4, 6))
    watched(torch.randn(8, 6))
    watched(torch.randn(8, 12)[:, ::2])
    watched(torch.randn(6, 8).t())
    watched(torch.randn(1, 6))
    watched(torch.randn(8, 1))


def _one_less(self, name):
    found = object.__getattribute__(self, name)
    return found - 1 if name == "itemsize" else found


def _twice(self, name, value):
    object.__setattr__(self, name, value * 2 if name == "tag" else value)


def _tagged(x):
    x.tag = 3
    return torch.add(x, x.tag)


PATCHES = {
    "a method": ("relu", lambda self: self * 100, lambda x: x.relu()),
    "a method whose result is no tensor": ("sum", lambda self: 5, lambda x: x + x.sum()),
    "an operator": ("__mul__", lambda self, other: self, lambda x: x * 2),
    "a reflected operator": ("__rsub__", lambda self, other: self, lambda x: 2 - x),
    "an operator in place": ("__iadd__", lambda self, other: self, lambda x: operator.iadd(x.clone(), 2)),
    "a comparison": ("__lt__", lambda self, other: self, lambda x: x < 2),
    "a sign": ("__neg__", lambda self: self, lambda x: -x),
    "a subscript": ("__getitem__", lambda self, key: self, lambda x: x[0]),
    "a length": ("__len__", lambda self: 50, lambda x: x + len(x)),
    "an iterator": ("__iter__", lambda self: iter([1]), lambda x: [item for item in x]),
    "metadata": ("itemsize", 7, lambda x: (x * 2, x.itemsize)),
    "a property": ("nbytes", property(lambda self: 5), lambda x: (x * 2, x.nbytes)),
    "how attributes are found": ("__getattribute__", _one_less, lambda x: (torch.add(x, 2), x.itemsize)),
    "how attributes are set": ("__setattr__", _twice, _tagged),
    "a name that is new": ("of_the_program", 3, lambda x: (x * 2, getattr(x, "of_the_program", 4))),
}


@pytest.mark.parametrize("name", PATCHES)
@pytest.mark.parametrize("first", [False, True])
def test_what_torch_has_under_a_name_is_patched_and_put_back(name, first):
    attribute, other, fn = PATCHES[name]
    x = torch.tensor([1.0, 2.0, 3.0])
    watched = Watched(fn)
    own = vars(torch.Tensor).get(attribute)

    def put_back():
        if own is not None:
            setattr(torch.Tensor, attribute, own)
        elif attribute in vars(torch.Tensor):
            delattr(torch.Tensor, attribute)

    try:
        for patched in [first, first, not first, not first, first]:
            put_back()
            if patched:
                setattr(torch.Tensor, attribute, other)
            expected, seen = fn(x), watched.compiled(x)
            put_back()
            assert repr(expected) == repr(seen)
    finally:
        put_back()
