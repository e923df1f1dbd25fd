"""The arguments that the traced frame takes as *args and **kwargs, tracked by what the program sees of how they were passed.

Whether an argument was passed by position or by keyword, and in which order the keywords were, is guarded only where the program
can tell. A wrapper that passes both on to a function with named parameters cannot.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tracer.guards.arguments import ArgumentCount, ArgumentGiven, PositionalCount
from tracer.guards.base import Guard
from tracer.guards.containers import DictContains, DictKeysMatch, DictLengthReaches, LengthMatch
from tracer.guards.identity import TypeMatch
from tracer.protocol.lazy import Unwrapped, realize
from tracer.sources.containers import ItemSource
from tracer.sources.roots import ArgumentSource
from tracer.variables.containers.dict_reads import Pair, ReadByKey
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.sequence_base import Item
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.values.constant import ConstantVariable, boolean, plain_value

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker
    from tracer.sources.base import Source
    from tracer.sources.roots import LocalSource


class CallForm:
    """How one call passes what its function takes as *args and **kwargs.

    `names` maps an index of *args to the parameter that the argument there is for, as far as that is known: the same argument may
    then come by keyword. `taken`: the function's own parameters, whose names mean these. `complete`: the program has seen which
    arguments there are, though not how each was passed.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        places: tuple[LocalSource | None, LocalSource],
        names: Iterable[str | None],
        taken: Iterable[str],
        locate: Callable[[], Any],
        is_declared: Callable[[Source], bool],
    ) -> None:
        self.args_source, self.kwargs_source = places
        self.count = len(args)
        self.keywords = dict(kwargs)
        self._taken = frozenset(taken)
        self.complete = False
        self._locate = locate
        self._is_declared = is_declared
        self._claims: dict[Guard, None] = {}
        self._names = {index: name for index, name in enumerate(names) if name is not None and self._is_one(index, name)}
        self._indices = {name: index for index, name in self._names.items()}
        self.items: list[Item] = [Unwrapped(value, self._source_at(index)) for index, value in enumerate(args)]

    # -- where arguments are -------------------------------------------------------------------------------------

    def _source_at(self, index: int) -> Source:
        assert self.args_source is not None
        name = self._names.get(index)
        return ItemSource(self.args_source, index) if name is None else self._argument(index, name)

    def source_of(self, key: str) -> Source:
        """Of an argument that was passed by keyword."""
        index = self._indices.get(key)
        return ItemSource(self.kwargs_source, key) if index is None else self._argument(index, key)

    def _argument(self, index: int, name: str) -> ArgumentSource:
        assert self.args_source is not None
        return ArgumentSource(name, index, self.args_source.local_name, self.kwargs_source.local_name)

    def is_named(self, key: str) -> bool:
        """Whether the argument of this name may come by position as well."""
        return key in self._indices

    def name(self, index: int, name: str) -> bool:
        """Notes that the argument at an index is for a parameter. False if that contradicts what was known or assumed before."""
        if index not in self._names and name not in self._indices:
            item = self.items[index] if index < self.count else None
            if item is not None and not isinstance(item, Unwrapped):
                return False  # read at its index
            if not self._is_one(index, name) or self._has_declared_place(index, name):
                return False
            self._names[index], self._indices[name] = name, index
            if isinstance(item, Unwrapped):
                self.items[index] = Unwrapped(item.value, self._source_at(index))
        return self._names.get(index) == name and self._indices.get(name) == index

    def _is_one(self, index: int, name: str) -> bool:
        """Whether an index of *args and a keyword can mean one argument: this call does not give both."""
        given_twice = index < self.count and name in self.keywords
        return self.args_source is not None and name not in self._taken and not given_twice

    def _has_declared_place(self, index: int, name: str) -> bool:
        """Whether the user has declared sizes of `args[index]` or of `kwargs[name]`, and so of what is passed in this way."""
        assert self.args_source is not None
        return self._is_declared(ItemSource(self.args_source, index)) or self._is_declared(ItemSource(self.kwargs_source, name))

    # -- what the program has seen -------------------------------------------------------------------------------

    def claim(self, guard: Guard) -> None:
        """A guard for the end of the trace, unless others say the same then."""
        if guard not in self._claims:
            object.__setattr__(guard, "where", self._locate())
            self._claims[guard] = None

    def count_is(self, least: int, most: int | None) -> None:
        """The program has seen that so many arguments are positional."""
        if self.args_source is not None:
            self.claim(PositionalCount(self.args_source, least, most))

    def order_is_seen(self) -> None:
        self.claim(DictKeysMatch(self.kwargs_source, tuple(self.keywords)))

    def came_by_keyword(self, key: str) -> None:
        """The program has seen a keyword: what is read by its name is not what stands at its index."""
        if key in self._indices:
            self.count_is(0, self._indices[key])

    def remaining(self, consumed: frozenset[str]) -> set[str]:
        """The names of the arguments that a dict of keywords may hold in other calls, given those that it cannot."""
        named = (name for index, name in self._names.items() if index < self.count)
        return {*self.keywords, *named} - consumed

    def all_guards(self) -> Iterator[Guard]:
        """What has to hold of how a call passes its arguments for this trace to be what it runs."""
        if not self._claims and not self.complete:
            return
        if self.args_source is not None:
            yield TypeMatch(self.args_source, tuple)
        yield TypeMatch(self.kwargs_source, dict)
        given = self.remaining(frozenset())
        for guard in self._claims:
            if not (self.complete and isinstance(guard, DictContains) and not guard.present and guard.key not in given):
                yield guard
        if self.complete:
            yield from self._completeness()

    def _completeness(self) -> Iterator[Guard]:
        """The arguments of the call are these, and no others."""
        if self.args_source is None:
            yield LengthMatch(self.kwargs_source, len(self.keywords))
        else:
            yield ArgumentCount(self.args_source, self.kwargs_source, self.count + len(self.keywords))
        unnamed = [index for index in range(self.count) if index not in self._names]
        if unnamed and self.args_source is not None:
            yield PositionalCount(self.args_source, unnamed[-1] + 1, None)
        for index in range(self.count):
            if index in self._names:
                yield ArgumentGiven(self._argument(index, self._names[index]))
        for key in self.keywords:
            if key in self._indices:
                yield ArgumentGiven(self._argument(self._indices[key], key))
            else:
                yield DictContains(self.kwargs_source, key)


class Keywords(ReadByKey):
    """A dict of keyword arguments: that of the traced frame, or one that is made of it to pass it on.

    `consumed`: names of arguments that it holds in no call, because a function has taken them on the way.
    """

    def __init__(
        self, form: CallForm, held: dict[str, Any], source: Source | None, consumed: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(held, source, form.claim)  # type: ignore[arg-type]  # the source is only for guards, which are made here
        self.form = form
        self._consumed = consumed
        self._first: dict[str, Pair] = {}

    def passed(self, consumed: Iterable[str] = (), first: Mapping[str, Pair] | None = None) -> Keywords:
        """A copy to pass on, after the pairs that stand `first`; the names in `consumed` are left out."""
        left_out = frozenset(consumed)
        held = {key: value for key, value in self._held.items() if key not in left_out}
        made = Keywords(self.form, held, None, self._consumed | left_out)
        made.met = {key: pair for key, pair in self.met.items() if key not in left_out}
        made.added = {key: None for key in self.added if key not in left_out}
        made.removed = {key: None for key in self.removed if key not in left_out}
        made._first = {**(first or {}), **{key: pair for key, pair in self._first.items() if key not in left_out}}
        made.met.update(first or {})
        return made

    def present(self) -> list[str]:
        """The keys that it has in this call; the caller must not rely on their order, nor on which ones were passed by
        keyword."""
        kept = (key for key in self._held if key not in self.removed)
        return list(dict.fromkeys(itertools.chain(self._first, kept, self.added)))

    def take(self, key: str) -> Item | None:
        """The value of a key without a guard, which the caller sees to; None if it has no such key."""
        if key not in self.met and key in self._held:
            return Unwrapped(self._held[key], self.form.source_of(key))
        pair = self.met.get(key)
        return None if pair is None else pair[1]

    def is_as_given(self, key: str) -> bool:
        """Whether the program has neither changed nor asked for the value of this key."""
        return key in self._held and key not in self.met

    def likeness(self) -> tuple[tuple[Any, ...], list[Item]]:
        """What is the same of two dicts if a function can be given either: facts that compare equal, and values that the program
        itself has put in, for the caller to compare."""
        own = [key for key, pair in self.met.items() if pair is not None and not self._is_given(key, pair[1])]
        own = [*self._first, *(key for key in own if key not in self._first)]
        held = tuple([(key, id(value)) for key, value in self._held.items() if key not in self.removed and key not in own])
        facts = id(self.form), self._consumed, held, tuple(self.removed), tuple(self.added), tuple(own)
        return facts, [pair[1] for key in own if (pair := self.met[key])]

    def _is_given(self, key: str, item: Item) -> bool:
        """Whether a value is that with which the frame was called."""
        return key in self._held and key not in self.added and item.source == self.form.source_of(key)

    def see_named(self) -> None:
        """The program sees which of the arguments that may come by position came by keyword."""
        for key in self.form.remaining(self._consumed):
            if self.form.is_named(key):
                self.look(key)

    def _pair(self, key: Any) -> Pair:
        return ConstantVariable(key), Unwrapped(self._held[key], self.form.source_of(key))

    def see_key(self, key: Any, present: bool) -> None:
        if key not in self._consumed:
            self.form.claim(DictContains(self.form.kwargs_source, key, present))
        if present:
            self.form.came_by_keyword(key)

    def reaches(self, count: int) -> bool:
        if sum(pair is not None for pair in self.met.values()) < count:
            if self._source is None or self.removed or self.added:
                self.see_all()
            else:
                self.form.claim(DictLengthReaches(self._source, count, len(self._held) >= count))
        return len(self.present()) >= count

    def remove(self, key: Any) -> None:
        if self._first.pop(key, None) is None:
            super().remove(key)
        else:
            self.met[key] = None

    def holdings(self) -> Iterator[Any]:
        for key, value in self._held.items():
            if key not in self.met:
                yield Unwrapped(value, self.form.source_of(key))
        yield from (pair[1] for pair in self.met.values() if pair is not None)

    def see_all(self) -> None:
        """Of one key or none there is one order."""
        remaining = self.form.remaining(self._consumed)
        if not self.form.complete or len(remaining) > 1 or any(map(self.form.is_named, remaining)):
            self.form.order_is_seen()
            for key in self._held:
                self.form.came_by_keyword(key)

    def whole(self) -> dict[Any, Pair]:
        entries = super().whole()
        first = {key: pair for key in self._first if (pair := self.met[key])}
        return {**first, **entries} if first else entries


class CountVariable(ConstantVariable):
    """len(args), of which the program may see only how it compares with another number."""

    __slots__ = ("_of",)

    def __init__(self, of: ArgumentsVariable) -> None:
        self._of = of
        self.source = None

    @property
    def value(self) -> int:  # read-only here
        return len(self._of._items)

    def python_type(self) -> type:
        return int

    def truth(self, tx: Tracer) -> bool:
        return self._of.truth(tx)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        plain = plain_value(other)
        if op not in ("<", "<=", ">", ">=") or not plain.is_constant() or type(plain.constant()) is not int:
            return super().compare(tx, op, other)
        bound: int = plain.constant()
        least = bound + (op in ("<=", ">"))  # it is decided by whether there are so many
        reached = self._of.reaches(least)
        return boolean(reached is (op in (">", ">=")))


class ArgumentsVariable(TupleVariable):
    """*args of the traced frame, or what is passed on of it: `first`, then the positional arguments from `start` on."""

    def __init__(
        self, form: CallForm, start: int = 0, first: Iterable[VariableTracker] = (), source: Source | None = None
    ) -> None:
        self.call_form, self.start, self.first = form, start, list(first)
        self.source = source
        self._known: list[Item] | None = None

    @property
    def _items(self) -> list[Item]:
        if self._known is None:
            rest = self.call_form.items[self.start :]
            if rest or self.start == 0:
                self.call_form.count_is(self.call_form.count, self.call_form.count)
            else:
                self.call_form.count_is(0, self.start)
            self._known = [*self.first, *rest]
        return self._known

    @_items.setter
    def _items(self, items: list[Item]) -> None:
        self._known = items

    def is_read(self) -> bool:
        return self._known is not None

    def is_constant(self) -> bool:
        """Not as long as nobody has looked at what it holds."""
        return self._known is not None and super().is_constant()

    def describe(self) -> str:
        return "ArgumentsVariable()"

    def reaches(self, count: int) -> bool:
        """Whether it has at least so many items."""
        index = self.start + count - len(self.first)  # so many positional arguments there are then
        if count <= len(self.first):
            return True
        reached = self.call_form.count >= index
        self.call_form.count_is(*((index, None) if reached else (0, index - 1)))
        return reached

    def children(self) -> Iterable[VariableTracker]:
        return iter(self.first) if self._known is None else super().children()

    def holdings(self) -> Iterable[Item]:
        return [*self.first, *self.call_form.items[self.start :]] if self._known is None else self._known

    def truth(self, tx: Tracer) -> bool:
        return self.reaches(1)

    def length(self, tx: Tracer) -> VariableTracker:
        return CountVariable(self)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        plain = plain_value(key)
        index = plain.constant() if plain.is_constant() else None
        if self._known is not None or type(index) is not int or index < 0 or not self.reaches(index + 1):
            return super().get_item(tx, key)
        if index < len(self.first):
            return self.first[index]
        return realize(tx, self.call_form.items, self.start + index - len(self.first))

    def like(self, items: list[VariableTracker]) -> VariableTracker:
        whole = len(items) == len(self._items) and all(mine is item for mine, item in zip(self._items, items))
        return self if whole else TupleVariable(items)


class SpreadVariable(ListVariable):
    """The list `[*first, *args]`, as a call makes it of its arguments."""

    def __init__(self, tail: ArgumentsVariable) -> None:
        super().__init__(())
        self.tail = tail
        self._unread = lambda: tail._items

    def spread(self) -> ArgumentsVariable | None:
        """A tuple of the same items, of which no more is seen than of the arguments."""
        return self.tail if self._unread is not None and not self._held else None


__all__ = ["ArgumentsVariable", "CallForm", "Keywords", "SpreadVariable"]
