"""CheckFunctionManager: order, text, argument slots, explanations; and that a check never runs user code."""

import gc
import random
from types import SimpleNamespace

import pytest
import torch

from tests.guards.helpers import X, agreed, frame, manager_of, run
from tests.support import collect_garbage
from tests.support.processes import run_python
from tracer.bytecode.slots import argument_slots
from tracer.guards.attributes import ClassHasAttr, HasAttr
from tracer.guards.containers import DictContains, DictKeysMatch, LengthMatch, NotInGlobals, SetMatch
from tracer.guards.identity import (
    BoolMatch,
    CodeMatch,
    Distinct,
    FunctionMatch,
    IdMatch,
    NoneMatch,
    SameObject,
    TypeMatch,
    WeakrefAlive,
)
from tracer.guards.manager import CheckFunctionManager
from tracer.guards.shapes import ShapeLine
from tracer.guards.tensors import MarksMatch, TensorMatch, tensor_spec
from tracer.guards.values import EqualsMatch
from tracer.locations import UserLocation
from tracer.sources.attributes import AttrSource, TypeSource
from tracer.sources.containers import ItemSource
from tracer.sources.roots import CellSource, FreeVarSource, GlobalSource, LocalSource


def test_the_reference_example_of_a_list_of_strings():
    """`x * len(l[0])` with ["Hi", "Hello"]."""

    def fn(x, l):
        pass

    x, l = LocalSource("x"), LocalSource("l")
    guards = [TensorMatch(x, tensor_spec(torch.randn(8))), TypeMatch(l, list), LengthMatch(l, 2)]
    guards += [EqualsMatch(ItemSource(l, 0), "Hi"), EqualsMatch(ItemSource(l, 1), "Hello")]
    manager = CheckFunctionManager(guards, fn.__code__, {})
    assert manager.source_text.splitlines()[:6] == [
        f"___check_type_id(L['l'], {id(list)})",
        "len(L['l']) == 2",
        f"___check_type_id(L['l'][0], {id(str)})",
        "L['l'][0] == 'Hi'",
        f"___check_type_id(L['l'][1], {id(str)})",
        "L['l'][1] == 'Hello'",
    ]
    assert manager.exec_text == (
        "def check_fn(x, l):\n"
        "    if not (type(l) is list): return False\n"
        "    if not (len(l) == 2): return False\n"
        "    v1 = l[0]\n"
        "    if not (type(v1) is str and v1 == 'Hi'): return False\n"
        "    v2 = l[1]\n"
        "    if not (type(v2) is str and v2 == 'Hello'): return False\n"
        "    if not ___check_tensors(x): return False\n"
        "    return True\n"
    )
    assert agreed(manager, torch.randn(8), ["Hi", "Hello"]) and not agreed(manager, torch.randn(8), ["Hi", "Hi"])


def test_order_follows_dependency_and_not_arrival():
    deep = ItemSource(AttrSource(X, "_modules"), "0")
    guards = [EqualsMatch(AttrSource(deep, "p"), 0.5), TypeMatch(deep, torch.nn.Dropout)]
    guards += [TypeMatch(X, torch.nn.Sequential), DictKeysMatch(AttrSource(X, "_modules"), ("0",))]
    guards.insert(0, SameObject(X, X))
    names = [guard.log_name() for guard in manager_of(*guards).guards]
    assert names == [
        "local 'x' TYPE_MATCH",
        "local 'x._modules' DICT_KEYS",
        "local 'x._modules['0']' TYPE_MATCH",
        "local 'x._modules['0'].p' EQUALS_MATCH",
        "local 'x' and local 'x' DUPLICATE_INPUT",
    ]


def test_the_text_is_the_same_whatever_is_repeated():
    guards = [TypeMatch(X, list), LengthMatch(X, 1), EqualsMatch(ItemSource(X, 0), 1)]
    once = manager_of(*guards).exec_text
    assert manager_of(*guards, *guards).exec_text == once
    assert manager_of(*reversed(guards)).exec_text == once


def test_parameters_are_the_argument_slots_of_the_code():
    def everything(a, /, b, *args, c, d=1, **kwargs):
        local = a
        return local

    assert argument_slots(everything.__code__) == ("a", "b", "c", "d", "args", "kwargs")
    manager = manager_of(EqualsMatch(ItemSource(LocalSource("kwargs"), "k"), 1), code=everything.__code__)
    assert manager.exec_text.startswith("def check_fn(a, b, c, d, args, kwargs):")
    assert agreed(manager, 1, 2, 3, 4, (), {"k": 1}) and not agreed(manager, 1, 2, 3, 4, (), {})


def test_arguments_named_like_what_checks_use_do_no_harm():
    def hiding(type, len, v1, G, ___raw_attr, check_fn, id):
        pass

    sources = [LocalSource(name) for name in argument_slots(hiding.__code__)]
    guards = [EqualsMatch(ItemSource(source, 0), index) for index, source in enumerate(sources)]
    guards += [TypeMatch(source, list) for source in sources] + [LengthMatch(source, 1) for source in sources]
    guards += [NotInGlobals("len"), FunctionMatch(GlobalSource("frame"), frame)]
    manager = manager_of(*guards, code=hiding.__code__, globals={"frame": frame})
    lists = [[i] for i in range(7)]
    assert agreed(manager, *lists)
    for i in range(7):
        assert not agreed(manager, *[[9] if j == i else value for j, value in enumerate(lists)])
        assert manager.explain(tuple([9] if j == i else value for j, value in enumerate(lists))).seen == "9"


def test_the_unnamed_slot_of_a_comprehension():
    code = next(c for c in (lambda x: (i for i in x)).__code__.co_consts if hasattr(c, "co_name"))
    assert argument_slots(code) == (".0",)
    assert agreed(manager_of(EqualsMatch(LocalSource(".0"), 3), code=code), 3)


def test_free_variables_come_as_the_closure_of_the_caller():
    def outer(value):
        def inner(x):
            return value

        return inner

    first, second = outer(1), outer(2)
    guards = [EqualsMatch(FreeVarSource("value"), 1), EqualsMatch(X, 0)]
    manager = manager_of(*guards, code=first.__code__)
    assert manager.exec_text.startswith("def check_fn(x, ___closure):")
    assert agreed(manager, 0, closure=first.__closure__) and not agreed(manager, 0, closure=second.__closure__)
    assert str(manager.explain((0,), second.__closure__)) == "L['value'] == 1  (seen 2)"
    cell = manager_of(IdMatch(CellSource("value"), first.__closure__[0]), code=first.__code__)
    assert agreed(cell, 0, closure=first.__closure__) and not agreed(cell, 0, closure=second.__closure__)


def test_a_program_that_replaces_builtins_changes_nothing():
    program = """if True:
        import builtins
        from tests.guards.test_manager import LengthMatch, TypeMatch, X, manager_of
        managers = [manager_of(TypeMatch(X, list), LengthMatch(X, 1)), manager_of(LengthMatch(X, 1))]
        builtins.len = lambda x: 5
        print(*(manager.check_fn([1]) for manager in managers))
    """  # in a process of its own: whatever runs the tests has threads that measure lengths
    assert run_python(program).stdout.split() == ["True", "True"]


def test_a_value_that_cannot_be_read_is_named():
    manager = manager_of(TypeMatch(X, dict), EqualsMatch(ItemSource(X, "k"), 1))
    failure = manager.explain(({},))
    assert failure.message == "L['x']['k'] could not be read (KeyError: 'k')"
    assert failure.guard == EqualsMatch(ItemSource(X, "k"), 1)


def test_the_first_failing_guard_is_named_with_the_users_line():
    where = UserLocation(__file__, 3, "fn")
    manager = manager_of(EqualsMatch(ItemSource(X, 1), 2, where=where), EqualsMatch(ItemSource(X, 0), 1))
    assert manager.explain(([1, 5],)).where == where
    assert manager.explain(([0, 2],)).where is None
    assert manager.explain(([1, 2],)) is None


def test_where_makes_no_difference_between_guards():
    a = UserLocation("a.py", 1, "f")
    assert EqualsMatch(X, 1, where=a) == EqualsMatch(X, 1)
    assert [g.where for g in manager_of(EqualsMatch(X, 1, where=a), EqualsMatch(X, 1)).guards] == [a]


def test_managers_share_what_is_equal_down_to_the_line_that_made_it():
    a, b = UserLocation("a.py", 1, "f"), UserLocation("a.py", 2, "f")

    def made(where, value):
        return manager_of(EqualsMatch(ItemSource(X, 0), 1, where=where), EqualsMatch(ItemSource(X, 1), value))

    one, same, other = made(a, 2), made(a, 2), made(b, 3)
    for manager in (same, other):
        manager.share(one)
    assert all(mine is own for mine, own in zip(same.guards, one.guards))
    assert not any(guard in map(id, one.guards) for guard in map(id, other.guards)) and other.guards[0].where == b
    assert run(same, [1, 2]) and not run(same, [1, 3]) and run(other, [1, 3])
    assert other.explain(([1, 2],)).expected == "3"


class Trap:
    """Raises from every special method a guard could touch."""

    def _sprung(self, *args):
        Trap.sprung += 1
        raise RuntimeError("user code ran")

    sprung = 0
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __len__ = __getattr__ = __getattribute__ = _sprung
    __getitem__ = __iter__ = __contains__ = __bool__ = __index__ = __int__ = __float__ = __call__ = __repr__ = _sprung
    __str__ = __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __floordiv__ = _sprung
    __class__ = property(_sprung)


class ListTrap(Trap, list):
    pass


class DictTrap(Trap, dict):
    pass


class IntTrap(Trap, int):
    pass


class StrTrap(Trap, str):
    pass


class TupleTrap(Trap, tuple):
    pass


def test_no_guard_runs_code_of_a_hostile_value():
    values = [object.__new__(Trap), list.__new__(ListTrap), dict.__new__(DictTrap), tuple.__new__(TupleTrap, (1, 2))]
    values += [int.__new__(IntTrap, 1), str.__new__(StrTrap, "a"), [object.__new__(Trap)], {"k": object.__new__(Trap)}]
    values += [(object.__new__(Trap),), {1: list.__new__(ListTrap)}]
    sources = [X, ItemSource(X, 0), ItemSource(X, "k"), AttrSource(X, "own"), TypeSource(X)]
    for source in sources:
        guards = [
            TypeMatch(source, int), IdMatch(source, Trap), EqualsMatch(source, 1), EqualsMatch(source, "a"),
            EqualsMatch(source, (1, 2)), EqualsMatch(source, 0.0), EqualsMatch(source, slice(1)),
            EqualsMatch(source, torch.device("cpu")), EqualsMatch(source, frozenset({1})),
            EqualsMatch(source, range(2)), LengthMatch(source, 1),
            DictKeysMatch(source, ("k",)), DictKeysMatch(source, (1,), ordered_dict=True), SetMatch(source, {1}),
            DictContains(source, "k"), HasAttr(source, "own"), ClassHasAttr(source, "own"),
            NoneMatch(source), BoolMatch(source, True), WeakrefAlive(source),
            CodeMatch(source, frame),
                MarksMatch.of("_marks", {source: {}}, SimpleNamespace(count=1), 0), SameObject(source, X),
            Distinct((source, X)), TensorMatch(source, tensor_spec(torch.ones(1))),
        ]  # fmt: skip
        for guard in guards:
            manager = manager_of(guard)
            for value in values:
                run(manager, value)
                manager.explain((value,))
    assert Trap.sprung == 0


def test_numbers_in_shape_guards_are_shown_to_be_ints_first():
    manager = manager_of(TypeMatch(X, int), ShapeLine("{0} % 2 == 0", (X,)))
    assert agreed(manager, 4) and not agreed(manager, int.__new__(IntTrap, 4)) and not agreed(manager, 3)
    assert Trap.sprung == 0


def test_a_thousand_guards_in_any_order_agree_with_each_guard_alone():
    rng = random.Random(0)
    sources = [ItemSource(X, i) for i in range(200)]
    guards = [TypeMatch(X, list), LengthMatch(X, 200)]
    for i, source in enumerate(sources):
        guards += [EqualsMatch(source, i)] if i % 2 else [TypeMatch(source, str), EqualsMatch(source, str(i))]
    rng.shuffle(guards)
    manager = manager_of(*guards)
    good = [i if i % 2 else str(i) for i in range(200)]
    assert agreed(manager, good)
    for _ in range(50):
        i = rng.randrange(200)
        bad = [*good[:i], object(), *good[i + 1 :]]
        assert manager.explain((bad,)).guard.sources() == (sources[i],)


@pytest.mark.smoke
def test_guards_of_a_module_tree():
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout()) for _ in range(20)])
    guards = list(module_guards(model, X))
    manager = manager_of(*guards)
    assert agreed(manager, model) and len(manager.guards) > 200
    model[3][1].p = 0.25
    assert str(manager.explain((model,))) == "L['x']._modules['3']._modules['1'].p == 0.5  (seen 0.25)"
    model[3][1].p = 0.5
    model[7].eval()
    assert manager.explain((model,)).message == "L['x']._modules['7'].training is True"
    model.train()
    model[5][0].weight.requires_grad_(False)
    assert "L['x']._modules['5']._modules['0']._parameters['weight']' requires_grad" in str(manager.explain((model,)))


def module_guards(module, source):
    yield TypeMatch(source, type(module))
    yield EqualsMatch(AttrSource(source, "training"), module.training)
    if isinstance(module, torch.nn.Dropout):
        yield EqualsMatch(AttrSource(source, "p"), module.p)
    for name, table in (("_modules", module._modules), ("_parameters", module._parameters)):
        held = AttrSource(source, name)
        yield TypeMatch(held, dict)
        yield DictKeysMatch.of(held, table)
        for key, value in table.items():
            if isinstance(value, torch.nn.Module):
                yield from module_guards(value, ItemSource(held, key))
            elif value is not None:
                # a Parameter's dispatch keys differ with requires_grad only in what requires_grad says
                yield TensorMatch(ItemSource(held, key), tensor_spec(value))


def test_a_manager_and_what_made_it_leave_no_cycles():
    manager = manager_of(*module_guards(torch.nn.Sequential(torch.nn.Linear(2, 2)), X))
    collect_garbage()
    gc.disable()
    try:
        manager = manager_of(*module_guards(torch.nn.Sequential(torch.nn.Linear(2, 2)), X))
        manager.explain((5,))
        del manager
        assert gc.collect() <= 2  # what torch's own modules leave, if anything
    finally:
        gc.enable()
