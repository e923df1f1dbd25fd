"""Groups of guards that are known to hold by versions of dicts and types: any change on the way is noticed, and nothing is kept
alive."""

import gc
import weakref

import pytest
import torch

import tracer
from tracer import _C
from tracer._C import STEP


class Block(torch.nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3)
        self.sizes = [1, 2, 3]
        self.table = {"a": 1.5}
        self.bias = 4
        self.calls = 0
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x):
        if self.training:
            x = x + 1
        x = self.first(x) * self.scale + self.table["a"] + self.bias + self.sizes[1]
        return self.second(x) + self.shift.sum()


class OtherLinear(torch.nn.Linear):
    def forward(self, x):
        return -x


def watched(model, *args):
    """The compiled model, called until the state of its groups of guards is known."""
    compiled = tracer.compile(model, dynamic=False)
    for _ in range(3):
        compiled(*args)
    groups = steadies(compiled)
    assert groups and all(group.known for group in groups)
    return compiled


def steadies(compiled):
    [entry] = tracer.region_of(compiled).entries()
    return [value for value in entry.check_fn.whole.printed.namespace.values() if type(value) is _C.Steady]


CHANGES = {
    "training flag": lambda m: m.eval(),
    "training flag of a child": lambda m: m.second.register_forward_pre_hook(lambda *_: None),
    "attribute": lambda m: setattr(m, "bias", 5),
    "attribute by its dict": lambda m: m.__dict__.update(bias=6),
    "attribute deleted": lambda m: delattr(m, "sizes"),
    "item of a list": lambda m: m.sizes.__setitem__(1, 7),
    "list of another length": lambda m: m.sizes.insert(0, 7),
    "value in a dict": lambda m: m.table.update(a=2.5),
    "dict replaced": lambda m: setattr(m, "table", {"a": 3.5}),
    "parameter replaced": lambda m: setattr(m.first, "weight", torch.nn.Parameter(torch.zeros(3, 3))),
    "parameter removed": lambda m: setattr(m.first, "bias", None),
    "module replaced": lambda m: setattr(m, "second", torch.nn.Linear(3, 3)),
    "module of another class": lambda m: setattr(m.second, "__class__", OtherLinear),
    "module of another shape": lambda m: setattr(m, "second", torch.nn.Linear(3, 5)),
    "requires_grad_": lambda m: m.first.weight.requires_grad_(False),
    "data of another type": lambda m: m.double(),
    "set_": lambda m: torch.no_grad()(m.second.weight.set_)(torch.arange(18.0).view(3, 6)[:, ::2]),
    "data of other strides": lambda m: setattr(m.second.weight, "data", torch.zeros(6, 3)[::2]),
    "resized in place": lambda m: m.shift.resize_(1).fill_(4.0),
    "forward hook": lambda m: m.first.register_forward_hook(lambda module, args, result: result * 2),
    "forward pre-hook": lambda m: m.first.register_forward_pre_hook(lambda module, args: (args[0] * 3,)),
    "forward set on the instance": lambda m: setattr(m.second, "forward", lambda x: x * 9),
    "what calls forward set on the instance": lambda m: setattr(m.second, "_call_impl", lambda x: x * 9),
    "whole __dict__ replaced": lambda m: setattr(m, "__dict__", {**m.__dict__, "bias": 11}),
}


SAME_GRAPH = {"parameter replaced", "module replaced"}  # by what is alike in all that the graph depends on


def check_change(model, name):
    """A change of a module that was compiled is noticed: the next call does what the module does as written."""
    x = torch.randn(2, 3)
    compiled = watched(model, x)
    [entry] = tracer.region_of(compiled).entries()
    hits = entry.hits
    CHANGES[name](model)
    x = x.to(model.first.weight.dtype)
    try:
        expected = model(x)
    except Exception as error:
        with pytest.raises(type(error)):
            compiled(x)
        return
    assert torch.equal(compiled(x), expected)
    assert (entry.hits == hits) is (name not in SAME_GRAPH)
    assert compiled(x).requires_grad is expected.requires_grad


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_module_is_noticed(name):
    check_change(Block(), name)


def test_a_method_that_is_replaced_in_its_class_is_noticed(monkeypatch):
    model, x = Block().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: x + 100)
    assert torch.equal(compiled(x), model(x))


def test_a_class_attribute_that_changes_is_noticed(monkeypatch):
    model, x = Block().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    monkeypatch.setattr(Block, "scale", 3.0)
    assert torch.equal(compiled(x), model(x))


class Renewed(Block):
    """It is assigned to more often than CPython 3.13 numbers the changes of a class."""


class Derived(Renewed):
    pass


@pytest.fixture
def used_up():
    for count in range(1100):
        Renewed.count = count
        Derived().count


@pytest.mark.parametrize("name", ["attribute", "module of another class", "value in a dict"])
def test_a_change_of_a_module_whose_class_has_used_up_its_versions_is_noticed(name, used_up):
    check_change(Derived(), name)


@pytest.mark.parametrize("changed", [Renewed, Derived])
def test_a_class_that_has_used_up_its_versions_is_watched_all_the_same(changed, used_up, monkeypatch):
    model, x = Derived().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    [entry] = tracer.region_of(compiled).entries()
    for scale in (3.0, 4.0):
        monkeypatch.setattr(changed, "scale", scale, raising=False)
        assert torch.equal(compiled(x), model(x))
    assert entry.hits == 2


def test_a_class_that_has_used_up_its_versions_gets_other_bases(used_up):
    class Other(Renewed):
        scale = 7.0

    class Made(Renewed):
        pass

    model, x = Made().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    Made.__bases__ = (Other,)
    assert torch.equal(compiled(x), model(x))


def test_a_function_of_a_module_that_is_replaced_is_noticed(monkeypatch):
    model, x = Block().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    monkeypatch.setattr(torch.nn.functional, "linear", lambda x, weight, bias: x)
    assert torch.equal(compiled(x), model(x))


FACTOR = 2


def test_a_global_that_changes_is_noticed_and_others_do_not_matter():
    class Scaled(Block):
        def forward(self, x):
            return super().forward(x) * FACTOR

    global FACTOR, unrelated
    model, x = Scaled().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    unrelated = object()
    assert torch.equal(compiled(x), model(x))
    assert len(tracer.region_of(compiled).entries()) == 1
    FACTOR = 3
    try:
        assert torch.equal(compiled(x), model(x))
    finally:
        FACTOR = 2


class Tables:
    far = {2**40: 2.0, "a": 3.0}
    first, second, third, fourth, fifth = 1, 2, 3, 4, 5


def test_keys_that_no_32_bits_hold(monkeypatch):
    def scaled(x):
        first = Tables.far[2**40] * x + Tables.first + Tables.second
        return first + Tables.third + Tables.fourth + Tables.fifth

    x = torch.randn(2)
    compiled = watched(scaled, x)
    assert torch.equal(compiled(x), scaled(x))
    monkeypatch.setitem(Tables.far, 2**40, 5.0)
    assert torch.equal(compiled(x), scaled(x))


def test_a_hook_on_all_modules_is_noticed():
    model, x = Block().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, result: result + 1)
    try:
        assert torch.equal(compiled(x), model(x))
    finally:
        handle.remove()


def test_an_attribute_that_no_guard_reads_changes_the_versions_and_nothing_else():
    model, x = Block().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    for count in range(5):
        model.calls = count
        assert torch.equal(compiled(x), model(x))
        assert all(group.known for group in steadies(compiled))
    assert len(tracer.region_of(compiled).entries()) == 1


def test_values_at_reused_addresses_are_not_taken_for_those_seen():
    class Rates(Block):
        def forward(self, x):
            return super().forward(x) * self.table["a"] * self.sizes[0]

    model, x = Rates().eval(), torch.randn(2, 3)
    compiled = tracer.compile(model, dynamic=False, recompile_limit=100)
    rate = 1.0
    for step in range(6):
        rate = rate * 0.5  # floats come from a free list: the address of one before last is used again
        model.table["a"] = rate
        model.sizes[0] = 1000 + step
        for _ in range(2):
            assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize("place", [[0.0], {0: 0.0}], ids=["list", "dict"])
def test_the_address_of_a_constant_is_not_used_again_while_it_is_known(place):
    place[0] = float("1.25")
    steady = _C.Steady(1, ((STEP.ROOT, -1, 0), (STEP.ITEM, 0, 0), (STEP.KEEP, 1, None)), ())
    steady.keep(steady.look(place), place)
    assert steady.known
    for step in range(100):
        place[0] = None
        place[0] = float(f"2.{step}")
        assert steady(place) is None


def test_the_same_object_in_two_places_is_noticed_when_it_becomes_two():
    model, x = Block().eval(), torch.randn(2, 3)
    model.second = model.first
    compiled = watched(model, x)
    model.second = torch.nn.Linear(3, 3)
    assert torch.equal(compiled(x), model(x))


def test_two_parameters_that_become_one_are_noticed():
    model, x = Block().eval(), torch.randn(2, 3)
    compiled = watched(model, x)
    model.second.weight = model.first.weight
    assert torch.equal(compiled(x), model(x))


def test_an_argument_that_is_a_parameter_is_noticed():
    model = Block().eval()
    compiled = watched(model, torch.randn(3, 3))
    with torch.no_grad():
        assert torch.equal(compiled(model.first.weight), model(model.first.weight))


def test_nothing_that_is_watched_is_kept_alive():
    def plain(x):
        return holder[0](x)

    holder = [Block()]
    x = torch.randn(2, 3)
    model = tracer.compile(plain)
    model(x)
    model(x)
    of_model = weakref.ref(holder[0])
    of_parameter = weakref.ref(holder[0].first.weight)
    holder[0] = torch.nn.Identity()
    gc.collect()
    assert of_model() is None and of_parameter() is None
    assert torch.equal(model(x), x)


def test_the_values_of_a_state_are_given_in_order():
    class Owner:
        pass

    owner = Owner()
    owner.a, owner.b = object(), object()
    steady = _C.Steady(1, ((STEP.ROOT, -1, 0), (STEP.ATTR, 0, "a"), (STEP.ATTR, 0, "b")), (2, 1))
    assert steady(owner) is None
    steady.keep(steady.look(owner), owner)
    assert steady(owner) == (owner.b, owner.a)
    owner.c = 1
    assert steady(owner) == (owner.b, owner.a)
    owner.b = object()
    assert steady(owner) is None


def test_a_change_between_looking_and_keeping_is_not_kept():
    class Owner:
        pass

    owner = Owner()
    owner.a = object()
    steady = _C.Steady(1, ((STEP.ROOT, -1, 0), (STEP.ATTR, 0, "a")), (1,))
    seen = steady.look(owner)
    owner.a = object()
    steady.keep(seen, owner)
    assert not steady.known


def test_looking_in_vain_becomes_rare():
    class Owner:
        pass

    steady = _C.Steady(1, ((STEP.ROOT, -1, 0), (STEP.ATTR, 0, "a")), ())
    looked = 0
    for _ in range(64):
        owner = Owner()
        owner.a = object()
        assert steady(owner) is None
        seen = steady.look(owner)
        looked += seen is not None
        steady.keep(seen, owner)
        del owner, seen
    assert looked <= 8


def test_what_is_no_plan_is_refused():
    for steps in [((99, -1, 0),), ((STEP.ATTR, 0, "a"),), ((STEP.ROOT, -1, 5),), ((STEP.ROOT, -1, 0), (STEP.ATTR, 0, 1)), ("x",)]:
        with pytest.raises((TypeError, ValueError)):
            _C.Steady(1, steps, ())
    with pytest.raises(ValueError):
        _C.Steady(1, ((STEP.ROOT, -1, 0),), (3,))
    with pytest.raises(TypeError):
        _C.Steady(1, ((STEP.ROOT, -1, 0),), ())()
