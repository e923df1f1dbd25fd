"""Named tuples and typed dicts of `typing` that are made inside of a traced function."""

import typing

import torch

from tests.support import captured, check

X = torch.arange(4.0)


def test_named_tuples_with_annotations():
    def fn(x):
        class Pair(typing.NamedTuple):
            "two"

            first: "int"
            second: object = x

            @property
            def double(self):
                return self.second * 2

            @classmethod
            def make(cls):
                return cls(1)

        class Derived(Pair):
            def sum(self):
                return self.first + self.second

        pair = Pair.make()
        first, second = pair
        return pair.double + first, pair, Derived(2).sum(), Pair.__annotations__, pair._replace(second=1), Pair._fields

    captured(fn, X)


def test_typed_dicts():
    def fn(x):
        class Options(typing.TypedDict):
            size: int

        return x + Options(size=1)["size"], Options

    captured(fn, X)


def test_a_named_tuple_whose_methods_need_its_class():
    def fn(x):
        try:

            class Pair(typing.NamedTuple):
                first: int

                def sum(self):
                    return super().__len__()

            return x + len(Pair(1))
        except RuntimeError as error:
            return x + 1, str(error)

    check(fn, X)
