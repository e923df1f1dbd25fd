"""TensorMatch and dispatch_keys against real tensors."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tracer._C import TensorMatch, dispatch_keys


def spec_of(t, **changes):
    """The TensorSpec of a tensor, with named fields replaced."""
    sparse = t.layout is not torch.strided
    fields = {
        "cls": type(t),
        "keys": dispatch_keys(t),
        "dtype": t.dtype,
        "device_type": t.device.type,
        "device_index": t.device.index,
        "requires_grad": t.requires_grad,
        "sizes": tuple(t.shape),
        "strides": None if sparse else tuple(t.stride()),
    }
    assert changes.keys() <= fields.keys()
    return tuple((fields | changes).values())


class Sub(torch.Tensor):
    pass


MODEL = torch.ones(2, 3)
TENSORS = {
    "plain": lambda: torch.ones(2, 3),
    "double": lambda: torch.ones(2, 3, dtype=torch.double),
    "int": lambda: torch.ones(2, 3, dtype=torch.int64),
    "bool": lambda: torch.ones(2, 3, dtype=torch.bool),
    "complex": lambda: torch.ones(2, 3, dtype=torch.complex64),
    "grad": lambda: torch.ones(2, 3, requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2, 3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.ones(2, 3), requires_grad=False),
    "subclass": lambda: torch.ones(2, 3).as_subclass(Sub),
    "other size": lambda: torch.ones(2, 4),
    "scalar": lambda: torch.tensor(1.0),
    "empty": lambda: torch.ones(0, 3),
    "transposed": lambda: torch.ones(3, 2).t(),
    "expanded": lambda: torch.ones(1, 3).expand(2, 3),
    "meta": lambda: torch.ones(2, 3, device="meta"),
    "sparse": lambda: torch.ones(2, 3).to_sparse(),
    "csr": lambda: torch.ones(2, 3).to_sparse_csr(),
    "conjugate": lambda: torch.ones(2, 3, dtype=torch.complex64).conj(),
    "negative": lambda: torch._neg_view(torch.ones(2, 3)),
    "inference": lambda: _inference(),
    "fake": lambda: FakeTensorMode().from_tensor(torch.ones(2, 3)),
}


def _inference():
    with torch.inference_mode():
        return torch.ones(2, 3)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("expected", TENSORS)
def test_each_kind_of_tensor_matches_itself_alone(expected):
    match = TensorMatch((spec_of(TENSORS[expected]()),))
    for seen, make in TENSORS.items():
        value = make()
        assert match(value) is (expected == seen), seen
        assert (match.first_mismatch(value) is None) is (expected == seen), seen


@pytest.mark.parametrize(
    ("expected", "seen", "what", "words"),
    [
        (MODEL, 1, "class", (torch.Tensor, int)),
        (MODEL, torch.nn.Parameter(MODEL), "class", (torch.Tensor, torch.nn.Parameter)),
        (MODEL, MODEL.double(), "dtype", (torch.float32, torch.float64)),
        (MODEL, torch.ones(2, 3, requires_grad=True), "requires_grad", (False, True)),
        (MODEL, torch.ones(2), "ndim", (2, 1)),
        (MODEL, torch.ones(2, 4), "size[1]", (3, 4)),
        (MODEL, torch.ones(3, 2).t(), "stride[0]", (3, 1)),
        (torch.ones(2, 3, device="meta"), torch.ones(2, 3), "dispatch_keys", None),
    ],
)
def test_the_first_mismatch_is_named(expected, seen, what, words):
    spec = spec_of(expected)
    found = TensorMatch((spec_of(MODEL), spec)).first_mismatch(MODEL, seen)
    assert found[:2] == (1, what)
    if words is not None:
        assert found[2:] == words
    else:
        assert found[2:] == (dispatch_keys(expected), dispatch_keys(seen))


def test_devices_are_compared_when_keys_are_not():
    match = TensorMatch((spec_of(MODEL, keys=None, device_type="meta"),))
    assert match.first_mismatch(MODEL) == (0, "device", ("meta", None), ("cpu", -1))
    assert TensorMatch((spec_of(MODEL, device_index=-1),))(MODEL)
    assert not TensorMatch((spec_of(MODEL, keys=None, device_index=0),))(MODEL)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_what_is_none_is_not_checked():
    spec = spec_of(MODEL, sizes=(None, 3), strides=(3, None))
    match = TensorMatch((spec,))
    assert match(torch.ones(7, 3)) and not match(torch.ones(7, 4)) and not match(torch.ones(7, 3, 1))
    assert match.specs == (spec,)
    assert TensorMatch((spec_of(MODEL, sizes=(None, None), strides=None),))(torch.ones(3, 2).t())
    anything = TensorMatch((spec_of(MODEL, keys=None, dtype=None, device_type=None, requires_grad=None, sizes=None,
                                    strides=None),))  # fmt: skip
    for name, make in TENSORS.items():
        value = make()
        assert anything(value) is (type(value) is torch.Tensor), name


def test_it_notices_changes_in_place():
    x = torch.ones(2, 3)
    match = TensorMatch((spec_of(x),))
    assert match(x)
    x.requires_grad_()
    assert not match(x)
    x.requires_grad_(False)
    assert match(x)
    for change in (
        lambda: x.resize_(3, 2),
        lambda: setattr(x, "data", torch.ones(2, 3, dtype=torch.double)),
        lambda: x.set_(torch.ones(4, dtype=torch.double)),
        lambda: x.t_() if x.dim() == 2 else x.unsqueeze_(0),
    ):
        change()
        assert not match(x)
    x.__class__ = Sub
    assert match.first_mismatch(x)[1] == "class"


def test_dispatch_keys_follow_the_thread():
    x = torch.ones(2, requires_grad=True)
    outside = dispatch_keys(x)
    match = TensorMatch((spec_of(x),))
    with torch.inference_mode():
        assert dispatch_keys(x) != outside and not match(x)
    with torch.no_grad():
        assert dispatch_keys(x) == outside
    with FakeTensorMode():
        assert dispatch_keys(x) != outside and match.first_mismatch(x)[1] == "dispatch_keys"
    seen = []
    torch.vmap(lambda y: seen.append((dispatch_keys(x), match(x))) or y)(torch.ones(3))
    assert seen[0][0] != outside and seen[0][1] is False
    assert match(x)
    with pytest.raises(TypeError, match="tensor"):
        dispatch_keys(1)


def test_symbolic_sizes_are_no_match():
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = mode.from_tensor(torch.ones(5, 7))
    match = TensorMatch((spec_of(fake, sizes=(5, 7), strides=None),))
    assert match(fake) is False and match.first_mismatch(fake)[1] == "sizes"


def test_a_subclass_whose_sizes_are_python_code_and_fail_is_a_miss():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (2, 3), dispatch_sizes_strides_policy="sizes")

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError("no sizes")

    value = Wrapper()
    match = TensorMatch(((Wrapper, None, None, None, None, None, (2, 3), None),))
    assert match(value) is False
    assert match.first_mismatch(value)[1:] == ("sizes", "readable", "unreadable")


SIZES, STRIDES = (2, 3, 4, 5, 6, 7, 8), (3, 7, 11, 13, 17, 19, 23)


@pytest.mark.parametrize("ndim", range(8))
def test_every_size_and_stride_counts_unless_it_is_open(ndim):
    def made(sizes, strides):
        return torch.empty_strided(sizes, strides, device="meta")

    x = made(SIZES[:ndim], STRIDES[:ndim])
    match = TensorMatch((spec_of(x),))
    assert match(x)
    for more in (x[..., None], *([x[0]] if ndim else [])):
        assert not match(more) and match.first_mismatch(more)[1] == "ndim"
    for what in ("size", "stride"):
        for i in range(ndim):
            dims = [list(x.shape), list(x.stride())]
            which = dims[what == "stride"]
            which[i] += 1
            other = made(*dims)
            assert not match(other) and match.first_mismatch(other)[1] == f"{what}[{i}]"
            which[i] = None
            is_open = TensorMatch((spec_of(x, sizes=tuple(dims[0]), strides=tuple(dims[1])),))
            assert is_open(x) and is_open(other)


@pytest.mark.parametrize(
    ("policy", "options"), [("sizes", {"dispatch_sizes_strides_policy": "sizes"}), ("device", {"dispatch_device": True})]
)
def test_what_lies_in_a_tensor_does_not_count_where_its_class_says_otherwise(policy, options):
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (2, 3), strides=(3, 1), **options)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            name = func.overloadpacket.__name__
            if name in ("dim", "device", "is_contiguous"):
                return {"dim": 2, "device": torch.device("meta"), "is_contiguous": True}[name]
            return (5, 3) if name in ("size", "sym_size") else (3, 1)

    value = Wrapper()
    spec = (Wrapper, dispatch_keys(value), torch.float32, "cpu", -1, False, (2, 3), (3, 1))
    match = TensorMatch((spec,))
    assert match(value) is False
    assert match.first_mismatch(value)[1] == {"sizes": "size[0]", "device": "device"}[policy]


def test_one_tensor_that_takes_another_way_leaves_the_others_theirs():
    tensors = [torch.ones(2, 3), torch.ones((1,) * 7), torch.ones(3)]
    match = TensorMatch(tuple(spec_of(t) for t in tensors))
    assert match(*tensors)
    for i, other in ((0, torch.ones(3, 3)), (1, torch.ones((2,) * 7)), (2, torch.ones(4))):
        changed = [*tensors]
        changed[i] = other
        assert not match(*changed) and match.first_mismatch(*changed)[0] == i


def test_many_at_once():
    tensors = [torch.ones(n % 5 + 1, 2) for n in range(300)]
    match = TensorMatch(tuple(spec_of(t) for t in tensors))
    assert match(*tensors)
    tensors[250] = torch.ones(9, 9)
    assert not match(*tensors) and match.first_mismatch(*tensors)[0] == 250
    assert TensorMatch(())() is True


def test_the_number_of_tensors_is_checked():
    match = TensorMatch((spec_of(MODEL),))
    for wrong in ((), (MODEL, MODEL)):
        with pytest.raises(TypeError, match="takes 1 tensors"):
            match(*wrong)
        assert match.first_mismatch(*wrong)[1:] == ("count", 1, len(wrong))
    with pytest.raises(TypeError):
        match(x=MODEL)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        (),
        spec_of(MODEL)[:-1],
        spec_of(MODEL, cls=int),
        spec_of(MODEL, cls="Tensor"),
        spec_of(MODEL, keys="x"),
        spec_of(MODEL, keys=-1),
        spec_of(MODEL, dtype=float),
        spec_of(MODEL, device_type="nonsense"),
        spec_of(MODEL, device_type=1),
        spec_of(MODEL, device_index="x"),
        spec_of(MODEL, sizes=3),
        spec_of(MODEL, sizes=("x", 3)),
        spec_of(MODEL, sizes=(2**80, 3)),
        spec_of(MODEL, strides=(1,)),
        spec_of(MODEL, sizes=None),
    ],
    ids=repr,
)
def test_a_wrong_spec_is_refused(wrong):
    with pytest.raises((TypeError, OverflowError, ValueError)):
        TensorMatch((wrong,))


def _data_of_another(t, **other):
    t.data = torch.ones(2, 3, **other)


CHANGES = {
    "requires_grad_": lambda t: t.requires_grad_(),
    "resize_": lambda t: t.resize_(3, 2),
    "resize_ to another rank": lambda t: t.resize_(6),
    "as_strided_": lambda t: t.as_strided_((2, 3), (1, 2)),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "data of another dtype": lambda t: _data_of_another(t, dtype=torch.double),
    "data of another size": lambda t: setattr(t, "data", torch.ones(2, 4)),
    "data of another layout": lambda t: setattr(t, "data", torch.ones(3, 2).t()),
    "set_": lambda t: t.set_(torch.ones(4, 4)),
    "a view that is conjugated": lambda t: setattr(t, "data", torch.ones(2, 3, dtype=torch.complex64).conj()),
    "a graph behind it": lambda t: t.mul_(torch.ones((), requires_grad=True)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_in_a_tensor_that_has_matched_is_noticed(change):
    t = torch.ones(2, 3)
    match = TensorMatch((spec_of(t),))
    assert match(t) and match(t)
    change(t)
    assert not match(t) and not match(t)
    assert match(torch.ones(2, 3))


def test_tensors_in_turns_that_differ_in_what_is_not_asked_match():
    whole = torch.ones(4, 3)
    match = TensorMatch((spec_of(whole[:2]),))
    for _ in range(3):
        assert match(whole[:2]) and match(whole[2:]) and match(torch.ones(2, 3))
        assert not match(whole[1:])


def test_a_tensor_that_has_matched_is_asked_again_where_the_thread_has_other_keys():
    t = torch.ones(2, 3)
    match = TensorMatch((spec_of(t),))
    assert match(t) and match(t)
    with torch.inference_mode():
        assert not match(t)
    assert match(t)


def test_tensors_of_many_dims_are_compared_by_all_of_them():
    t = torch.ones(1, 2, 1, 2, 1, 2, 1)
    match = TensorMatch((spec_of(t),))
    assert match(t) and match(torch.ones_like(t)) and match(t)
    assert not match(torch.ones(1, 2, 1, 2, 1, 3, 1))
