"""If the program reads a few keys of a dict, its other keys may vary. Only what looks at the whole dict relies on all of them."""

from __future__ import annotations

import collections
import os
import types

import pytest
import torch

import tracer
from tests.support.comparing import deep_copied
from tests.support.outcomes import outcome
from tracer import _C, logs

X = torch.arange(3.0)


def compiles(fn, *dicts):
    """How often a function is compiled for these dicts; each call is compared with eager, and what it leaves in the dict."""
    compiled = tracer.compile(fn, backend="eager")
    for given in dicts:
        ours, theirs = deep_copied(given), deep_copied(given)
        assert plain(outcome(compiled, X, ours)) == plain(outcome(fn, X, theirs))
        assert plain(ours) == plain(theirs)
    return compiled.stats()["compiles"]


def plain(value):
    """Tensors as lists, dicts with the order and the types of their keys."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return type(value), [(type(key), key, plain(item)) for key, item in value.items()]
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else (type(value), value)


# -- other keys ----------------------------------------------------------------------------------------------------------

BY_KEY = {
    "subscript": lambda x, d: x + d["k"],
    "get": lambda x, d: x + d.get("k", 5),
    "contains": lambda x, d: x + 1 if "k" in d else x - 1,
    "keys contain": lambda x, d: x + 1 if "k" in d.keys() else x - 1,
    "twice": lambda x, d: x + d["k"] * d.get("k", 7),
    "method": lambda x, d: x + dict.get(d, "k", 5),
    "passed on": lambda x, d: (x + d["k"], d),
}


@pytest.mark.parametrize("name", BY_KEY)
def test_keys_that_were_not_asked_for_may_come_and_go(name):
    others = [{"k": 2}, {"k": 2, "new": 1}, {"a": 0, "k": 2, 7: "x"}, {b"b": 1, "k": 2}, {(1, 2): 3, "k": 2}]
    assert compiles(BY_KEY[name], *others) == 1


def test_match_compares_values_of_keys_and_the_length():
    def f(x, d):
        match d:
            case {"kind": "add", "by": by}:
                return x + by
            case {"kind": kind, **rest}:
                return x, kind, rest

    compiles(f, {"kind": "add", "by": 2}, {"by": 2, "kind": "add", "more": 1}, {"kind": "add"}, {"z": 0, "kind": "no"})


def matches(x, d):
    match d:
        case {"kind": "add", "by": by}:
            return x + by
        case {"kind": kind}:
            return x, kind
    return x - 1


def test_match_relies_on_its_keys_alone():
    given = [{"kind": "add", "by": 2}, {"by": 2, "kind": "add", "more": 1}, {1: 2, 3: 4, "kind": "add", "by": 2}]
    assert compiles(matches, *given) == 1
    others = [{"kind": "no", "b": 2}, {"kind": "no", "c": 2, "d": 3}, {"a": 1, "b": 2}, {"b": 1, "c": 2, "d": 3}]
    assert compiles(matches, *others) == 2


def test_match_compares_the_length():
    assert compiles(matches, {"kind": "add", "by": 2}, {"kind": "add"}, {"kind": "add"}, {}, {"a": 1}, {}) == 4


def test_whether_there_are_any_keys_is_all_that_truth_asks():
    f = lambda x, d: x * 2 if d else x + 1
    assert compiles(f, {"a": 1}, {"b": 1}, {"b": 1, "c": 2}, {}, {1: 2}, {}) == 2
    f = lambda x, d: (x, not d, bool(d), all([d]))
    assert compiles(f, {"a": 1}, {"b": 1}, {}, {"b": 1, "c": 2}, {}) == 2


def test_a_key_that_was_found_or_stored_answers_whether_there_are_any():
    f = lambda x, d: x + d.get("k", 1) if d.get("k") and d else x
    assert compiles(f, {"k": 2}, {"a": 1, "k": 2}, {}, {"a": 1}) == 2

    def g(x, d):
        d["new"] = 1
        return x * 2 if d else x

    assert compiles(g, {}, {"a": 1}, {"b": 1}) == 1

    def h(x, d):
        if d:
            d.pop("k", None)
        return x * 2 if d else x

    assert compiles(h, {"k": 1}, {"k": 1, "a": 2}, {"a": 2}, {}, {"a": 2}) == 4

    def two(x, d):
        d["new"] = 1
        match d:
            case {"new": n, "k": k}:
                return x * n * k
        return x

    assert compiles(two, {"k": 2}, {"k": 2, "a": 1}, {}, {"new": 3, "k": 2}, {"new": 3}) == 4


def test_a_key_that_was_absent_appears():
    f = lambda x, d: x + d.get("k", 5)
    assert compiles(f, {"a": 1}, {"b": 1}, {}, {"a": 1, "k": 2}, {"a": 1}) == 2


def test_a_key_that_was_read_is_deleted():
    f = lambda x, d: x + d["k"]
    assert compiles(f, {"k": 1, "a": 2}, {"a": 2}, {"k": 1}) == 2


def test_the_value_of_a_key_that_was_read_is_guarded():
    f = lambda x, d: (x + 1, d["k"])
    assert compiles(f, {"k": "a"}, {"k": "b"}, {"k": "a", "l": "b"}) == 2


def test_nested_dicts_are_read_by_key():
    f = lambda x, d: x + d["a"]["b"].get("c", 1)
    assert compiles(f, {"a": {"b": {"c": 3}}}, {"z": 0, "a": {"y": 0, "b": {"x": 0, "c": 3}}}) == 1


def test_keywords_that_are_not_asked_for_differ():
    def f(x, **options):
        return x * options.get("scale", 2) if "flip" not in options else -x

    compiled = tracer.compile(f, backend="eager")
    for options in ({"scale": 3}, {"scale": 3, "a": 1}, {"b": 2, "scale": 3}):
        assert torch.equal(compiled(X, **options), f(X, **options))
    assert compiled.stats()["compiles"] == 1
    assert torch.equal(compiled(X, scale=3, flip=True), -X) and compiled.stats()["compiles"] == 2


def test_variables_of_the_environment_that_are_not_asked_for(monkeypatch):
    def f(x):
        return x + 1 if os.environ.get("ASKED") == "yes" else x - len(os.getenv("OTHER", ""))

    compiled = tracer.compile(f, backend="eager")
    monkeypatch.delenv("ASKED", raising=False)
    assert torch.equal(compiled(X), X)
    monkeypatch.setenv("UNASKED", "1")
    assert torch.equal(compiled(X), X) and compiled.stats()["compiles"] == 1
    monkeypatch.setenv("ASKED", "yes")
    assert torch.equal(compiled(X), X + 1)
    monkeypatch.delenv("ASKED")
    monkeypatch.setenv("OTHER", "abc")
    assert torch.equal(compiled(X), X - 3) and compiled.stats()["compiles"] == 3


# -- the whole ------------------------------------------------------------------------------------------------------------


def unpacked(x, **more):
    return x, list(more.items())


WHOLE = {
    "iteration": lambda x, d: [x * d["k"], [key for key in d]],
    "backwards": lambda x, d: [x * d["k"], list(reversed(d))],
    "length": lambda x, d: x * d["k"] + len(d),
    "items": lambda x, d: [x * d["k"], list(d.items())],
    "equality": lambda x, d: (x * d["k"], d == {"k": 2, "a": 1}),
    "copy": lambda x, d: (x * d["k"], d.copy()),
    "dict": lambda x, d: (x * d["k"], dict(d)),
    "merged": lambda x, d: (x * d["k"], {**d, "z": 0}),
    "or": lambda x, d: (x * d["k"], d | {"z": 0}),
    "unpacked": lambda x, d: unpacked(x * d["k"], **d),
    "text": lambda x, d: (x * d["k"], repr(d)),
    "proxy": lambda x, d: (x * d["k"], list(types.MappingProxyType(d))),
    "pytree": lambda x, d: (x * d["k"], torch.utils._pytree.tree_leaves(d)),
    "before": lambda x, d: (len(d), x * d["k"]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_looks_at_the_whole_relies_on_all_keys_and_their_order(name):
    given = [{"k": 2, "a": 1}, {"a": 1, "k": 2}, {"k": 2, "a": 1, "b": 3}, {"k": 2}, {"k": 2, "a": 1}]
    assert compiles(WHOLE[name], *given) == 4


STORED = {
    "a new key": lambda x, d: d.__setitem__("new", x * d["k"]),
    "two new keys": lambda x, d: (d.__setitem__("z", x), d.__setitem__("new", 2), d.__setitem__("z", 3), d["z"], d["new"])[3:],
    "a key that was read": lambda x, d: (d.__setitem__("k", x * d["k"]), d["k"])[1],
    "a key that was not read": lambda x, d: d.__setitem__("k", x),
    "setdefault": lambda x, d: (x * d.setdefault("k", 9), d.setdefault("new", 8), "new" in d),
    "updated": lambda x, d: (x * d["k"], d.update(k=3, new=4), d.update({"new": 5})),
    "stored back": lambda x, d: (x, d.__setitem__("k", 3), d.__setitem__("k", 2)),
}


@pytest.mark.parametrize("name", STORED)
def test_what_is_stored_by_key_leaves_the_other_keys_unasked(name):
    given = [{"k": 2}, {"k": 2, "a": 1}, {"a": 1, "k": 2}, {"b": 0, "a": 1, "k": 2, "c": 3}]
    assert compiles(STORED[name], *given) == 1


def test_a_dict_that_was_stored_in_is_looked_at_as_a_whole():
    def f(x, d):
        d["new"] = x + d["k"]
        d["k"] = 7
        before = list(d.items())
        d["newer"] = 1
        del d["k"]
        d["k"] = d.pop("new")
        return before, len(d), d.copy()

    given = [{"k": 2, "a": 1}, {"a": 1, "k": 2}, {"k": 2, "a": 1, "b": 3}, {"k": 2, "a": 1}]
    assert compiles(f, *given) == 3


def test_a_dict_that_was_stored_in_is_kept_over_a_break():
    def f(x, d):
        d["new"] = x + d["k"]
        print(end="")
        d["k"] = d["new"] * 2
        return d.get("other", 1)

    assert compiles(f, {"k": 2}, {"a": 1, "k": 2}) == 2


CHANGED = {
    "a new key": lambda x, d: d.__setitem__("new", x * d["k"]),
    "a key that was read": lambda x, d: d.__setitem__("k", x * d["k"]),
    "a key that was not read": lambda x, d: d.__setitem__("a", x),
    "read after": lambda x, d: (d.__setitem__("k", x + 1), d["k"] * 2, d.get("a"), "new" in d)[1:],
    "deleted": lambda x, d: (x * d["k"], d.__delitem__("k"), "k" in d)[::2],
    "popped": lambda x, d: (x * d["k"], d.pop("k"), d.pop("none", 3)),
    "moved": lambda x, d: d.__setitem__("k", d.pop("k") * x),
    "setdefault": lambda x, d: (x * d.setdefault("k", 9), d.setdefault("new", 8)),
    "updated": lambda x, d: (x * d["k"], d.update(k=3, new=4)),
    "merged into": lambda x, d: (x * d["k"], d.__ior__({"new": 1}))[0],
    "emptied": lambda x, d: (x * d["k"], d.clear())[0],
    "iterated then": lambda x, d: (x * d["k"], d.__setitem__("new", 1), list(d))[::2],
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_dict_that_the_frame_changes_keeps_its_other_keys_and_their_order(name):
    given = [{"k": 2}, {"k": 2, "a": 1}, {"a": 1, "k": 2}, {"b": 0, "a": 1, "k": 2, "c": 3}, {"new": 7, "k": 2, "a": 1}]
    compiles(CHANGED[name], *given, *given)


def test_a_dict_under_two_names_is_one():
    def f(x, d, e):
        before = e.get("k", 1)
        d["k"] = 5
        return x + before * e.get("k", 1)

    compiled = tracer.compile(f, backend="eager")
    for make in (lambda d: (d, d), lambda d: (d, dict(d)), lambda d: (d, d)):
        ours, theirs = make({"a": 1, "k": 3}), make({"a": 1, "k": 3})
        assert torch.equal(compiled(X, *ours), f(X, *theirs)) and ours == theirs


def test_a_proxy_of_a_dict_that_is_read_by_key_shows_its_changes():
    def f(x, pair):
        given, proxy = pair
        first = given["k"]
        seen = proxy["k"]
        given["k"] = 7
        return x * first + seen, proxy["k"], list(proxy)

    compiled = tracer.compile(f, backend="eager")
    for keys in ("ka", "ak", "kab"):
        ours, theirs = ({key: 2 for key in keys} for _ in "12")
        seen, expected = (g(X, (d, types.MappingProxyType(d))) for g, d in ((compiled, ours), (f, theirs)))
        assert plain(seen) == plain(expected) and plain(ours) == plain(theirs)


# -- which key it is ------------------------------------------------------------------------------------------------------


def test_keys_that_are_equal_and_differ():
    f = lambda x, d: (x + d[1], d.get(True), 1.0 in d)
    assert compiles(f, {1: 4}, {True: 4}, {1.0: 4, "a": 2}, {2: 4, 1: 4}, {2: 4}) == 2
    whole = lambda x, d: (x + d[True], list(d))
    assert compiles(whole, {1: 4}, {True: 4}, {1.0: 4}) == 3
    stored = lambda x, d: (x + d[True], d.__setitem__(1.0, 3))
    compiles(stored, {1: 4}, {True: 4}, {1.0: 4, 2: 2})


def test_a_key_that_is_not_a_number_is_found_by_identity():
    nan = float("nan")
    f = lambda x, d: (x + 1, d.get(nan, 0), d["k"])
    compiles(f, {"k": 1}, {nan: 2, "k": 1}, {float("nan"): 2, "k": 1})


class Named:
    """Equal to the text that it has, as wrappers of names are."""

    asked = 0

    def __init__(self, text):
        self.text = text

    def __hash__(self):
        return hash(self.text)

    def __eq__(self, other):
        Named.asked += 1
        return self.text == getattr(other, "text", other)


def test_a_guard_asks_no_key_of_the_program():
    f = lambda x, d: x + d.get("k", 1)
    compiled = tracer.compile(f, backend="eager")
    for given in ({"k": 2}, {"a": 1}):
        assert torch.equal(compiled(X, given), f(X, given))
    stranger = {"a": 3, Named("k"): 2}
    Named.asked = 0
    f(X, stranger)
    expected, Named.asked = Named.asked, 0
    assert torch.equal(compiled(X, stranger), X + 2)
    assert Named.asked == expected


def test_a_key_is_looked_for_without_running_code_of_the_program():
    dicts = [{"a": 1, 3: 2}, {3: 1, "a": 2, None: 0}, {b"a": 1, "a": 0, 3.0: 1}, {True: 1, (1,): 2}]
    for given in dicts:
        for key in ("a", b"a", 3, 3.0, 1, True, None, "zz", 0):
            assert _C.has_plain_key(given, key) is (key in given), (given, key)
    Named.asked = 0
    with pytest.raises(ValueError, match="code of the program"):
        _C.has_plain_key({1: 1, Named("a"): 2}, "a")
    assert _C.has_plain_key({1: 1, Named("a"): 2}, "b") is False and Named.asked == 0
    with pytest.raises(ValueError):
        _C.has_plain_key({}, (1,))
    with pytest.raises(TypeError):
        _C.has_plain_key([], "a")


@pytest.mark.parametrize("make", [collections.OrderedDict, lambda d: collections.defaultdict(int, d)])
def test_kinds_of_dicts_are_guarded_as_a_whole(make):
    f = lambda x, d: x + d["k"]
    assert compiles(f, make({"k": 2}), make({"k": 2, "a": 1}), make({"a": 1, "k": 2})) == 3


def test_the_reason_of_a_recompile_names_the_key():
    compiled = tracer.compile(lambda x, d: x + d.get("k", 1), backend="eager")
    with logs.capture("recompiles") as told:
        compiled(X, {"a": 1})
        compiled(X, {"k": 1})
    assert "'k' not in L['d']" in told[0].text
