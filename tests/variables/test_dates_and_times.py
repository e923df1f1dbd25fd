"""Values of `datetime` that the program has as constants: computed while tracing, told apart by all their parts."""

from __future__ import annotations

import datetime
import time
from datetime import date, timedelta, timezone

import torch

import tracer
from tests.support import breaks, captured, check
from tracer.guards.constants import constant_key, same_constant

X = torch.arange(3.0)
THEN = datetime.datetime(2020, 1, 2, 3, 4, 5)
NAMED = {THEN: 3}


class Kept:
    since = THEN

    def __init__(self, span):
        self.span = span


def test_differences_of_times():
    def f(x):
        d = timedelta(days=1) + timedelta(seconds=3)
        sums = sum([d, d], timedelta()), max([d, -d], key=lambda each: -each)
        return x * d.total_seconds(), d, d / 2, d * 1.5, 2 * d, -d, d // timedelta(hours=1), d / d, bool(d), abs(-d), d.days, sums

    captured(f, X)


def test_dates_and_times_are_computed():
    def f(x):
        later = THEN + timedelta(days=40, hours=2)
        parts = later.year, later.month, later.weekday(), later.date(), later.time(), later.tzinfo
        words = f"{later}", f"{later:%Y-%m-%d}", str(later), repr(later), later.isoformat(), later.strftime("%H:%M")
        order = later > THEN, later == THEN, sorted([later.date(), date.min])[0], THEN in {later: 1}, isinstance(later, date)
        made = date.fromisoformat("2020-02-03"), datetime.datetime.combine(date(2020, 1, 1), datetime.time(3))
        return x * later.day, later, later - THEN, later.replace(day=4), parts, words, order, made, timezone(timedelta(hours=2))

    captured(f, X)


def test_times_are_keys_and_matched():
    def f(x):
        d = {THEN: 1, THEN.date(): 2, timedelta(1): x}
        match THEN:
            case datetime.datetime(year=2020, month=month):
                x = x * month
        return x + d[timedelta(days=1)] * d[datetime.datetime(2020, 1, 2, 3, 4, 5)], NAMED[THEN], next(iter(NAMED)) is THEN

    captured(f, X)


def test_a_loop_over_days():
    def f(x):
        day = date(2020, 1, 1)
        while day < date(2020, 1, 4):
            x, day = x + day.day, day + timedelta(days=1)
        return x, day

    captured(f, X)


def test_errors_are_those_of_python():
    def f(x):
        words = []
        for action in (lambda: date(2020, 13, 1), lambda: THEN + 3, lambda: THEN < 3, lambda: THEN.replace(month=50)):
            try:
                action()
            except (ValueError, TypeError) as error:
                words.append((type(error), str(error)))
        return x * 2, words

    captured(f, X)


def test_what_objects_and_classes_keep_is_guarded():
    kept = Kept(timedelta(seconds=2))

    def f(x):
        return x * kept.span.total_seconds() + Kept.since.day, kept.span is kept.span, THEN is Kept.since

    traced = tracer.compile(f, backend="eager")
    compiles = []
    for span in (2, 2, 3, 4, 5, 6, 7):
        kept.span = timedelta(seconds=span)
        assert torch.equal(traced(X)[0], f(X)[0]) and traced(X)[1:] == f(X)[1:]
        compiles.append(traced.stats()["compiles"])
    assert compiles[:2] == [1, 1] and len(set(compiles[3:])) == 1  # then it is taken for one that a clock gives


def test_a_time_that_a_clock_gives_is_not_compiled_for():
    def f(x):
        begun = datetime.datetime.now()
        y = x * 2
        spent = datetime.datetime.now() - begun
        return y + 1, spent.total_seconds() < 1000

    traced = tracer.compile(f, backend="eager")
    traced(X), traced(X)  # a float becomes a symbol
    compiles = traced.stats()["compiles"]
    assert all(traced(X)[1] for _ in range(4)) and traced.stats()["compiles"] == compiles


class Zone(datetime.tzinfo):
    def utcoffset(self, when):
        return timedelta(hours=1)


def test_what_asks_the_program_or_the_process_is_left_to_python():
    aware, of_program = THEN.replace(tzinfo=timezone.utc), THEN.replace(tzinfo=Zone())
    captured(lambda x: (x * aware.hour, aware.tzinfo is timezone.utc, aware.utcoffset(), aware.tzname()), X)
    asking = lambda: of_program.utcoffset(), lambda: f"{THEN:%A}", lambda: THEN.timestamp(), lambda: THEN.astimezone().tzname()
    for read in asking:
        breaks(lambda x, read=read: (x * 2, read()), X)
    check(lambda x: (x * 2, datetime.datetime.now() > THEN, date.today() > THEN.date(), THEN.today() > THEN), X)


def test_times_are_read_from_texts_and_taken_apart():
    moment = THEN

    def f(x):
        read = datetime.datetime.strptime("2021-02-03 04:05:06 +0100", "%Y-%m-%d %H:%M:%S %z")
        year, week, day = moment.isocalendar()
        parts = moment.timetuple()
        utc = read.astimezone(timezone.utc), read.timestamp(), datetime.datetime.fromtimestamp(7.5, tz=timezone.utc)
        clock = time.strftime("%H:%M", time.gmtime(7000)), time.strptime("04:05 2020", "%H:%M %Y").tm_min, time.gmtime(0)[:3]
        return (
            x * week,
            (year, day),
            moment.isocalendar().week,
            read,
            utc,
            parts,
            parts.tm_yday,
            list(parts),
            parts == parts,
            clock,
        )

    captured(f, X)


def test_times_in_parts_are_guarded_by_value():
    traced = tracer.compile(lambda x, parts: x * parts.tm_hour, backend="eager")
    for hour in (1, 2, 1):
        assert torch.equal(traced(X, time.gmtime(3600 * hour)), X * hour)
    check(lambda x, parts, week: (x + 1, parts, week.week), X, time.gmtime(5), date(2020, 1, 2).isocalendar())


def test_a_zone_that_the_text_does_not_tell_is_left_to_python():
    for read in (
        lambda: datetime.datetime.strptime("Jan 2020", "%b %Y"),
        lambda: datetime.datetime.fromtimestamp(0).tzinfo,
        lambda: len(time.strftime("%Y")),
        lambda: THEN.astimezone(timezone.utc).tzinfo,
    ):
        breaks(lambda x, read=read: (x * 2, read()), X)


def test_times_that_are_equal_differ_in_their_zones():
    first, second = THEN.replace(tzinfo=timezone.utc), THEN.replace(hour=4, tzinfo=timezone(timedelta(hours=1)))
    assert first == second and not same_constant(first, second) and constant_key(first) != constant_key(second)
    folded = THEN.replace(fold=1)
    assert folded == THEN and not same_constant(folded, THEN) and same_constant(THEN, datetime.datetime(2020, 1, 2, 3, 4, 5))
    assert not same_constant(timezone(timedelta(0), "a"), timezone(timedelta(0), "b"))
