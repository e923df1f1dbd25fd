"""The words of CPython's errors where they depend on its version: CPython itself is asked for them, once.

Each function puts the parts of one error into CPython's words for another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def failure_of(function: Callable[..., Any], *args: Any) -> Exception:
    """The exception that `function(*args)` raises, without the frames in which it was raised."""
    try:
        function(*args)
    except Exception as error:
        return error.with_traceback(None)
    raise AssertionError(f"{function} does not fail")


def words_of(function: Callable[..., Any], *args: Any) -> str:
    """The text of the exception that `function(*args)` raises."""
    return str(failure_of(function, *args))


def full_name(cls: type) -> str:
    """The name of a class as C's `%T` shows it."""
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


_ITEM = 10203
# Until Python 3.14 they show the item.
_NOT_IN: dict[type, str] = {list: words_of([].index, _ITEM), range: words_of(range(3).index, _ITEM)}


def not_in_sequence(cls: type, show: Callable[[], str]) -> str:
    """Of `index` of a list or a range that has no such item; `show` gives the item's text."""
    words = _NOT_IN[cls]
    return words.replace(repr(_ITEM), show()) if repr(_ITEM) in words else words


_UNHASHABLE = words_of(hash, [])
_UNHASHABLE_IN: dict[type, str] = {dict: words_of({}.get, []), set: words_of(set().add, [])}
NAMES_USE_OF_HASHES = _UNHASHABLE_IN[dict] != _UNHASHABLE  # from Python 3.14 on


def unhashable_in(container: type, cls: type, said: str) -> str:
    """Of a key of class `cls` whose hash raises TypeError with the text `said`, in a dict or a set."""
    words = _UNHASHABLE_IN[set if container is set else dict]
    return words.replace(_UNHASHABLE, "{}").replace("'list'", repr(full_name(cls))).format(said)


_NO_NOTE = words_of(Exception().add_note, 1j)


def no_note(cls: type) -> str:
    """Of `add_note` of what is no str."""
    return _NO_NOTE.replace("complex", cls.__name__)


_NO_PAIR = failure_of(dict, [1])


def no_pair(position: int) -> tuple[str, tuple[str, ...]]:
    """(text, notes) of a dict that is made of something whose item at `position` cannot be iterated over."""
    notes = tuple(note.replace("#0", f"#{position}") for note in getattr(_NO_PAIR, "__notes__", ()))
    return str(_NO_PAIR).replace("#0", f"#{position}"), notes


_UNPACKS = words_of([].__setitem__, 1).partition("expected")[0], words_of([].__mul__).partition("expected")[0]


def wrong_count(name: str, arity: int, count: int, unpacks: bool) -> str:
    """Of a special method with a wrong number of arguments. Wrappers that unpack them say "" for their name until Python 3.13."""
    begin = _UNPACKS[arity == 1].replace("__setitem__", name) if unpacks else ""
    return f"{begin}expected {arity} argument{'' if arity == 1 else 's'}, got {count}"
