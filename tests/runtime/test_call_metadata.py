"""Metadata of calls: arguments that are made again of it are what guards take them for."""

from __future__ import annotations

import collections
import weakref

import pytest
import torch

import tracer
from tests.support.checking import collect_garbage
from tracer import _C
from tracer.guards.tensors import own_marks, tensor_spec
from tracer.runtime.call_metadata import MOST, NOT_KEPT, CallMetadata
from tracer.runtime.thread_state import ThreadState
from tracer.sources.containers import ItemSource
from tracer.sources.roots import LocalSource
from tracer.user_marks import DIMS

Pair = collections.namedtuple("Pair", "first second")


def inference(tensor):
    with torch.inference_mode():
        return tensor.clone()


TENSORS = {
    "plain": lambda: torch.ones(2, 3),
    "transposed": lambda: torch.ones(2, 3).t(),
    "sliced": lambda: torch.ones(4, 9)[:, 2:7],
    "expanded": lambda: torch.ones(1, 3).expand(5, 3),
    "empty": lambda: torch.ones(0, 3),
    "scalar": lambda: torch.ones(()),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "leaf": lambda: torch.ones(2, requires_grad=True),
    "no leaf": lambda: torch.ones(2, requires_grad=True) * 2,
    "of inference mode": lambda: inference(torch.ones(2, 3)),
    "complex": lambda: torch.ones(2, dtype=torch.complex64),
    "meta": lambda: torch.ones(2, 3, device="meta"),
}


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("asking", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_tensor_made_again_is_what_guards_take_it_for(kind, asking):
    tensor = TENSORS[kind]()
    with asking():
        (made,) = CallMetadata([tensor]).slots()
    assert tensor_spec(made) == tensor_spec(tensor) and made.is_leaf == tensor.is_leaf
    assert made.storage_offset() == tensor.storage_offset() and made is not tensor


def test_arguments_are_made_again_under_the_modes_of_their_call():
    with torch.inference_mode():
        kept = CallMetadata([torch.ones(2)])
        state = ThreadState.now()
    with state.entered():
        assert kept.slots()[0].is_inference() and state.text() == "inference_mode"
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_containers_plain_values_and_what_is_one_object_come_back_as_they_were():
    x = torch.ones(2)
    slots = [x, 2, True, 2.5, "text", None, torch.float32, {"a": [x, (1, x)], 3: Pair(x, None)}, torch.Size([2])]
    made = CallMetadata(slots).slots()
    assert made[1:7] == (2, True, 2.5, "text", None, torch.float32) and type(made[8]) is torch.Size
    tree = made[7]
    assert list(tree) == ["a", 3] and type(tree[3]) is Pair and tree[3].second is None
    assert tree["a"][0] is tree["a"][1][1] is tree[3].first is made[0]


def test_marks_are_kept():
    x = torch.ones(3)
    tracer.mark_dynamic(x, 0, min=2, max=8)
    (made,) = CallMetadata([x]).slots()
    assert own_marks(made, DIMS) == own_marks(x, DIMS)


def test_objects_and_tensors_are_not_kept_alive():
    class Thing:
        pass

    thing, x = Thing(), torch.ones(3)
    gone = weakref.ref(thing), weakref.ref(x)
    kept = CallMetadata([thing, [x]])
    assert kept.slots()[0] is thing
    del thing, x
    collect_garbage()
    assert gone[0]() is None and gone[1]() is None and kept.slots()[0] is NOT_KEPT


def test_what_has_no_metadata_that_makes_it_again_is_not_kept():
    class Own(torch.Tensor):
        pass

    negative = torch._neg_view(torch.ones(2))
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    slots = [torch.ones(2).to_sparse(), nested, "x" * 1000, object(), {object(): 1}, negative]
    assert all(value is NOT_KEPT for value in CallMetadata(slots).slots()) and _C.dispatch_keys(negative)
    own = torch.ones(2).as_subclass(Own)
    assert CallMetadata([own]).slots()[0] is own


def test_of_long_lists_the_length_is_kept():
    (made,) = CallMetadata([list(range(1000))]).slots()
    assert len(made) == 1000 and made[MOST - 1] == MOST - 1 and made[MOST] is NOT_KEPT
    nested = [1]
    for _ in range(50):
        nested = [nested]
    assert CallMetadata([nested]).slots() and hash(CallMetadata([nested]).key())


def test_keys_are_equal_exactly_for_calls_alike():
    x, y = torch.ones(2), torch.ones(2)
    key = lambda *slots: CallMetadata(slots).key()
    assert key(x, [1, {"a": y}]) == key(y, [1, {"a": x}]) and hash(key(x, [1])) == hash(key(y, [1]))
    different = [key(x, y), key(x, x), key(x, 1), key(x, True), key(x, 1.0), key(x.double(), y), key(x, [y]), key(x, (y,))]
    assert len(set(different)) == len(different)


def test_leaves_are_named_by_their_sources():
    found = CallMetadata([[torch.ones(2, 3)], 4]).leaves(["x", "n"])
    assert found[ItemSource(LocalSource("x"), 0)].shape == (2, 3) and found[LocalSource("n")] == 4
