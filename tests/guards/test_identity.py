"""Guards on types and identity: they hold for the very object, keep nothing alive, and die with it."""

import gc
import re
import types
import weakref

import pytest
import torch

from tests.guards.helpers import X, agreed, frame, holds, manager_of
from tracer.guards.identity import (
    ClassAttrMatch,
    CodeMatch,
    Distinct,
    FunctionMatch,
    IdMatch,
    ModuleMatch,
    SameObject,
    TypeMatch,
    WeakrefAlive,
)
from tracer.guards.manager import CheckFunctionManager
from tracer.sources.attributes import TypeLookupSource, TypeSource
from tracer.sources.containers import ItemSource
from tracer.sources.functions import ClosureCellSource
from tracer.sources.roots import GlobalSource, LocalSource

A, B, C = map(LocalSource, "abc")


def three(a, b, c):
    pass


class Plain:
    def method(self):
        pass


def test_type_match_is_exact():
    class Sub(Plain):
        pass

    assert holds(TypeMatch(X, Plain), Plain()) and not holds(TypeMatch(X, Plain), Sub())
    assert holds(TypeMatch(X, int), 1) and not holds(TypeMatch(X, int), True)


def test_type_match_does_not_believe_what_class_says():
    class Liar:
        @property
        def __class__(self):
            raise RuntimeError("user code ran")

    assert not holds(TypeMatch(X, int), Liar()) and holds(TypeMatch(X, Liar), Liar())


def test_a_type_is_not_shown_twice():
    text = manager_of(TypeMatch(X, int), TypeMatch(X, int), TypeMatch(X, str)).exec_text
    assert text.count("is int") == 1
    assert not manager_of(TypeMatch(X, int), TypeMatch(X, str)).check_fn(1)


def test_a_users_class_is_compared_by_address_and_dies_with_the_guard():
    class Dropped:
        pass

    manager = manager_of(TypeMatch(X, Dropped))
    assert "___type_id(x) ==" in manager.exec_text and manager.check_fn(Dropped())
    alive = weakref.ref(Dropped)
    del Dropped
    gc.collect()
    assert alive() is None
    assert not manager.valid
    assert re.fullmatch(r"L\['x'\] \(<type .*Dropped>\) was guarded and is gone", manager.explain((1,)).message)


def test_classes_of_the_library_are_compared_by_name():
    assert "type(x) is ___Linear" in manager_of(TypeMatch(X, torch.nn.Linear)).exec_text


def test_id_match_holds_for_the_object_alone():
    for obj in (Plain(), [1], len, torch, torch.add, torch.nn.functional.relu, Plain, int, 10**30, None, three):
        assert holds(IdMatch(X, obj), obj)
        assert not holds(IdMatch(X, obj), object())
        assert manager_of(IdMatch(X, obj)).explain((object(),)).seen == "<object object>"


def test_an_object_dies_although_it_is_guarded_and_its_entry_with_it():
    obj, told = Plain(), []
    manager = CheckFunctionManager([IdMatch(X, obj)], frame.__code__, {}, lambda: told.append(1))
    assert manager.check_fn(obj) and manager.valid
    del obj
    assert told == [1] and not manager.valid


def test_a_death_between_trace_and_check_fn_is_noticed():
    guard = IdMatch(X, Plain())
    manager, told = manager_of(guard), []
    assert not manager.valid and not manager.check_fn(Plain())
    manager.when_invalid(lambda: told.append(1))
    assert told == [1]


def test_the_manager_is_freed_without_the_collector():
    obj = Plain()
    manager = manager_of(IdMatch(X, obj), TypeMatch(X, Plain))
    gone = weakref.ref(manager)
    gc.disable()
    try:
        del manager
        assert gone() is None
    finally:
        gc.enable()
    del obj


def test_guards_of_one_object_are_equal_and_hold_it_weakly():
    obj = Plain()
    assert IdMatch(X, obj) == IdMatch(X, obj) != IdMatch(X, Plain())
    assert FunctionMatch(X, three) != IdMatch(X, three)
    gone = weakref.ref(obj)
    guard = IdMatch(X, obj)
    del obj
    assert gone() is None and guard.obj.dead


def test_what_allows_no_weak_reference_is_bound():
    obj = (1, 2)
    assert "x is ___obj" in manager_of(IdMatch(X, obj)).exec_text


def test_a_bound_method_cannot_be_guarded_by_identity():
    with pytest.raises(TypeError, match="guard its __self__ and __func__"):
        IdMatch(X, Plain().method)


def test_function_and_module_match_print_as_the_field_knows_them():
    guards = [FunctionMatch(GlobalSource("torch"), torch), ModuleMatch(GlobalSource("torch"), torch)]
    assert [g.log_name() for g in guards] == ["global 'torch' FUNCTION_MATCH", "global 'torch' MODULE_MATCH"]


def test_a_replaced_global_is_noticed():
    namespace = {"helper": three}
    manager = manager_of(FunctionMatch(GlobalSource("helper"), three), globals=namespace)
    assert manager.check_fn(0)
    namespace["helper"] = len
    assert not manager.check_fn(0)
    assert manager.explain((0,)).message == "G['helper'] is another object than <function three>"
    del namespace["helper"]
    assert manager.explain((0,)).message == "G['helper'] could not be read (KeyError: 'helper')"


def test_a_method_replaced_anywhere_in_the_mro_is_noticed():
    class Derived(Plain):
        pass

    guard = ClassAttrMatch(TypeLookupSource(TypeSource(X), "method"), Plain.method)
    manager, obj = manager_of(TypeMatch(X, Derived), guard), Derived()
    assert agreed(manager, obj)
    original = Plain.method
    try:
        Plain.method = lambda self: None
        assert not agreed(manager, obj)
    finally:
        Plain.method = original
    assert agreed(manager, obj)
    Derived.method = lambda self: None
    assert not agreed(manager, obj)


def test_code_match_holds_for_every_closure_of_one_def():
    def make(n):
        def inner():
            return n

        return inner

    first, second = make(1), make(2)
    guard = CodeMatch(X, first)
    assert holds(guard, second) and not holds(guard, three) and not holds(guard, len)
    assert guard == CodeMatch(X, first.__code__)
    second.__code__ = (lambda n: lambda: -n)(1).__code__
    assert not holds(guard, second)
    manager = manager_of(guard, IdMatch(ClosureCellSource(X, 0), first.__closure__[0]))
    assert "x.__closure__[0]" in manager.exec_text
    assert agreed(manager, first) and not agreed(manager, make(1))


def test_new_code_in_a_guarded_function_is_noticed():
    def function():
        return 1

    def other():
        return 2

    manager = manager_of(FunctionMatch(X, function), CodeMatch(X, function))
    assert manager.check_fn(function)
    function.__code__ = other.__code__
    assert not agreed(manager, function)


def test_weakref_alive():
    obj = Plain()
    reference = weakref.ref(obj)
    assert holds(WeakrefAlive(X), reference) and not holds(WeakrefAlive(X, alive=False), reference)
    del obj
    assert not holds(WeakrefAlive(X), reference) and holds(WeakrefAlive(X, alive=False), reference)
    assert not holds(WeakrefAlive(X), lambda: 1)


def test_same_object_and_distinct():
    x, y, z = Plain(), Plain(), Plain()
    manager = manager_of(SameObject(A, B), code=three.__code__)
    assert agreed(manager, x, x, z) and not agreed(manager, x, y, z)
    for group in ((A, B), (A, B, C)):
        manager = manager_of(Distinct(group), code=three.__code__)
        assert agreed(manager, x, y, z) and not agreed(manager, x, x, z)
    assert manager.explain((x, y, x)).message == "L['a'] and L['c'] are one object"
    assert manager_of(Distinct((A,)), code=three.__code__).check_fn(x, x, x)
    assert SameObject(A, ItemSource(B, 0)).log_name() == "local 'a' and local 'b[0]' DUPLICATE_INPUT"


def test_a_module_subclass_whose_class_is_assigned_is_noticed():
    class Lazy(types.ModuleType):
        pass

    module = types.ModuleType("m")
    manager = manager_of(IdMatch(X, module), TypeMatch(X, types.ModuleType))
    assert manager.check_fn(module)
    module.__class__ = Lazy
    assert not agreed(manager, module)
