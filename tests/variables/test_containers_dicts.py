"""Dicts, their kin and their views: order, methods, errors, changes of inputs."""

from __future__ import annotations

import collections
import types

import pytest
import torch

from tests.support import breaks, captured, captured_made, check, check_made

X = torch.arange(3.0)


def test_dict_methods_on_a_new_dict():
    def f(x):
        d = {"a": 1, 2: x, (1, "t"): 3}
        d["b"] = 4
        got = d.get("a"), d.get("zz"), d.get("zz", 5), d.setdefault("c", 6), d.setdefault("a", 7)
        popped = d.pop("b"), d.pop("nope", None), d.popitem()
        d.update({"u": 1}, v=2)
        d.update([("w", 3)])
        del d["u"]
        return x + 1, d, got, popped, len(d), list(d), d.copy(), "a" in d, "u" not in d, dict(d, extra=1), {**d, "a": 0}

    captured(f, X)


def test_changes_of_an_input_dict():
    def f(x, d):
        old = d["a"]
        d["a"] = x + 1
        d["new"] = old
        removed = d.pop("b")
        d["b"] = 9
        return d, old, removed

    captured(f, X, {"a": [1], "b": 2, "c": 3})


def test_value_taken_out_before_the_input_is_cleared():
    def f(x, d):
        a, copy = d["a"], d.copy()
        d.clear()
        d["z"] = a
        return x + 1, a, copy, d

    captured(f, X, {"a": [1], "b": [2]})


def test_key_order_after_deletion_and_insertion():
    def f(x, d):
        d["b"] = d.pop("b")
        d["0"] = 0
        del d["c"]
        return x + 1

    captured(f, X, {"a": 1, "b": 2, "c": 3, "d": 4})


def test_a_key_that_is_replaced_by_an_equal_one_of_another_type():
    def f(x, d):
        d[True] = d.pop(1)
        d[0.0] = 5
        return x + 1, [type(key) for key in d], d.setdefault(2.0, d.pop(2, 7))

    captured(f, X, {0: 0, 1: 1})
    captured(f, X, {1: 1, 2: 2, 0: 0})


class Noting:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __eq__(self, other):
        self.log.append(self.name)
        return True


def test_dicts_are_compared_key_by_key():
    def f(x):
        log = []
        a, b = Noting("a", log), Noting("b", log)
        one = {1: a, 2: 0, 3: a} == {1: b, 4: 0, 3: b}
        two = {1: a, 2: a} == {2: b, 1: b}
        return x + 1, one, two, {1: a} != {1: b, 2: 0}, log

    captured(f, X)


def test_missing_keys():
    def f(x, d):
        errors = []
        for call in (
            lambda: d["q"], lambda: d.pop("q"), lambda: {}.popitem(), lambda: d.__delitem__((1, 2)), lambda: d[x]
        ):  # fmt: skip
            try:
                call()
            except KeyError as error:
                errors.append((type(error), error.args[:1] if len(errors) < 4 else None, str(error)[:3]))
        return x + 1, errors

    check(f, X, {"a": 1})


def test_unhashable_keys():
    def f(x):
        try:
            {[1]: 2}
        except TypeError as error:
            return x + 1, str(error)

    captured(f, X)


def test_equal_keys_of_different_types():
    captured(lambda x: (x + 1, {1: "int", 1.0: "float", True: "bool"}, {True: 1}[1], {"a": 1, "a": 2}), X)  # noqa: F601


def test_views():
    def f(x, d):
        keys, values, items = d.keys(), d.values(), d.items()
        d["late"] = x
        return (
            x + 1, list(keys), list(items)[0], len(values), "late" in keys, ("a", 1) in items, 1 in values,
            keys & {"a"}, keys - {"a"}, list(reversed(keys)), keys == {"a", "b", "late"}, keys >= {"a"}, keys.isdisjoint(["q"]),
            sorted(keys | {"q"}), sorted(keys ^ {"a", "q"}), {"a", "q"} - keys, {"a", "q"} & keys,
        )  # fmt: skip

    captured(f, X, {"a": 1, "b": 2})


def test_views_live_on():
    def f(x, d):
        keys, items = d.keys(), d.items()
        d["n"] = x + 1
        return keys, items, d

    captured(f, X, {"a": 1})


def test_iteration_order_and_reversal():
    def f(x, d):
        seen = []
        for key in d:
            seen.append(key)
        for key, value in d.items():
            seen.append((key, value))
        return x + 1, seen, list(reversed(d)), list(reversed(d.items())), [*d.values()], max(d), sorted(d)

    captured(f, X, {"b": 1, "a": 2, "c": 3})


def test_change_of_size_during_iteration():
    def f(x, d):
        try:
            for key in d:
                d[key + "!"] = 1
        except RuntimeError as error:
            return x + 1, str(error), d

    captured(f, X, {"a": 1, "b": 2})


def test_change_of_keys_during_iteration():
    def f(x, d):
        seen = []
        for key in d:
            seen.append(key)
            if key == "a":
                del d["a"]
                d["z"] = 1
        return x + 1, seen, d

    check(f, X, {"a": 1, "b": 2})


def test_change_of_values_during_iteration():
    def f(x, d):
        for key, value in d.items():
            d[key] = value + x
        return d

    captured(f, X, {"a": 1, "b": 2})


def test_iterator_alive_over_a_graph_break():
    def f(x, d):
        for key, value in d.items():
            x = x * value
            if x.sum() > 100:
                break
            d[key] = x
        return x, d

    assert check(f, X, {"a": 1, "b": 2, "c": 3, "d": 4}).breaks


@pytest.mark.parametrize("kind", ["keys", "values", "items"])
@pytest.mark.parametrize("backwards", [False, True])
def test_half_consumed_iterator_is_returned(kind, backwards):
    def f(x):
        view = getattr({"a": 1, "b": 2, "c": 3}, kind)()
        iterator = reversed(view) if backwards else iter(view)
        first = next(iterator)
        return x + 1, first, iterator

    captured(f, X)


def test_exhausted_iterator_stays_exhausted():
    def f(x, d):
        iterator = iter(d)
        items = list(iterator)
        d["more"] = 1
        return x + 1, items, list(iterator), iterator

    captured(f, X, {"a": 1})


def test_merging():
    def f(x, d):
        e = d | {"b": x}
        f = {**d, **e}
        alias = d
        d |= {"c": 3}
        d |= [("p", 1)]
        return x + 1, e, f, alias is d, d

    captured(f, X, {"a": 1})


def test_comparison():
    captured(lambda x, d: (x + 1, d == {"b": 2, "a": 1}, d != {}, d == {"a": 1}, d == [1], {"a": [1]} == {"a": [1]}), X,
             {"a": 1, "b": 2})  # fmt: skip


def test_a_dict_that_holds_itself():
    def f(x):
        d = {"x": x + 1}
        d["self"] = d
        return d

    captured(f, X)


def test_ordered_dict():
    def f(x, d):
        d.move_to_end("a")
        d.move_to_end("c", last=False)
        e = collections.OrderedDict([("p", 1), ("q", x)])
        e["r"] = 2
        first = e.popitem(last=False)
        same = e == collections.OrderedDict(r=2, q=x), d == {"a": 1, "b": 2, "c": 3}
        return x + 1, d, e, first, same, list(reversed(e))

    def g(x, d):
        return x + 1, d == collections.OrderedDict(b=2, a=1), d == {"b": 2, "a": 1}, str(d), type(d), d.copy()

    captured(f, X, collections.OrderedDict(a=1, b=2, c=3))
    captured(g, X, collections.OrderedDict(a=1, b=2))


def test_order_of_an_input_ordered_dict_that_was_moved():
    def make():
        d = collections.OrderedDict(a=1, b=2, c=3)
        d.move_to_end("a")
        return (X.clone(), d), {}

    def f(x, d):
        return x + 1, list(d), list(d.values())

    check_made(f, make)


def test_default_dict():
    def f(x, d):
        e = collections.defaultdict(list)
        e["a"].append(x)
        e["a"].append(1)
        e["b"]
        d["n"] += 1
        d["m"]
        copy = d.copy()
        missing = e.get("zz")
        return x + 1, e, d, missing, e.default_factory, copy, "zz" in e, {**e}

    captured(f, X, collections.defaultdict(int, n=3))


def test_counter():
    def f(x):
        c = collections.Counter("abracadabra")
        c.update(["z", "a"])
        c["q"] += 2
        return x + 1, c, c.most_common(2), c["nothing"], c.total(), c + c, c - collections.Counter("aaaa"), dict(c)

    check(f, X)


def test_chain_map():
    def f(x, d):
        chain = collections.ChainMap({"a": x}, d)
        chain["new"] = 1
        child = chain.new_child({"b": 5})
        return x + 1, chain["b"], child["b"], len(child), sorted(child), "c" in chain, chain.maps, child.parents["b"]

    check(f, X, {"b": 2, "a": 3})


def test_fromkeys():
    def f(x):
        shared = dict.fromkeys(["a", "b"], [])
        shared["a"].append(1)
        return x + 1, shared, {}.fromkeys("xy"), collections.OrderedDict.fromkeys("ab", 0)

    captured(f, X)


def test_mapping_proxy():
    def f(x, proxy):
        return x + 1, proxy["a"], proxy.get("q"), len(proxy), list(proxy), "a" in proxy, proxy.copy(), dict(proxy)

    check_made(f, lambda: ((X.clone(), types.MappingProxyType({"a": 1, "b": 2})), {}))


def test_dict_subclass_with_missing():
    class Squares(dict):
        def __missing__(self, key):
            self[key] = key * key
            return self[key]

    def f(x):
        s = Squares()
        return x + 1, s[3], s, s.get(4), 3 in s, len(s)

    captured(f, X)


def test_text():
    captured(lambda x, d: (x + 1, str(d), f"{d.keys()}", "%(a)s-%(b)d" % d, "{a}{b}".format(**d), repr({})), X,
             {"a": "one", "b": 2})  # fmt: skip


def test_not_pairs():
    def f(x, pairs):
        try:
            dict(pairs)
        except (TypeError, ValueError) as error:
            return x + 1, type(error), str(error)

    check(f, X, ["abc"])
    check(f, X, [(1, 2, 3)])
    check(f, X, [1])


def test_a_mapping_proxy_shows_what_happens_to_the_dict_below():
    def fn(x, d):
        proxy = types.MappingProxyType(d)
        d["new"] = x + 1
        return x, proxy["new"], list(proxy), proxy, proxy | {"z": 1}

    captured(fn, X, {"old": 1})


def test_a_mapping_proxy_of_the_argument_shows_what_happens_to_the_dict_below():
    below = {"k": 1}
    proxy = types.MappingProxyType(below)

    def fn(x):
        first = proxy["k"]
        below["k"] = first + 1
        below["new"] = x
        return x * first, proxy["k"], len(proxy)

    def reset():
        below.clear()
        below["k"] = 1

    captured_made(fn, lambda: ((X,), {}), reset=reset)


class Kept(collections.OrderedDict):
    pass


class Doubled(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


def test_an_ordered_dict_of_the_programs_is_updated():
    def program(x, cls):
        made = cls(a=x)
        made.update(b=x + 1)
        made.update({"c": x})
        return made

    captured(lambda x: program(x, Kept), X)
    check(lambda x: program(x, Doubled), X)


class Counting:
    """Counts how often it is hashed and compared."""

    def __init__(self, value):
        self.value, self.hashed, self.compared, self.fails = value, 0, 0, False

    def __hash__(self):
        if self.fails:
            raise KeyError("not now")
        self.hashed += 1
        return hash(self.value)

    def __eq__(self, other):
        self.compared += 1
        return isinstance(other, Counting) and self.value == other.value


class Failing:
    def __init__(self):
        self.fails = False

    def __hash__(self):
        if self.fails:
            raise KeyError("not now")
        return 7

    def __eq__(self, other):
        return self is other


def test_hash_of_a_key_runs_as_often_as_in_cpython():
    def fn(x):
        key, again = Counting(3), Counting(3)
        table = {key: 1}
        table.setdefault(again, 5)
        return x + key.hashed + 10 * again.hashed + 100 * (key.compared + again.compared), table

    check(fn, torch.ones(2))


def test_key_whose_hash_fails_after_it_was_stored():
    def fn(x):
        key = Failing()
        table = {key: 1}
        key.fails = True
        return x + 1, list(table.values())

    check(fn, torch.ones(2))


def test_dict_of_a_hundred_thousand_keys_is_not_looked_into():
    table = dict.fromkeys(range(100_000), 1)

    def fn(x, table):
        return x + table[5] + len(table)

    breaks(fn, torch.ones(2), table)


class FailsToHash:
    def __init__(self, error):
        self.error = error

    def __hash__(self):
        raise self.error("no hash")


class Subtle(TypeError): ...


def test_what_a_container_says_of_a_key_without_a_hash():
    def f(x):
        words = []
        for key in ([], ([],), FailsToHash(TypeError), FailsToHash(ValueError), FailsToHash(Subtle)):
            for use in ({1: 2}.get, {}.__contains__, {1}.add, {1}.discard, {1}.__contains__, hash, {}.setdefault):
                try:
                    use(key)
                except (TypeError, ValueError) as error:
                    words.append((type(error).__name__, str(error), error.__context__))
        return x + 1, words

    captured(f, X)


def test_an_ordered_dict_says_it_in_its_own_words():
    def f(x):
        kept = collections.OrderedDict(a=1)
        try:
            kept[[]] = 2
        except TypeError as error:
            return x + 1, str(error)

    check(f, X)
