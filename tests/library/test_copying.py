"""copy.copy and copy.deepcopy in traced code, and id(), which they rest on."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import functools
import types

import numpy as np
import pytest
import torch

import tracer
from tests.support import captured, captured_made, check, check_made
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(3.0)


class Config:
    def __init__(self):
        self.number = 1
        self.items = [1, 2]
        self.table = {"k": 3.0, "inner": [4]}
        self.same = self.items


class Slotted:
    __slots__ = ("first", "second", "__private")

    def __init__(self, first):
        self.first = first
        self.__private = [first]

    def private(self):
        return self.__private


class SlottedWithDict(Slotted):
    def __init__(self, first):
        super().__init__(first)
        self.more = [first]


class Own:
    def __init__(self, value):
        self.value = value

    def __copy__(self):
        return Own(("copied", self.value))

    def __deepcopy__(self, memo):
        made = Own(None)
        memo[id(self)] = made
        made.value = copy.deepcopy(self.value, memo)
        return made


class Reduced:
    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return Reduced, (self.value + 1,)


class WithState:
    def __init__(self, value):
        self.value = value

    def __getstate__(self):
        return {"v": self.value}

    def __setstate__(self, state):
        self.value = state["v"] * 10


class Items(list):
    pass


class Table(dict):
    pass


class Kind(enum.Enum):
    ONE = 1


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Data:
    a: int
    b: list


CONFIG = Config()


def test_a_shallow_copy_shares_what_it_holds():
    def fn(x):
        made = copy.copy(CONFIG)
        made.number = 5
        return x * made.number + CONFIG.number, made.items is CONFIG.items, made

    captured(fn, X)


def test_a_deep_copy_of_a_config():
    def fn(x):
        made = copy.deepcopy(CONFIG)
        made.items.append(9)
        made.table["inner"].append(5)
        made.number = 7
        return x * made.number, made, made.same is made.items, CONFIG.items

    captured(fn, X)


def test_an_argument_is_not_changed_by_changes_of_its_copy():
    def fn(x, config):
        made = copy.deepcopy(config)
        made.table["k"] = x
        return made.table["k"] + 1, made

    captured(fn, X, Config())


def test_containers():
    def fn(x):
        inner = [2]
        items = [1, inner, (inner, 3), {"k": inner}, {1, 2}]
        made, shallow = copy.deepcopy(items), copy.copy(items)
        inner.append(x)
        return x + 1, made, shallow, made[1] is made[3]["k"], made[1] is made[2][0], shallow[1] is inner

    captured(fn, X)


def test_a_list_that_holds_itself():
    def fn(x):
        items = [1]
        items.append(items)
        made = copy.deepcopy(items)
        return x + 1, made[1] is made, made is items

    captured(fn, X)


def test_what_is_atomic_is_not_copied():
    def fn(x):
        values = (3, "text", None, 2.5, b"b", Kind.ONE, len, Config, torch.float32, range(3))
        return x + 1, copy.deepcopy(values) is values, [copy.deepcopy(value) is value for value in values[5:9]], copy.copy(values)

    captured(fn, X)


def test_other_containers_of_the_standard_library():
    def fn(x):
        values = collections.OrderedDict(a=[1]), collections.defaultdict(list, b=[2]), collections.Counter("aab"), Pair([1], 2)
        values = *values, collections.deque([[1]], 3)
        made = copy.deepcopy(values)
        made[0]["a"].append(3)
        made[1]["new"].append(4)
        return x + 1, values, made, [copy.copy(value) for value in values]

    captured(fn, X)


def test_subclasses_of_containers_keep_items_and_attributes():
    def fn(x):
        items, table = Items([1, [2]]), Table(a=[3])
        items.name = ["n"]
        made = copy.deepcopy(items), copy.deepcopy(table)
        items[1].append(5)
        return x + 1, made, made[0].name, type(made[1])

    captured(fn, X)


def test_slots():
    def fn(x):
        value, both = Slotted([1]), SlottedWithDict([2])
        made, again = copy.deepcopy(value), copy.copy(both)
        value.first.append(3)
        shared = again.more is both.more, again.private() is both.private()
        return x + 1, made.first, made.private(), hasattr(made, "second"), shared

    captured(fn, X)


def test_dataclasses():
    def fn(x):
        made = copy.deepcopy(Data(1, [2]))
        made.b.append(x)
        return x + made.a, made

    captured(fn, X)


def test_methods_of_the_class_decide():
    def fn(x):
        own = Own([1])
        made = copy.deepcopy([own, own])
        shallow = copy.copy(own).value, copy.copy(Reduced(1)).value, copy.copy(WithState(2)).value
        return x + 1, made[0] is made[1], made[0].value, shallow, copy.deepcopy(WithState(3)).value

    captured(fn, X)


def test_a_copied_object_that_existed_has_the_attributes_that_the_trace_gave_it():
    def make():
        return (X, Config()), {}

    def fn(x, config):
        config.number = 4
        del config.table
        made = copy.copy(config)
        return x * made.number, made

    captured_made(fn, make)


def test_containers_of_tensors_are_copied():
    def fn(x, y):
        new = x + 1
        values = [x, {"a": x, "b": y}, (new, 2)]
        made = copy.deepcopy(values)
        made[0].add_(1)
        made[2][0].mul_(2)
        return values, made, made[0] is made[1]["a"], new

    captured(fn, X, X * 2)


def test_copies_of_tensors_that_share_memory_share_it_too():
    def fn(x, y):
        made = copy.deepcopy([x, y])
        made[0].add_(1)
        return made, x, y

    checked = captured(fn, X, X + 1)
    assert any(guard.kind == "NO_OVERLAP" for guard in checked.guards)

    def make():
        x = X.clone()
        return (x, x.view(-1)), {}

    assert check_made(fn, make).breaks

    def views(x):
        y = x + 1
        return fn(y, y[:2])

    assert check(views, X).breaks
    traced = compiled(fn, Settings(backend="eager", name="check"))
    for first, second in [(X, X + 1), (X, X), (X, X.view(-1)), (X, X + 2)]:
        first, second = copy.deepcopy([first, second])
        expected, found = fn(first, second)[0], traced(first, second)[0]
        assert all(map(torch.equal, expected, found))


def test_another_tensor_over_the_same_memory():
    def fn(x):
        y = x * 2
        first, second = copy.copy(x), copy.copy(y)
        first.add_(1)
        second.add_(3)
        return x, first, y, second, first is x

    captured(fn, X)
    check(fn, torch.ones(2, requires_grad=True))
    x = torch.ones(2)
    x.note = 5
    assert compiled(lambda x: copy.copy(x), Settings(backend="eager", name="check"))(x).note == 5
    with pytest.raises(AttributeError):
        compiled(lambda x: (x + 1).__copy__(), Settings(backend="eager", name="check"))(X)


def test_slices_are_copied():
    check(lambda x: (x + 1, copy.deepcopy(slice(1, 2)), copy.deepcopy([slice(3), (slice(None), [1])])), X)


def test_a_copy_lies_where_the_tensor_lies_in_its_storage():
    def fn(x):
        return copy.deepcopy(x)

    traced = compiled(fn, Settings(backend="eager", name="check"))
    for x in (torch.arange(4.0), torch.arange(4.0)[1:], torch.arange(4.0)[2:], torch.arange(3.0)):
        assert traced(x).equal(x)
        assert traced(x).storage_offset() == fn(x).storage_offset()


def test_ids_of_objects():
    def fn(x, a, b):
        new = [1]
        table = {id(a): "a", id(new): "new"}
        known = id(a) in table, id(b) in table, table[id(new)], table.get(id(b))
        return x + 1, id(a) == id(a), id(a) == id(b), id(new) != id(a), known, id(None) == id(None)

    captured(fn, X, [1], [2])


def test_ids_that_were_kept_break():
    kept = [1]
    seen = {id(kept)}

    def fn(x):
        return x + 1, id(kept) in seen, id(kept) in [id(kept)]

    assert check(fn, X).breaks


def test_ids_in_arithmetic_and_text_break():
    def fn(x):
        value = [1]
        return x + 1, len(str(id(value))) > 3, id(value) > 0

    assert check(fn, X).breaks


def test_a_tensor_by_itself():
    def fn(x):
        y = copy.deepcopy(x)
        y += 1
        return y, x, copy.deepcopy(x * 2)

    captured(fn, X)


def test_tensors_that_are_copied_by_their_storage():
    shared = torch.arange(6.0).reshape(2, 3)
    with_attribute = torch.arange(3.0)
    with_attribute.note = ["kept"]
    tensors = [shared.t(), [shared, shared[0]], torch.ones(3).expand(2, 3), torch.ones(2, requires_grad=True), with_attribute,
               torch.nn.Parameter(torch.ones(2))]  # fmt: skip
    for tensor in tensors:
        check(lambda x: (copy.deepcopy(x), x), tensor)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.last = torch.nn.Linear(3, 3, bias=False)
        self.last.weight = self.first.weight
        self.frozen = torch.nn.Parameter(torch.arange(3.0), requires_grad=False)

    def forward(self, x):
        return self.last(self.norm(self.first(x))) * self.frozen


def _copied_and_called(net, x):
    copied = copy.deepcopy(net)
    y = copied(x), net(x)
    (y[0].sum() + y[1].sum()).backward()
    return y, copied, copied.last.weight is copied.first.weight, net


def test_a_module_from_outside():
    def make():
        torch.manual_seed(1)
        net = Net()
        net.first.weight.grad = torch.ones(3, 3)  # which the copy lacks, as the attribute
        net.first.weight.note = 5
        return (net.eval(), torch.ones(2, 3)), {}

    captured_made(_copied_and_called, make)


def test_a_module_made_inside():
    captured(lambda x: _copied_and_called(Net(), x), torch.ones(2, 3))


def test_a_copy_of_a_parameter_has_memory_of_its_own():
    def fn(p, x):
        shared = [p, p.data, torch.nn.Parameter(p.data)]
        return [copy.deepcopy(each) for each in shared], copy.deepcopy([p, p]), copy.deepcopy(p).requires_grad, x + 1

    for requires_grad in (True, False):
        captured_made(fn, lambda: ((torch.nn.Parameter(torch.ones(2, 2), requires_grad), X), {}))


def test_a_tensor_that_gets_an_attribute_later():
    traced = compiled(lambda x: copy.deepcopy(x), Settings(backend="eager", name="check"))
    x = torch.arange(3.0)
    assert not hasattr(traced(x), "note")
    x.note = 5
    assert traced(x).note == 5


def test_a_deep_copy_of_a_view_copies_the_whole_storage():
    def fn(x):
        made = x * 2
        copies = [copy.deepcopy(t) for t in (x, x[:3], x[:3].clone(), made, made[:3], x.view(2, 5))]
        return copies, [t.untyped_storage().nbytes() for t in copies]

    for start, stop in ((0, 10), (2, 12), (0, 12)):
        seen = fn(torch.arange(12.0)[start:stop][:10])
        traced = tracer.optimize("eager")(fn)(torch.arange(12.0)[start:stop][:10])
        assert seen[1] == traced[1]
        assert all(torch.equal(a, b) for a, b in zip(seen[0], traced[0]))


def test_a_copied_input_that_no_longer_fills_its_storage_is_noticed():
    def fn(x):
        return copy.deepcopy(x)

    compiled = tracer.optimize("eager")(fn)
    assert [compiled(t).untyped_storage().nbytes() for t in (torch.ones(3), torch.ones(4)[:3], torch.ones(3))] == [12, 16, 12]
    captured(fn, torch.ones(3))


NAMESPACE = types.SimpleNamespace(a=1, b=[3])


def test_copies_of_namespaces():
    def fn(x):
        made = types.SimpleNamespace(a=1, b=[x])
        shallow, deep = copy.copy(made), copy.deepcopy(made)
        deep.b.append(2)
        return x + 1, shallow, deep, shallow.b is made.b, copy.copy(NAMESPACE), copy.deepcopy(NAMESPACE)

    captured(fn, X)


def test_values_that_c_copies():
    def fn(x):
        day, pack, first = datetime.date(2020, 1, 1), bytearray(b"ab"), functools.partial(max, [3], key=len)
        values = [
            day,
            day,
            pack,
            pack,
            decimal.Decimal("1.5"),
            torch.device("cpu"),
            slice(1, x.shape[0]),
            x.shape,
            frozenset([1]),
        ]
        made, shallow = copy.deepcopy(values), copy.copy(pack)
        made[2][0] = 1
        called = copy.deepcopy(first), copy.copy(first)
        called[0].args[0].append(4)
        same = made[0] is made[1], made[2] is made[3], called[0].args[0] is first.args[0], called[1].args[0] is first.args[0]
        return x + 1, made[2:], values[2:], shallow, same, first.args

    captured(fn, X)


def test_arrays():
    def fn(x):
        known, array = np.arange(3), x.numpy()
        made = copy.deepcopy([known, array, array]), copy.copy(array)
        made[0][0][0] = 5
        made[0][1][0] = 7
        made[1][1] = 9
        return x, known, made, made[0][1] is made[0][2], copy.deepcopy(np.float32(2.5))

    captured(fn, X)
    captured(lambda x: copy.deepcopy(x.numpy().T).strides, torch.ones(2, 3))


def test_named_tuples_of_a_class_that_the_program_makes():
    def fn(x):
        made = collections.namedtuple("Pair", "a b")
        pair = made(x, [1])
        deep, shallow = copy.deepcopy(pair), copy.copy(pair)
        deep.b.append(2)
        return deep.a + 1, pair.b, deep.b, shallow.b is pair.b, type(deep) is made, made.__new__(made, 1, 2).b

    captured(fn, X)
