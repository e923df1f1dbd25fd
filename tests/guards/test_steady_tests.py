"""The tests that C makes for a group of guards after a change: for any values, the answer is that of the guards in Python."""

import collections
import copy
import enum
import types

import pytest
import torch

import tracer
from tests.guards.helpers import X, frame, manager_of
from tracer import _C
from tracer.guards.attributes import ClassHasAttr, HasAttr
from tracer.guards.containers import DictContains, DictKeysMatch, DictLengthReaches, LengthMatch, SetMatch
from tracer.guards.identity import (
    BoolMatch,
    ClassAttrMatch,
    CodeMatch,
    Distinct,
    FunctionMatch,
    IdMatch,
    NoneMatch,
    SameObject,
    TypeMatch,
)
from tracer.guards.on_demand import OnDemand
from tracer.guards.steady import Grouping
from tracer.guards.tensors import TensorMatch, tensor_spec
from tracer.guards.values import EqualsMatch
from tracer.sources.attributes import AttrSource, InstanceDictSource, TypeLookupSource, TypeSource
from tracer.sources.containers import ItemSource
from tracer.sources.functions import CellContentsSource, CodeSource, DefaultSource


class Holder:
    shared = 5


class Derived(Holder):
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(tuple):
    pass


class Keyed(dict):
    pass


def doubled(x, factor=2):
    return x * factor


def tripled(x, factor=3):
    return x * factor


def cell_of(value):
    return types.CellType(value)


VALUE = AttrSource(X, "value")
NAN = float("nan")
OBJECT = object()
TENSOR = torch.ones(2)
# what the guards demand of `x.value`: guards, values for which they hold, and for which they do not
KINDS = {
    "type": ([TypeMatch(VALUE, list)], [[], [1]], [(), None, Derived()]),
    "type of a class": ([TypeMatch(VALUE, Holder)], [Holder()], [Derived(), Holder, 3]),
    "identity": ([IdMatch(VALUE, OBJECT)], [OBJECT], [object(), None]),
    "function": ([FunctionMatch(VALUE, doubled)], [doubled], [tripled, len]),
    "code": ([CodeMatch.of(VALUE, doubled)], [doubled, types.FunctionType(doubled.__code__, {})], [tripled]),
    "none": ([NoneMatch(VALUE)], [None], [0, False]),
    "not none": ([NoneMatch(VALUE, False)], [0, [], OBJECT], [None]),
    "bool": ([BoolMatch(VALUE, True)], [True], [False, 1]),
    "constant bool": ([EqualsMatch(VALUE, True)], [True], [False, 1]),
    "int": ([EqualsMatch(VALUE, 2**70)], [2**70, int("1180591620717411303424")], [2**70 + 1, 1.0, "a"]),
    "small int": ([EqualsMatch(VALUE, 1)], [1], [True, 1.0, 2]),
    "float": ([EqualsMatch(VALUE, 1.5)], [float("1.5")], [1.25, 1, NAN]),
    "zero": ([EqualsMatch(VALUE, 0.0)], [float("0.0")], [-0.0, 0, False]),
    "text": ([EqualsMatch(VALUE, "text")], ["text", "".join(["te", "xt"])], ["Text", b"text", ""]),
    "bytes": ([EqualsMatch(VALUE, b"ab")], [b"ab", bytes([97, 98])], [b"ac", "ab"]),
    "tuple": (
        [EqualsMatch(VALUE, (1, ("a", 2.0), None))],
        [(1, ("".join("a"), float("2.0")), None)],
        [(1, ("a", -2.0), None), (1, ("a", 2.0)), [1, ("a", 2.0), None], (True, ("a", 2.0), None), Pair((1, ("a", 2.0), None))],
    ),
    "enum member": ([EqualsMatch(VALUE, Color.RED)], [Color.RED], [Color.BLUE, 1]),
    "dtype": ([EqualsMatch(VALUE, torch.float32)], [torch.float32], [torch.float64, None]),
    "length": (
        [LengthMatch(VALUE, 2)],
        [[1, 2], (3, 4), {1: 2, 3: 4}, "ab", b"ab", Keyed(a=1, b=2)],
        [[], (1,), {}, "abc"],
    ),
    "at least so long": ([DictLengthReaches(VALUE, 2, True)], [{1: 2, 3: 4}, dict.fromkeys("abc")], [{}, {1: 2}]),
    "less long": ([DictLengthReaches(VALUE, 2, False)], [{}, {1: 2}], [{1: 2, 3: 4}, dict.fromkeys("abc")]),
    "keys": (
        [DictKeysMatch.of(VALUE, {"a": 1, 2: 3, None: 4})],
        [{"a": 0, 2: 0, None: 0}, Keyed({"".join("a"): 0, 2: 0, None: 0})],
        [{}, {"a": 0, None: 0, 2: 0}, {"a": 0, 2.0: 0, None: 0}, {"a": 0, 2: 0}, {"b": 0, 2: 0, None: 0}],
    ),
    "keys behind a proxy": (
        [DictKeysMatch.of(VALUE, {"a": 1})],
        [types.MappingProxyType({"a": 2}), types.MappingProxyType(Keyed(a=1))],
        [types.MappingProxyType({"b": 2}), types.MappingProxyType({})],
    ),
    "keys that are objects": (
        [DictKeysMatch.of(VALUE, {OBJECT: 1, list: 2})],
        [{OBJECT: 2, list: 3}],
        [{}, {list: 3, OBJECT: 2}, {object(): 1, list: 2}, {OBJECT: 1, list: 2, dict: 3}],
    ),
    "key": ([DictContains(VALUE, "a")], [{"a": 1}, {"b": 1, "a": 2}], [{}, {"b": 1}]),
    "no key": ([DictContains(VALUE, "a", False)], [{}, {"b": 1}], [{"a": 1}]),
    "attribute": ([HasAttr(VALUE, "__name__", False)], [Holder()], [types.SimpleNamespace(__name__=1)]),
    "class attribute": ([ClassHasAttr(TypeSource(VALUE), "shared", True)], [Holder(), Derived()], [3]),
    "looked up in the class": (
        [ClassAttrMatch(TypeLookupSource(TypeSource(VALUE), "__str__"), object.__str__)],
        [Holder(), []],
        [Color.RED, torch.device("cpu")],
    ),
    "item": (
        [EqualsMatch(ItemSource(VALUE, 1), 5)],
        [[4, 5], (4, 5), {1: 5}, {1.0: 5}],
        [[5, 4], [5], {1: 6}, {0: 5}, {"1": 5}],
    ),
    "last item": ([EqualsMatch(ItemSource(VALUE, -1), 5)], [[4, 5], (5,), {-1: 5}], [[], {0: 5}, (5, 4)]),
    "default": ([EqualsMatch(DefaultSource(VALUE, 0), 2)], [doubled], [tripled]),
    "code of a function": ([IdMatch(CodeSource(VALUE), doubled.__code__)], [doubled], [tripled]),
    "contents of a cell": ([NoneMatch(CellContentsSource(VALUE))], [cell_of(None)], [cell_of(1), types.CellType()]),
    "one object in two places": (
        [SameObject(ItemSource(VALUE, 0), ItemSource(VALUE, 1))],
        [[OBJECT, OBJECT], (None, None)],
        [[OBJECT, None], [[], []]],
    ),
    "entry of an instance's dict": (
        [DictKeysMatch.of(InstanceDictSource(VALUE), {"a": 1})],
        [types.SimpleNamespace(a=2)],
        [types.SimpleNamespace(b=2), types.SimpleNamespace(a=1, b=2), types.SimpleNamespace()],
    ),
}
WORDLESS = {  # for Python alone to tell
    "nan": ([EqualsMatch(VALUE, NAN)], [NAN, float("nan")], [1.0]),
    "device": ([EqualsMatch(VALUE, torch.device("cpu"))], [torch.device("cpu")], [torch.device("meta")]),
    "range": ([EqualsMatch(VALUE, range(3))], [range(3)], [range(4)]),
    "objects and others as keys": ([DictKeysMatch.of(VALUE, {OBJECT: 1, "a": 2})], [{OBJECT: 2, "a": 3}], [{"a": 3}, {}]),
    "order of an OrderedDict": (
        [DictKeysMatch.of(VALUE, collections.OrderedDict(a=1, b=2))],
        [collections.OrderedDict(a=3, b=4)],
        [collections.OrderedDict(b=1, a=2)],
    ),
}
_REST = [NoneMatch(AttrSource(X, f"other{index}")) for index in range(7)]  # with fewer there is no group


def holder(value):
    made = Holder()
    made.value = value
    for index in range(7):
        setattr(made, f"other{index}", None)
    return made


def answers(check_fn, arg):
    """The answer of C, and that of the guards in Python; an error counts as a miss."""
    found = []
    for function in (check_fn, check_fn.whole):
        try:
            found.append(function(arg) is True)
        except Exception:
            found.append(False)
    return found


@pytest.fixture
def asked(monkeypatch):
    """The calls of the functions that check guards in Python."""
    calls = []
    of_text = OnDemand.__call__
    monkeypatch.setattr(OnDemand, "__call__", lambda self, *args: calls.append(args) or of_text(self, *args))
    return calls


@pytest.mark.parametrize("name", [*KINDS, *WORDLESS])
def test_the_answer_is_that_of_the_guards_in_python(name):
    kinds, holding, failing = (KINDS | WORDLESS)[name]
    made = [TypeMatch(X, Holder), *kinds, *_REST]
    for value in [*holding, *failing]:
        fresh, known = manager_of(*made).check_fn, manager_of(*made).check_fn
        known(holder(holding[0]))
        wanted = any(value is each for each in holding)
        assert answers(fresh, holder(value)) == [wanted, wanted], value
        assert answers(known, holder(value)) == [wanted, wanted], value


@pytest.mark.parametrize("name", KINDS)
def test_no_python_is_asked_where_the_guards_hold(name, asked):
    kinds, holding, _ = KINDS[name]
    for value in holding:
        check_fn = manager_of(TypeMatch(X, Holder), *kinds, *_REST).check_fn
        assert check_fn(holder(value)) is True
    assert not asked


@pytest.mark.parametrize("name", ["type", "identity", "none", "int", "float", "text", "tuple", "length", "keys", "code"])
def test_no_python_is_asked_where_a_guard_fails(name, asked):
    kinds, _, failing = KINDS[name]
    check_fn = manager_of(TypeMatch(X, Holder), *kinds, *_REST).check_fn
    for value in failing:
        assert check_fn(holder(value)) is False
    assert not asked


def test_a_guard_on_an_object_that_has_died_fails():
    gone = Holder()
    made = manager_of(TypeMatch(X, Holder), IdMatch(VALUE, gone), *_REST)
    arg = holder(gone)
    assert made.check_fn(arg) is True
    again = [TypeMatch(X, Holder), IdMatch(VALUE, gone), *_REST]
    del gone, arg
    assert manager_of(*again).check_fn(holder(Holder())) is False


def test_tensors_that_must_be_apart_are_told_to_be_one():
    first, second = AttrSource(X, "value"), AttrSource(X, "another")
    spec = tensor_spec(TENSOR)
    made = [TypeMatch(X, Holder), TensorMatch(first, spec), TensorMatch(second, spec),
            Distinct((first, second)), *_REST]  # fmt: skip
    for another, wanted in ((torch.ones(2), True), (TENSOR, False)):
        arg = holder(TENSOR)
        arg.another = another
        assert answers(manager_of(*made).check_fn, arg) == [wanted, wanted]


def test_the_trace_of_a_model_compiles_no_text(asked):
    model, x = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(4)]), torch.randn(2, 3)
    compiled = tracer.compile(model)
    assert torch.equal(compiled(x), model(x))
    assert not asked


def test_what_moves_at_each_call_is_asked_in_c(asked):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(4)])

        def forward(self, x):
            return self.layers(x)

    model, x = Counting(), torch.randn(2, 3)
    compiled = tracer.compile(model)
    for _ in range(5):
        model.layers._modules.update(copy.copy(model.layers._modules))
        model.layers._modules["3"] = model.layers._modules.pop("3")
        assert torch.equal(compiled(x), model(x))
    assert len(tracer.region_of(compiled).entries()) == 1 and not asked


@pytest.mark.parametrize("tensors", range(4))
@pytest.mark.parametrize("others", range(9))
def test_the_leaves_of_all_groups_are_known_without_them(tensors, others):
    spec = tensor_spec(TENSOR)
    made = [NoneMatch(AttrSource(X, f"other{index}")) for index in range(others)]
    made += [TensorMatch(AttrSource(X, f"tensor{index}"), spec) for index in range(tensors)]
    made += [SetMatch(AttrSource(X, "value"), frozenset({1}))]

    def grouping():
        return Grouping(frame.__code__, ("x",), {}, dict)

    of_groups = [leaf.source for group in grouping().groups(made) for leaf in group.leaves]
    assert grouping().leaves(made) == set(of_groups)
    assert len(of_groups) == (tensors if tensors + others >= 7 else 0)


def test_tests_that_make_no_sense_are_refused():
    steps = ((0, -1, 0), (2, 0, "a"))
    alone = [(5, 1, 0), (0, 99, 0), (0, 3, 1), (0, 8, [1]), (0, 9, ("a",)), "x", (0, 1, "a")]
    for tests in [*[(test,) for test in alone], ((1, 1, 0), (0, 1, 0))]:
        with pytest.raises((TypeError, ValueError)):
            _C.Steady(1, steps, (), tests)
    assert _C.Steady(1, steps, (), ((0, 1, 5), (1, 7, "a"))).known is False
