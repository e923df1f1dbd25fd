"""save and load: what is found again, what is refused and why, and that a difference is a miss and never a wrong result."""

from __future__ import annotations

import functools
import importlib
import json
import logging
import re
import sys
import textwrap
import types

import pytest
import torch

import tracer
from tests.support.regions import dynamic, entries
from tracer import assume_constant_result, config, metrics
from tracer.exc import UserError

OFFSET = 2


def helper(x, by=1):
    return x + by


def branching(x):
    x = helper(x)
    return x * OFFSET if x.shape[0] <= 8 else x.sum(0)


def restarted(made, path, fn, expect=None):
    """Another compiled object with the entries of `made`."""
    result = tracer.save(made, path)
    assert not result.refused and result.saved == len(entries(made)), result
    other = dynamic(fn)
    loaded = tracer.load(other, path)
    assert loaded and loaded.loaded == result.saved, loaded
    return other


def same(made, fn, *calls, traced=0):
    """Serves the calls as the program does, with so many traces."""
    before = made.stats()["compiles"] if hasattr(made, "stats") else tracer.stats(made)["compiles"]
    for args in calls:
        got, expected = made(*args), fn(*args)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert tracer.stats(made)["compiles"] - before == traced


def test_entries_serve_without_a_trace(tmp_path):
    made = dynamic(branching)
    calls = [(torch.randn(n, 4),) for n in (3, 9, 8, 30)]
    for args in calls:
        made(*args)
    other = restarted(made, tmp_path / "entries", branching)
    same(other, branching, *calls)
    texts = [[entry.guarded_code.guards_text for entry in entries(each)] for each in (made, other)]
    assert texts[0] == texts[1] and len(texts[0]) == 2
    same(other, branching, (torch.randn(3, 4, dtype=torch.float64),), traced=1)


def test_a_module_serves_with_the_parameters_that_it_has_now(tmp_path):
    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    made = dynamic(first)
    made(torch.randn(3, 4))
    other = restarted(made, tmp_path / "entries", second)
    same(other, second, (torch.randn(5, 4),))
    wider = torch.nn.Linear(4, 6)
    third = dynamic(wider)
    assert tracer.load(third, tmp_path / "entries").loaded == 1
    same(third, wider, (torch.randn(5, 4),), traced=1)  # the guards on the weights see it


def test_the_torch_state_of_the_trace_is_guarded(tmp_path):
    made = dynamic(branching)
    with torch.no_grad():
        made(torch.randn(3, 4))
    other = restarted(made, tmp_path / "entries", branching)
    with torch.no_grad():
        same(other, branching, (torch.randn(3, 4),))
    same(other, branching, (torch.randn(3, 4),), traced=1)


def test_blocks_that_change_the_torch_state_leave_it_as_it_was(tmp_path):
    def f(x, y):
        with torch.no_grad():
            z = x + y
        return z * x

    made = dynamic(f)
    x = torch.randn(3, requires_grad=True)
    made(x, x)
    other = restarted(made, tmp_path / "entries", f)
    same(other, f, (x, x))
    with pytest.raises(RuntimeError, match="must match"):
        other(x, torch.randn(4))
    assert torch.is_grad_enabled()


def test_mutations_are_replayed_and_objects_made(tmp_path):
    def f(items, x):
        items.append(x + 1)
        return {"n": len(items), "parts": [x * 2, (x, "text")]}

    made = dynamic(f)
    made([], torch.randn(3))
    other = restarted(made, tmp_path / "entries", f)
    items, x = [], torch.randn(5)
    got = other(items, x)
    assert tracer.stats(other)["compiles"] == 0 and torch.equal(items[0], x + 1) and got["n"] == 1
    assert torch.equal(got["parts"][0], x * 2) and got["parts"][1][0] is x


def test_closures_and_functions_without_a_name_are_found_by_their_path(tmp_path):
    def outer(scale):
        inner = lambda x: x * scale

        def f(x):
            return inner(x) + 1

        return f

    first, second, third = outer(2), outer(2), outer(5)
    made = dynamic(first)
    made(torch.randn(3))
    same(restarted(made, tmp_path / "entries", second), second, (torch.randn(4),))
    same(restarted(made, tmp_path / "entries", third), third, (torch.randn(4),), traced=1)  # another number in the cell


def test_classes_that_are_defined_in_a_function_are_found_by_their_path(tmp_path):
    def build(sign):
        class Inner(torch.nn.Module):
            def forward(self, x):
                return x.relu() * self.sign

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()
                self.inner.sign = sign

            def forward(self, x):
                return self.inner(x) + 1

        return Outer()

    first, second, third = build(1), build(1), build(-1)
    made = dynamic(first)
    made(torch.randn(3))
    same(restarted(made, tmp_path / "entries", second), second, (torch.randn(4),))
    same(restarted(made, tmp_path / "entries", third), third, (torch.randn(4),), traced=1)


def test_an_error_of_the_graph_is_raised_at_the_users_line(tmp_path):
    def f(x, y):
        return x @ y

    made = dynamic(f)
    made(torch.randn(3, 4), torch.randn(4, 5))
    other = restarted(made, tmp_path / "entries", f)
    with pytest.raises(RuntimeError) as caught:
        other(torch.randn(3, 4), torch.randn(7, 5))
    assert caught.traceback[-1].name == "f"


# -- what differs -------------------------------------------------------------------------------------------------

PROGRAM = """
import torch

LIMIT = 8

class Scale:
    factor = 2
    @property
    def doubled(self):
        return self.factor * 2

SCALE = Scale()

def inlined(x, by=1):
    return x + by

def program(x):
    return inlined(x) * SCALE.doubled if x.shape[0] <= LIMIT else x
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes the program's file anew, and imports it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(old="", new=""):
        text = textwrap.dedent(PROGRAM)
        assert old in text
        (tmp_path / "saved_program.py").write_text(text.replace(old, new) if old else text)
        sys.modules.pop("saved_program", None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            return importlib.import_module("saved_program")
        finally:
            sys.dont_write_bytecode = before

    yield write
    sys.modules.pop("saved_program", None)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("return x + by", "return x - by", "inlined .* has other code"),
        ("by=1", "by=4", "inlined .* has other code"),
        ("return inlined(x) *", "return 2 * inlined(x) *", "program .* has other code"),
        ("self.factor * 2", "self.factor * 3", "doubled"),
        ("factor = 2", "factor = 7", r"Scale\.factor is not what it was"),
        ("class Scale:", "class Base: pass\nclass Scale(Base):", "has other code|has other bases"),
        ("def inlined", "def renamed(x): return x\ndef inlined", "has other code"),
    ],
)
def test_a_source_that_differs_is_a_miss_with_the_reason(program, tmp_path, old, new, reason, caplog):
    made = dynamic(program().program)
    made(torch.randn(3))
    assert tracer.save(made, tmp_path / "entries").saved == 1
    now = program(old, new).program
    other = dynamic(now)
    with caplog.at_level(logging.WARNING, "tracer"):
        result = tracer.load(other, tmp_path / "entries")
    assert not result and result.loaded == 0
    (told,) = result.refused
    assert re.search(reason, told), told
    assert told in caplog.text
    same(other, now, (torch.randn(3),), traced=1)


def test_a_value_that_differs_is_seen_by_the_guards(program, tmp_path):
    made = dynamic(program().program)
    made(torch.randn(5))
    assert tracer.save(made, tmp_path / "entries").saved == 1
    now = program("LIMIT = 8", "LIMIT = 4").program
    other = dynamic(now)
    assert tracer.load(other, tmp_path / "entries").loaded == 1
    same(other, now, (torch.randn(5),), traced=1)


def test_settings_and_versions_that_differ_are_told(tmp_path):
    made = dynamic(branching)
    made(torch.randn(3, 4))
    tracer.save(made, tmp_path / "entries")
    with config.patch(specialize_float=True):
        result = tracer.load(dynamic(branching), tmp_path / "entries")
    assert result.loaded == 0 and "config.specialize_float was False where it was saved, and is True here" in str(result)
    with config.patch(recompile_limit=3):
        assert tracer.load(dynamic(branching), tmp_path / "entries").loaded == 1
    path = tmp_path / "older"
    path.write_bytes((tmp_path / "entries").read_bytes().replace(torch.__version__.encode(), b"1.0.0", 1))
    assert "torch was '1.0.0 " in str(tracer.load(dynamic(branching), path))
    path.write_bytes((tmp_path / "entries").read_bytes().replace(b'"format": 6', b'"format": 9', 1))
    assert "format 9" in str(tracer.load(dynamic(branching), path))
    other = tracer.compile(branching, backend="aot_eager")
    assert "backend 'eager'" in str(tracer.load(other, tmp_path / "entries"))
    assert "has other code" in str(tracer.load(dynamic(helper), tmp_path / "entries"))


def test_no_such_file_is_an_error(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UserError, match="cannot be read"):
            tracer.load(dynamic(branching), path)
    with pytest.raises(UserError, match="was not compiled"):
        tracer.save(branching, tmp_path / "entries")


# -- what is refused ----------------------------------------------------------------------------------------------


def refusal(fn, path, *args, **settings):
    made = tracer.compile(fn, **settings)
    made(*args)
    result = tracer.save(made, path)
    assert result.saved == 0 and len(result.refused) >= 1
    return result.refused[0]


def test_what_another_process_does_not_have_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "entries"

    key = type("Key", (), {"__hash__": lambda self: 1})()

    def by_object(table, x):
        return table[key] + x if key in table else x

    assert refusal(by_object, path, {key: 1}, torch.randn(3))
    torch.set_default_device("cpu")
    try:
        assert "inside a mode of torch" in refusal(branching, path, torch.randn(3))
    finally:
        torch.set_default_device(None)


@assume_constant_result
def looked_up():
    return 3


@functools.singledispatch
def scaled(kind, x):
    return x


def by_constant(x):
    return x * looked_up()


def by_hash(x):
    return x * (hash("text") % 7)


def by_order(x):
    return {name: x + len(name) for name in {"a", "bc", "def", str(x.ndim)}}


def by_dispatch(x):
    return scaled(1, x) + 1


def test_what_is_another_thing_in_another_process_is_refused(tmp_path):
    reasons = {by_constant: "looked_up was assumed to be constant", by_hash: "hashes", by_order: "the order of a set",
               by_dispatch: "singledispatch"}  # fmt: skip
    for program, reason in reasons.items():
        assert reason in refusal(program, tmp_path / "entries", torch.randn(3))


def test_what_abc_said_is_asked_again(tmp_path):
    import collections.abc

    class Thing:
        pass

    def f(x, thing):
        return x + 1 if isinstance(thing, collections.abc.Sized) else x - 1

    globals()["Thing"] = Thing
    Thing.__qualname__ = "Thing"
    try:
        made = dynamic(f)
        made(torch.randn(3), Thing())
        path = tmp_path / "entries"
        assert tracer.save(made, path).saved == 1
        assert tracer.load(dynamic(f), path).loaded == 1
        collections.abc.Sized.register(Thing)
        other = dynamic(f)
        assert "Thing is a subclass of Sized here" in str(tracer.load(other, path))
        same(other, f, (torch.randn(3), Thing()), traced=1)
    finally:
        del globals()["Thing"]


def test_a_file_is_replaced_whole(tmp_path, monkeypatch):
    made = dynamic(branching)
    made(torch.randn(3, 4))
    path = tmp_path / "entries"
    tracer.save(made, path)
    before = path.read_bytes()
    monkeypatch.setattr("tracer.saving.files.os.replace", lambda a, b: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(UserError, match="entries cannot be written: disk"):
        tracer.save(made, path)
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["entries"]


def test_the_head_of_a_file_says_what_it_is_for(tmp_path):
    made = dynamic(branching)
    made(torch.randn(3, 4))
    tracer.save(made, tmp_path / "entries")
    magic, header = (tmp_path / "entries").read_bytes().split(b"\n")[:2]
    told = json.loads(header)
    assert magic == b"shapetracer entries" and told["backend"] == "eager" and "branching" in told["function"]
    assert told["versions"]["torch"].startswith(torch.__version__)


def test_what_is_loaded_is_counted_and_told(tmp_path):
    made = dynamic(branching)
    made(torch.randn(3, 4))
    tracer.save(made, tmp_path / "entries")
    events = []
    remove = tracer.add_callback(events.append, "load")
    before = metrics.counters["saving"]["loaded"]
    try:
        tracer.load(dynamic(branching, name="again"), tmp_path / "entries")
    finally:
        remove()
    assert [(event.kind, event.region) for event in events] == [("load", "again")]
    assert metrics.counters["saving"]["loaded"] == before + 1


def test_dims_that_were_marked_since_are_looked_at(tmp_path):
    made = dynamic(branching)
    x = torch.randn(3, 4)
    tracer.mark_dynamic(x, 0)
    made(x)
    other = restarted(made, tmp_path / "entries", branching)
    y = torch.randn(3, 4)
    tracer.mark_static(y, 0)
    same(other, branching, (x,))
    same(other, branching, (y,), traced=1)


def test_a_function_that_is_allowed_in_the_graph_is_refused(tmp_path):
    @tracer.allow_in_graph
    def twice(x):
        return x * 2, 1

    made = dynamic(lambda x: twice(x)[0] * len(twice(x)))
    made(torch.ones(3))
    result = tracer.save(made, tmp_path / "entries")
    assert not result.saved and "is allowed in the graph" in result.refused[0]


def test_a_namedtuple_with_other_defaults_is_a_difference(tmp_path, monkeypatch):
    module = types.ModuleType("with_a_namedtuple")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    program = (
        "import collections\nPair = collections.namedtuple('Pair', 'a b', defaults=({},))\ndef f(x):\n    return x * Pair(1).b\n"
    )
    exec(program.format(2), vars(module))
    made = dynamic(module.f)
    made(torch.ones(3))
    assert tracer.save(made, tmp_path / "entries").saved == 1
    exec(program.format(3), vars(module))
    other = dynamic(module.f)
    assert "with_a_namedtuple.Pair" in tracer.load(other, tmp_path / "entries").refused[0]
    same(other, module.f, (torch.ones(3),), traced=1)


def pooled(x, mask=None):
    return x.sum(1) if mask is None else (x * mask).sum(1)


def test_coverage_of_what_was_loaded_knows_the_variants_and_their_modes(tmp_path):
    spec = "x: B, 5; mask: B, 5; B in 2..9; modes = no_grad, enable_grad"
    x = torch.ones(3, 5)
    made = tracer.compile(pooled)
    variants = [tracer.Variant((x,), spec=spec, name="plain"), tracer.Variant((x, x.clone()), spec=spec, name="masked")]
    assert tracer.precompile(made, variants).certified and tracer.coverage(made).certified
    tracer.save(made, tmp_path / "entries")
    again = tracer.compile(pooled)
    assert tracer.load(again, tmp_path / "entries")
    found = tracer.coverage(again)
    assert found.certified, found
    assert [each.name for each in found.variants] == ["plain", "masked"] and again.stats()["certified"]
    assert {each.modes for each in found.variants} == {("no_grad", "enable_grad")} and again.stats()["compiles"] == 0
