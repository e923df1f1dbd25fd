"""What the ranks of a distributed program decide together (`config.agree_across_ranks`): which sizes are symbols, and at which
calls something is compiled.

At a miss, each rank leaves a note of the sizes and numbers that its trace has read, and reads those of the others. They count as
earlier calls of its own: what differs is a symbol in the traces of all ranks. Under "at_calls" ranks also tell one another, at
each call, whether an entry holds. If one has none, all of them miss.

Ranks find one another's notes by the place of the function in its file, by how many other compiled objects begin there, and by
the number of the call. A rank that does not come is waited for `config.agree_timeout` seconds. After that the ranks go on without
another, with a warning, as far as this object is concerned.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shapes import SizeHistory, Told
from tracer import _C, config
from tracer.bytecode import resumes_at
from tracer.locations import levels_to_the_user
from tracer.runtime import notice_board
from tracer.runtime.notice_board import Board, Unreachable
from tracer.user_marks import IdentityMap

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

NEVER, AT_MISSES, AT_CALLS = "never", "at_misses", "at_calls"
_ONE_MISS = 1 << 24  # in the sum of a call, beside 1 for each rank that has come
_SAYS_NOTHING = ""


@dataclasses.dataclass(eq=False)
class _Frame:
    """One code object of a compiled object."""

    key: str
    calls: int = 0  # at which the ranks have met
    missed: bool = False  # the last of them was a miss, whose notes are still on the board
    has_met: bool = False  # at a miss


class _Object:
    """A compiled object, by a name that it has in all ranks."""

    def __init__(self, board: Board, name: str) -> None:
        self.board, self.name = board, name
        self.is_alone = False
        self._times_reset = 0
        self._frames = IdentityMap()

    def frame(self, code: types.CodeType) -> _Frame:
        found: _Frame = self._frames.setdefault(code, _Frame(f"{self.name}/{self._times_reset}/{_place(code)}"))
        return found

    def reset(self) -> None:
        """Its calls are counted anew, as they are on the other ranks, which reset it as well."""
        self._times_reset += 1
        self._frames.clear()
        self.is_alone = False

    @property
    def given_up(self) -> str:
        """The key of the note that some rank waits no longer."""
        return f"{self.name}/{self._times_reset}/given up"

    def go_on_alone(self, code: types.CodeType, why: Unreachable) -> None:
        """From now on this rank does not wait for others."""
        self.is_alone = True
        with contextlib.suppress(Unreachable):
            self.board.post(self.given_up, str(self.board.rank))
        who = f"rank{'s' * (len(why.ranks) > 1)} {', '.join(map(str, why.ranks))}" if why.ranks else "other ranks"
        warnings.warn(
            f"{who} did not come to a call of {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) that rank "
            f"{self.board.rank} makes: {why}. From now on this rank decides alone what it compiles there, until tracer.reset(). "
            "Try: call it on all ranks, or call the original where one rank runs alone (config.agree_across_ranks).",
            stacklevel=levels_to_the_user(),
        )


def _place(code: types.CodeType) -> str:
    """What names a code object in all ranks."""
    resumed = resumes_at(code)
    begins = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    return f"{begins}:{code.co_qualname}" if resumed is None else f"{begins}+{resumed}"


class _Objects:
    """The compiled objects that have met on the current board."""

    def __init__(self) -> None:
        self._board: Board | None = None
        self._known: weakref.WeakKeyDictionary[_C.Region, _Object] = weakref.WeakKeyDictionary()
        self._count: Counter[str] = Counter()
        self._lock = threading.Lock()

    def of(self, region: _C.Region, code: types.CodeType) -> _Object | None:
        """`code`: that of its first call, if it is not known yet. None where the program has no other ranks."""
        board = notice_board.current()
        with self._lock:
            if board is not self._board:
                self._board = board
                self._known.clear()
                self._count.clear()
            if board is None:
                return None
            known = self._known.get(region)
            if known is None:
                begins = _place(code)
                known = self._known[region] = _Object(board, f"{begins}#{self._count[begins]}")
                self._count[begins] += 1
            return known

    def reset(self, region: _C.Region) -> None:
        with self._lock:
            known = self._known.get(region)
            if known is not None:
                known.reset()


_objects = _Objects()
reset = _objects.reset


class Meeting:
    """One miss, about which the ranks leave notes. `waits`: until all have. `forced`: an entry of this rank holds, but another
    rank has none."""

    def __init__(self, of: _Object, code: types.CodeType, key: str, *, waits: bool, forced: bool = False) -> None:
        self._of, self.code, self._key, self._waits = of, code, key, waits
        self.forced = forced
        self.is_over = False

    def is_about(self, code: types.CodeType) -> bool:
        return not self.is_over and code is self.code

    def exchange(self, history: SizeHistory) -> bool:
        """Tells the other ranks what the call has shown, and learns what theirs have. Returns whether the call is to be traced
        anew for that."""
        self.is_over = True
        try:
            self._of.board.post(f"{self._key}/{self._of.board.rank}", _written(history.told()))
            others = [_read(note) for note in self._notes() if note]
        except Unreachable as why:
            self._of.go_on_alone(self.code, why)
            return False
        differs: bool = history.hear(others)
        return differs

    def _notes(self) -> list[str | None]:
        board = self._of.board
        keys: dict[int | None, str] = {rank: f"{self._key}/{rank}" for rank in range(board.size) if rank != board.rank}
        if self._waits:
            board.wait_for(keys, self._of.given_up, config.agree_timeout)
        return [board.read(key) for key in keys.values()]

    def close(self) -> None:
        """Nothing was traced: the other ranks learn nothing, and do not wait."""
        if not self.is_over:
            self.is_over = True
            with contextlib.suppress(Unreachable):
                self._of.board.post(f"{self._key}/{self._of.board.rank}", _SAYS_NOTHING)


class _Here(threading.local):
    """Of one thread. `announced`: the meeting about a miss that the callback of the region is about to be told of. `misses`:
    those that are being handled, the innermost last, with their meetings."""

    announced: Meeting | None = None

    def __init__(self) -> None:
        self.misses: list[list[Meeting]] = []


_here = _Here()


def on_call(region: _C.Region, function: types.FunctionType, hit: bool) -> bool:
    """`_C.Region.agree`: whether all ranks have an entry for their call."""
    if config.agree_across_ranks != AT_CALLS:
        region.agree = None
        return hit
    of = _objects.of(region, function.__code__)
    if of is None or of.is_alone:
        return hit
    try:
        meeting = _meet_at_call(of, function.__code__, hit)
    except Unreachable as why:
        of.go_on_alone(function.__code__, why)
        return hit
    _here.announced = meeting
    return meeting is None


def _meet_at_call(of: _Object, code: types.CodeType, hit: bool) -> Meeting | None:
    """None if all ranks hit."""
    board, frame = of.board, of.frame(code)
    number, frame.calls = frame.calls, frame.calls + 1
    key, missed_before = f"{frame.key}/{number}", frame.missed
    total = board.add(f"{key}/came", 1 if hit else 1 + _ONE_MISS)
    if total % _ONE_MISS == board.size:
        board.post(f"{key}/all hit", str(int(total < _ONE_MISS)))
        if number:  # all ranks have come here, so they have read the notes before
            board.remove(_notes_of(f"{frame.key}/{number - 1}", missed_before, board.size))
    frame.missed = total >= _ONE_MISS
    if not frame.missed:
        verdict = f"{key}/all hit"
        board.wait_for({None: verdict}, of.given_up, config.agree_timeout)
        frame.missed = board.read(verdict) == "0"
    return Meeting(of, code, key, waits=True, forced=hit) if frame.missed else None


def _notes_of(key: str, missed: bool, size: int) -> list[str]:
    return [f"{key}/came", f"{key}/all hit", *(f"{key}/{rank}" for rank in range(size) if missed)]


@contextlib.contextmanager
def handling_miss() -> Iterator[None]:
    """Around the callback of a region."""
    announced, _here.announced = _here.announced, None
    meetings = [] if announced is None else [announced]
    _here.misses.append(meetings)
    try:
        yield
    finally:
        _here.misses.pop()
        for meeting in meetings:
            meeting.close()


def begin(state: RegionState, function: types.FunctionType) -> None:
    """A miss is about to be traced. Without effect for what is no call: entries that are made ahead."""
    if config.agree_across_ranks == NEVER or not _here.misses or _here.misses[-1]:
        return
    of, code = _objects.of(state.region, function.__code__), function.__code__
    if config.agree_across_ranks == AT_CALLS:
        state.region.agree = on_call
    if of is None or of.is_alone:
        return
    if config.agree_across_ranks == AT_CALLS:
        try:
            meeting = _meet_at_call(of, code, hit=False)
        except Unreachable as why:
            of.go_on_alone(code, why)
            return
        assert meeting is not None, "a rank that misses makes all miss"
    else:
        frame = of.frame(code)
        word, frame.has_met = "later" if frame.has_met else "first", True
        meeting = Meeting(of, code, f"{frame.key}/{word}", waits=word == "first")
    _here.misses[-1].append(meeting)


def meeting_about(code: types.CodeType) -> Meeting | None:
    """The meeting of the innermost miss, if that is of this code and there has been no exchange yet."""
    meetings = _here.misses[-1] if _here.misses else []
    return meetings[0] if meetings and meetings[0].is_about(code) else None


def is_forced(code: types.CodeType) -> bool:
    """Whether the innermost miss is one of this code for which an entry holds, but not on all ranks."""
    meetings = _here.misses[-1] if _here.misses else []
    return bool(meetings) and meetings[0].forced and meetings[0].code is code


def _written(told: Told) -> str:
    return json.dumps([told.seen, told.varying])


def _read(note: str) -> Told:
    seen, varying = json.loads(note)
    return Told({place: _tuples(values) for place, values in seen.items()}, varying)


def _tuples(values: Any) -> Any:
    return tuple(map(_tuples, values)) if type(values) is list else values
