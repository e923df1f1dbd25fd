"""What the example rows of the library's models are written with."""

from __future__ import annotations

import _abc
import abc
import array
import ast
import bisect
import collections
import contextvars
import copy
import csv
import dataclasses
import datetime
import enum
import functools
import hashlib
import heapq
import hmac
import importlib
import importlib.util
import inspect
import io
import itertools
import json
import logging
import math
import numbers
import operator
import os
import pickle
import random
import re
import string
import struct
import sys
import threading
import time
import types
import typing
import warnings
import weakref
import zlib

CONTEXT = contextvars.ContextVar("CONTEXT")
PATTERN = re.compile(r"(?P<word>[a-z]+)(?P<number>\d)")


class Point:
    """An object of the program, with most of the special methods."""

    def __init__(self, a=1, b=2):
        self.a, self.b = a, b

    def __add__(self, other):
        return Point(self.a + 10, other)

    def __eq__(self, other):
        return isinstance(other, Point) and self.a == other.a

    def __hash__(self):
        return 7

    def __lt__(self, other):
        return self.a < other.a

    def __len__(self):
        return self.a

    def __abs__(self):
        return self.b

    def __neg__(self):
        return Point(-self.a)

    def __int__(self):
        return 41

    def __float__(self):
        return 4.5

    def __index__(self):
        return 3

    def __complex__(self):
        return 1 + 2j

    def __bool__(self):
        return self.a > 0

    def __round__(self, digits=None):
        return ("rounded", digits)

    def __floor__(self):
        return "floor"

    def __ceil__(self):
        return "ceil"

    def __trunc__(self):
        return 5

    def __divmod__(self, other):
        return ("divmod", other)

    def __contains__(self, item):
        return item == self.a

    def __getitem__(self, key):
        return ("item", key)

    def __iter__(self):
        return iter([self.a, self.b])

    def __reversed__(self):
        return iter([self.b, self.a])

    def __str__(self):
        return f"<{self.a}>"

    def __repr__(self):
        return f"Point({self.a!r})"

    def __format__(self, spec):
        return f"formatted {spec}"

    def __call__(self, *args, **kwargs):
        return self.a, args, kwargs

    @property
    def total(self):
        return self.a + self.b

    @functools.cached_property
    def cached(self):
        return [self.a]


class Sized(typing.Protocol):
    def __len__(self) -> int: ...


RuntimeSized = typing.runtime_checkable(Sized)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


Shape.register(int)


class Meta(type):
    def __instancecheck__(cls, instance):
        return instance == 5


class Five(metaclass=Meta):
    pass


@functools.lru_cache
def doubled(number):
    return number * 2


@functools.lru_cache
def listed(number):
    return [number]


def gen(count):
    yield from range(count)


def add(a, b=10, *, c=0):
    return a + b + c


get_a, get_both, get_nested = operator.attrgetter("a"), operator.attrgetter("a", "b"), operator.attrgetter("total.real")
second, first_and_last = operator.itemgetter(1), operator.itemgetter(0, -1)
upper, replaced = operator.methodcaller("upper"), operator.methodcaller("replace", "a", "b")
partial_add = functools.partial(add, 1, c=5)


class Number(int):
    def doubled(self):
        return self * 2


class Fraction(float):
    pass


class Text(str):
    def shout(self):
        return self.upper() + "!"


class Raw(bytes):
    pass


class Bag(set):
    def has(self, item):
        return item in self


def hinted(a: int, b: "str | None" = None) -> typing.Any: ...


point = Point(5)
point_ref = weakref.ref(point)
logger = logging.getLogger("tests.library")
logger.setLevel(logging.ERROR)
space = types.SimpleNamespace(a=1, b=[2])

NAMES = {name: value for name, value in globals().items() if not name.startswith("__") and name not in ("NAMES", "annotations")}
NAMES["_abc"] = _abc
_ = (
    array, ast, bisect, collections, copy, csv, dataclasses, datetime, enum, hashlib, heapq, hmac, importlib, inspect, io,
    itertools, json, math, numbers, os, pickle, random, re, string, struct, sys, threading, time, types, warnings, weakref, zlib,
)  # fmt: skip
