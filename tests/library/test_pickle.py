"""Pickles are made and loaded while tracing; what a trace cannot tell is left to CPython."""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import datetime
import decimal
import enum
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks, captured, check


@pytest.mark.parametrize("protocol", [None, 0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_pickle_of_constants_is_known(protocol: int | None) -> None:
    def program(x: torch.Tensor, **kwargs: Any) -> tuple[torch.Tensor, bytes]:
        key = pickle.dumps({"upper": kwargs.get("upper"), "dims": [1, (2.5, ()), None], "raw": b"x"}, protocol)
        return x + len(key), key

    check(program, torch.randn(3), upper=True, graphs=1)


def test_results_are_remembered_by_pickled_keywords() -> None:
    class Remembers:
        def __init__(self) -> None:
            self.known: dict[Any, torch.Tensor] = {}

        def scaled(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
            key = ("scaled", pickle.dumps(kwargs))
            if key not in self.known:
                self.known[key] = x * kwargs.get("by", 2)
            return self.known[key]

    def program(x: torch.Tensor) -> torch.Tensor:
        one = Remembers()
        return one.scaled(x) + one.scaled(x) + one.scaled(x, by=3)

    check(program, torch.randn(3), graphs=1)


def test_objects_that_may_be_one_or_two_are_pickled_by_cpython() -> None:
    def program(x: torch.Tensor, names: list[Any]) -> tuple[torch.Tensor, bytes]:
        return x + 1, pickle.dumps(names)

    compiled = tracer.optimize("eager")(program)
    shared, x = [1], torch.randn(3)
    for names in ([shared, shared], [[1], [1]], ["".join(["a", "b"]), "".join(["a", "b"])]):
        assert compiled(x, names)[1] == program(x, names)[1]


def test_a_list_in_itself_is_left_to_cpython() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, bytes]:
        items: list[Any] = [1]
        items.append(items)
        return x + 1, pickle.dumps(items)

    check(program, torch.randn(3))


def test_a_container_that_is_held_twice_is_written_once() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, bytes]:
        shared = {"sizes": [1]}
        return x + 1, pickle.dumps([(1, 2), (1, 2), shared, shared, [3], [3]])

    check(program, torch.randn(3), graphs=1)


def test_a_pickle_of_plain_values_is_loaded() -> None:
    data = pickle.dumps([{"a": (1, 2.5)}, None, b"x", [True]])

    def program(x: torch.Tensor) -> Any:
        made = pickle.loads(pickle.dumps({"a": 1, "b": [1, 2.0, "c"]}))
        made["b"].append(x)
        return x + made["a"], made, pickle.loads(data)

    check(program, torch.randn(3), graphs=1)


def test_what_cannot_be_loaded_or_is_a_tensor_is_left_to_cpython() -> None:
    for value in (b"cmath\nno_such_function\n.", pickle.dumps(torch.ones(2)), pickle.dumps(Settings(1, 2), 0)):
        breaks(_loaded, torch.randn(3), value)
    breaks(_of_nothing, torch.randn(3))
    breaks(lambda x: x + len(pickle.dumps(Settings(1, 2), 2)), torch.randn(3))
    breaks(lambda x: pickle.loads(pickle.dumps(Settings(x, 2))).rate, torch.randn(3))


def _loaded(x: torch.Tensor, data: bytes) -> Any:
    try:
        return x + 1, type(pickle.loads(data))
    except Exception as error:
        return x + 2, type(error)


def _of_nothing(x: torch.Tensor) -> Any:
    try:
        pickle.loads(b"")
    except EOFError as error:
        return x + 1, str(error)


class Settings:
    def __init__(self, rate: Any, names: Any) -> None:
        self.rate, self.names = rate, names


class Counted:
    """Says itself what its state is."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.cache: Any = "full"

    def __getstate__(self) -> Any:
        return {"count": self.count}

    def __setstate__(self, state: Any) -> None:
        self.count, self.cache = state["count"], None


class Remade:
    def __init__(self, n: int) -> None:
        self.n = n
        self.more: list[Any] = []

    def append(self, item: Any) -> None:
        self.more.append(item)

    def extend(self, items: Any) -> None:
        self.more.extend(items)

    def __reduce__(self) -> Any:
        return Remade, (self.n + 1,), {"seen": 1}, iter([5, 6])


class Slotted:
    __slots__ = ("first", "second")

    def __init__(self) -> None:
        self.first = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: tuple[int, ...] = (1, 2)


class Shade(enum.Enum):
    DARK = 1
    LIGHT = 2


Pair = collections.namedtuple("Pair", "left right")


class Outer:
    class Inner(dict[Any, Any]):
        pass


def _twice(n: int) -> int:
    return n * 2


OBJECTS: dict[str, Callable[[], Any]] = {
    "attributes": lambda: Settings(0.5, ["a"]),
    "getstate": lambda: Counted(3),
    "reduce": lambda: Remade(3),
    "slots": Slotted,
    "a frozen dataclass": lambda: Point(3),
    "an enum": lambda: [Shade.DARK, Shade.DARK],
    "a named tuple": lambda: Pair(1, [2]),
    "a nested class of dicts": lambda: Outer.Inner(a=1),
    "functions and classes": lambda: [_twice, Settings],
    "sets and others": lambda: [frozenset((1,)), 2j, bytearray(b"a"), ..., torch.float64, torch.Size([2])],
    "ordered": lambda: collections.OrderedDict(a=1, b=2),
    "default": lambda: collections.defaultdict(list, a=[1]),
    "of datetime": lambda: [datetime.date(2020, 1, 2), datetime.timedelta(3), decimal.Decimal("1.5")],
    "equal texts": lambda: ["ab", "ab", (1, "ab")],
    "several objects": lambda: [Settings(1, 2), Settings(3, 4), Counted(1)],
    "one object twice": lambda: [settings := Settings([1], 2), settings, settings.rate],
}


@pytest.mark.parametrize("size", [0, 3, 70_000])
def test_a_bytearray_has_the_pickle_of_its_protocol(size: int) -> None:
    def fn(x: torch.Tensor) -> Any:
        buffer = bytearray(size)
        data = pickle.dumps([buffer, buffer], 5)
        return x + 1, data, pickle.loads(data)

    captured(fn, torch.randn(3))


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_come_back_from_a_pickle(name: str) -> None:
    make = OBJECTS[name]
    captured(lambda x: (x + 1, pickle.loads(pickle.dumps(make()))), torch.randn(3))


@pytest.mark.parametrize("name", [name for name in OBJECTS if "equal" not in name and "several" not in name])
def test_the_pickle_of_an_object_is_the_one_of_cpython(name: str) -> None:
    make = OBJECTS[name]
    check(lambda x: (x + 1, pickle.dumps(make())), torch.randn(3))


def test_an_object_that_holds_itself_comes_back_so() -> None:
    def program(x: torch.Tensor) -> Any:
        made = Settings(1, [])
        made.names.append(made)
        back = pickle.loads(pickle.dumps(made))
        return x * 2, back.names[0] is back, back is made

    captured(program, torch.randn(3))


def test_a_pickle_that_depends_on_what_is_one_object_is_made_by_cpython() -> None:
    breaks(lambda x: (x + 1, pickle.dumps([Settings(1, 2), Settings(3, 4)])), torch.randn(3))
    breaks(lambda x: x + len(pickle.dumps(["ab", "ab"])), torch.randn(3))


def test_an_object_of_the_program_is_read_anew_at_each_call() -> None:
    def program(x: torch.Tensor, settings: Settings) -> Any:
        return x * pickle.loads(pickle.dumps(settings)).rate

    compiled = tracer.optimize("eager")(program)
    for rate in (2, 3, 2):
        assert torch.equal(compiled(torch.ones(2), Settings(rate, ())), torch.full((2,), float(rate)))


def test_what_is_registered_later_is_used() -> None:
    compiled = tracer.optimize("eager")(lambda x: (x + 1, type(pickle.loads(pickle.dumps(Point(1))))))
    assert compiled(torch.ones(2))[1] is Point
    copyreg.pickle(Point, lambda point: (list, ()))  # type: ignore[arg-type,return-value]
    try:
        assert compiled(torch.ones(2))[1] is list
    finally:
        del copyreg.dispatch_table[Point]
    assert compiled(torch.ones(2))[1] is Point


def test_a_class_that_is_replaced_is_not_pickled_by_its_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module, old = sys.modules[__name__], Settings
    compiled = tracer.optimize("eager")(lambda x: (x + 1, pickle.loads(pickle.dumps(Counted(1)))))
    assert type(compiled(torch.ones(2))[1]) is Counted
    monkeypatch.setattr(module, "Counted", type("Counted", (Counted,), {"__module__": __name__}))
    assert type(compiled(torch.ones(2))[1]) is Counted
    loading = tracer.optimize("eager")(lambda x, data: (x + 1, pickle.loads(data)))
    data = pickle.dumps(Settings(1, 2))
    assert type(loading(torch.ones(2), data)[1]) is old
    monkeypatch.setattr(module, "Settings", type("Settings", (), {}))
    assert type(loading(torch.ones(2), data)[1]) is Settings


def test_a_buffer_holds_several_pickles() -> None:
    def program(x: torch.Tensor) -> Any:
        file = io.BytesIO()
        pickle.dump([1], file)
        pickle.dump(Settings(1, "a"), file)
        file.seek(0)
        return x * 2, pickle.load(file), pickle.load(file), file.tell()

    captured(program, torch.randn(3))
