"""Guards on lengths, keys, members and attributes, as the builtin containers define them, whatever subclasses say."""

import collections
import gc
import types
import weakref

import pytest
import torch

from tests.guards.helpers import X, agreed, holds, manager_of
from tests.sources.test_sources import Hostile, HostileDict, HostileKey, HostileList, Slotted
from tracer.guards.attributes import ClassHasAttr, HasAttr
from tracer.guards.containers import DictContains, DictKeysMatch, EmptyDicts, LengthMatch, NotInGlobals, SetMatch
from tracer.guards.identity import TypeMatch
from tracer.guards.values import EqualsMatch
from tracer.sources.attributes import AttrSource
from tracer.sources.containers import DictKeySource, ItemSource
from tracer.sources.functions import FunctionGlobalsSource
from tracer.sources.roots import GlobalSource, ModuleGlobalsSource


@pytest.mark.parametrize(
    "value",
    [[1, 2], (1, 2), {1: 1, 2: 2}, "ab", b"ab", {1, 2}, frozenset({1, 2}), range(2), collections.deque([1, 2])]
    + [HostileList([1, 2]), HostileDict(a=1, b=2), collections.OrderedDict(a=1, b=2), torch.Size([1, 2])],
    ids=lambda value: type(value).__name__,
)
def test_length_match(value):
    assert holds(LengthMatch(X, 2), value) and not holds(LengthMatch(X, 3), value)
    assert holds(LengthMatch(X, 2), value, TypeMatch(X, type(value)))


def test_length_of_what_is_no_container_is_a_miss():
    class Sized:
        def __len__(self):
            raise RuntimeError("user code ran")

    assert not holds(LengthMatch(X, 2), Sized()) and not holds(LengthMatch(X, 2), 5)
    assert manager_of(TypeMatch(X, list), LengthMatch(X, 2)).explain(([1],)).seen == "1"


def test_dict_keys_in_order():
    guard = DictKeysMatch(X, ("a", 1, None))
    assert holds(guard, {"a": 0, 1: 0, None: 0}) and holds(guard, HostileDict({"a": 0, 1: 0, None: 0}))
    for other in ({"a": 0, None: 0, 1: 0}, {"a": 0, True: 0, None: 0}, {"a": 0, 1: 0}, {"a": 0, 1: 0, 2: 0}, [], 5):
        assert not holds(guard, other), other
    assert holds(DictKeysMatch(X, ()), {}) and not holds(DictKeysMatch(X, ()), {1: 1})


def test_a_mappingproxy_is_read_through():
    proxy = types.MappingProxyType(HostileDict(a=0))
    assert holds(DictKeysMatch(X, ("a",)), proxy) and not holds(DictKeysMatch(X, ("b",)), proxy)
    assert holds(LengthMatch(X, 1), proxy) and holds(EqualsMatch(ItemSource(X, "a"), 0), proxy)
    assert holds(EqualsMatch(DictKeySource(X, 0), "a"), proxy)


def test_dict_keys_say_what_is_new():
    guard = DictKeysMatch(X, ("a",))
    assert manager_of(guard).explain(({"a": 1, "b": 2},)).message == "keys of L['x'] changed: 'b' is new"
    assert manager_of(guard).explain(({},)).message == "keys of L['x'] changed: 1 fewer"
    assert guard.lines() == ["list(L['x'].keys()) == ['a']"]


def test_keys_that_are_objects_are_compared_by_identity_and_not_kept_alive():
    key = HostileKey()
    mapping = {key: 1}
    guard = DictKeysMatch.of(X, mapping)
    manager, gone = manager_of(guard), weakref.ref(key)
    key.armed = True
    assert manager.check_fn(mapping) and not agreed(manager, {HostileKey(): 1})
    key.armed = False
    mapping.clear()
    del key
    gc.collect()
    assert gone() is None and not manager.valid


def test_the_order_of_an_ordered_dict():
    mapping = collections.OrderedDict(a=1, b=2)
    guard = DictKeysMatch.of(X, mapping)
    assert holds(guard, mapping)
    mapping.move_to_end("a")
    assert list(dict.keys(mapping)) == ["a", "b"] and not holds(guard, mapping)
    with pytest.raises(TypeError, match="hashing its keys"):
        DictKeysMatch.of(X, collections.OrderedDict({HostileKey(): 1}))
    assert not holds(guard, {"a": 1, "b": 2})


def test_dict_contains():
    assert holds(DictContains(X, "a"), {"a": 1}) and not holds(DictContains(X, "a"), {})
    assert holds(DictContains(X, "a", present=False), HostileDict()) and not holds(DictContains(X, 1), [1])
    assert DictContains(X, 1) != DictContains(X, True)


def test_a_global_that_hides_a_builtin_is_noticed():
    namespace = {}
    manager = manager_of(NotInGlobals("len"), globals=namespace)
    assert manager.check_fn(0)
    namespace["len"] = 1
    assert not agreed(manager, 0)
    assert manager.explain((0,)).message == "global 'len' now hides the builtin"
    assert NotInGlobals(GlobalSource("len")) == NotInGlobals("len")
    assert NotInGlobals("len").log_name() == "builtin 'len' NOT_IN_GLOBALS"


def test_globals_of_inlined_functions_are_watched_too():
    def elsewhere():
        pass

    function = types.FunctionType(elsewhere.__code__, {})
    guard = NotInGlobals(FunctionGlobalsSource(X, "len"))
    assert holds(guard, function)
    function.__globals__["len"] = 1
    assert not holds(guard, function)
    assert holds(NotInGlobals(ModuleGlobalsSource("torch", "len")), 0)
    assert NotInGlobals(ModuleGlobalsSource("torch", "len")).lines() == ["'len' not in sys.modules['torch'].__dict__"]


def test_set_match():
    guard = SetMatch(X, {1, "a", 2.5})
    assert holds(guard, {2.5, "a", 1}) and holds(guard, frozenset({1, "a", 2.5}))
    for other in ({1, "a"}, {True, "a", 2.5}, {1, "a", 2.5, 3}, {1, "a", HostileKey()}, [1, "a", 2.5]):
        assert not holds(guard, other), other


def test_hasattr_looks_into_slots_and_instance_dict():
    plain = torch.nn.Identity()
    for more in ((), (TypeMatch(X, torch.nn.Identity),)):
        assert holds(HasAttr(X, "training"), plain, *more) and not holds(HasAttr(X, "absent"), plain, *more)
        assert holds(HasAttr(X, "absent", False), plain, *more)
    assert "'training' in v1" in manager_of(TypeMatch(X, torch.nn.Identity), HasAttr(X, "training")).exec_text
    slotted = Slotted()
    for more in ((), (TypeMatch(X, Slotted),)):
        assert holds(HasAttr(X, "s"), slotted, *more) and holds(HasAttr(X, "t", present=False), slotted, *more)
    del slotted.s
    assert holds(HasAttr(X, "s", False), slotted, TypeMatch(X, Slotted))
    assert holds(HasAttr(X, "own"), Hostile()) and Hostile.calls == 0


def test_class_hasattr_follows_the_mro():
    class Base:
        pass

    class Derived(Base):
        pass

    guard = ClassHasAttr(X, "__getattr__", present=False)
    assert holds(guard, Derived)
    Base.__getattr__ = lambda self, name: 1
    assert not holds(guard, Derived)


def test_attributes_of_a_module_tree():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
    modules = AttrSource(X, "_modules")
    shape = [TypeMatch(modules, dict), DictKeysMatch(modules, ("0", "1"))]
    manager = manager_of(TypeMatch(X, torch.nn.Sequential), *shape)
    assert agreed(manager, model)
    model.append(torch.nn.ReLU())
    assert not agreed(manager, model)


def test_empty_dicts_of_an_object():
    tables = collections.OrderedDict
    owner = types.SimpleNamespace(first=tables(), second=tables(), third={})
    guard = EmptyDicts.of(X, vars(owner), ("first", "second"), tables)
    assert holds(guard, owner) and agreed(manager_of(guard), owner)
    assert EmptyDicts.of(X, vars(owner), ("first", "third"), tables) is None
    owner.second["key"] = 1
    assert not holds(guard, owner) and EmptyDicts.of(X, vars(owner), ("first", "second"), tables) is None
    failure = manager_of(guard).explain((owner,))
    assert failure.message == "list(L['x'].second.keys()) == []" and failure.seen == "['key']"
    owner.second = {}
    assert not holds(guard, owner)
    del owner.second
    assert not holds(guard, owner)
