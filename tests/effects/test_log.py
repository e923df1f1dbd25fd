"""The log of a trace's effects: lookups in it during the trace, and what remains of it for the replay."""

from __future__ import annotations

from tracer.effects.log import DELETED, Effects
from tracer.variables.containers.lists import ListVariable
from tracer.variables.values.constant import ConstantVariable

ONE, TWO = ConstantVariable(1), ConstantVariable(2)


def test_targets_stand_in_the_order_of_their_first_change():
    effects, first, second = Effects(), ListVariable([]), ListVariable([])
    for target in (first, second, first):
        effects.mutate(target)
    assert list(effects.mutated) == [first, second] and bool(effects)


def test_an_observer_is_told_of_a_change_before_it_is_logged():
    effects, target, told = Effects(), ListVariable([]), []
    effects.observer = lambda changed: told.append((changed, changed in effects.mutated))
    effects.mutate(target)
    assert told == [(target, False)]


def test_an_attribute_is_what_was_stored_last():
    effects, target = Effects(), ListVariable([])
    effects.store_attribute(target, "a", ONE)
    effects.store_attribute(target, "a", TWO)
    assert effects.attribute(target, "a") is TWO and effects.attribute(target, "b") is None


def test_an_attribute_that_existed_is_deleted_and_one_that_the_trace_made_is_forgotten():
    effects, target = Effects(), ListVariable([])
    effects.store_attribute(target, "made", ONE)
    effects.delete_attribute(target, "made", existed=False)
    effects.delete_attribute(target, "there_before", existed=True)
    assert effects.attributes(target) == {"there_before": DELETED}
    assert effects.is_deleted(target, "there_before") and not effects.is_deleted(target, "made")


def test_an_attribute_that_is_stored_after_its_deletion_was_deleted_and_set():
    effects, target = Effects(), ListVariable([])
    effects.delete_attribute(target, "first", existed=True)
    effects.store_attribute(target, "second", ONE)
    effects.store_attribute(target, "first", TWO)
    assert effects.was_deleted_and_set(target, "first") and not effects.was_deleted_and_set(target, "second")
    assert list(effects.attributes(target)) == ["second", "first"]


def test_what_is_gone_is_not_replayed():
    effects, target = Effects(), ListVariable([])
    effects.store_attribute(target, "a", ONE)
    effects.forget(target)
    assert not effects and effects.attributes(target) == {}


def test_a_class_is_changed_for_those_that_inherit_from_it():
    class Base:
        pass

    class Derived(Base):
        pass

    effects = Effects()
    effects.store_class_attribute(ListVariable([]), Base, "rate", ONE)
    assert effects.is_class_changed(Derived, "rate") and effects.is_class_changed(Base, "rate")
    assert not effects.is_class_changed(Derived, "other") and not effects.is_class_changed(int, "rate")


def test_globals_are_told_apart_by_their_dicts():
    effects, mine, theirs = Effects(), {"a": 0}, {"a": 0}
    effects.store_global(mine, "a", ONE, 0)
    effects.store_global(theirs, "b", DELETED, 0)
    assert effects.global_value(mine, "a") is ONE and effects.global_value(theirs, "a") is None
    assert [(namespace is mine, name, value) for namespace, name, value in effects.stored_globals()] == [
        (True, "a", ONE),
        (False, "b", DELETED),
    ]


def test_what_a_value_leads_to_is_its_parts_and_its_stored_attributes():
    effects, target = Effects(), ListVariable([ONE])
    effects.store_attribute(target, "a", TWO)
    effects.delete_attribute(target, "b", existed=True)
    assert effects.held_by(target) == [ONE, TWO]
