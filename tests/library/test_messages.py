"""Warnings and loggers in traced code: what is given out, in which order, how often, and from which line."""

from __future__ import annotations

import io
import logging
import warnings

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support import breaks, captured

X = torch.arange(3.0)
LOG = logging.getLogger("tests.messages")


class Kept(logging.Handler):
    """Keeps what every record says of itself."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        place = record.name, record.levelno, record.pathname, record.lineno, record.funcName
        self.records.append((*place, record.getMessage()))


@pytest.fixture
def kept(monkeypatch):
    handler = Kept()
    monkeypatch.setattr(LOG, "handlers", [handler])
    monkeypatch.setattr(LOG, "propagate", False)
    LOG.setLevel(logging.INFO)
    yield handler.records
    LOG.setLevel(logging.NOTSET)


def warned(fn, *args):
    """What a call warns of, and from where."""
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fn(*args)
    return [(str(w.message), w.category, w.filename, w.lineno) for w in caught]


def graphs_of(fn):
    graphs = []
    return tracer.optimize(lambda gm, inputs: (graphs.append(gm), gm.forward)[1])(fn), graphs


def complains(x):
    warnings.warn("inner", DeprecationWarning)
    warnings.warn("of the caller", stacklevel=2)
    return x * 2


def program(x):
    warnings.warn("first")
    y = complains(x + 1)
    warnings.warn("last", FutureWarning)
    return y - 1


def test_warnings_come_in_order_once_a_call_with_their_lines():
    compiled, graphs = graphs_of(program)
    expected = warned(program, X)
    assert len(expected) == 4
    assert warned(compiled, X) == expected
    assert warned(compiled, X) == expected
    assert len(graphs) == 1


def test_the_filter_that_shows_a_line_once_is_honoured():
    compiled, _ = graphs_of(program)

    def count(fn):
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            for _ in range(3):
                fn(X)
        return [str(w.message) for w in caught]

    assert count(compiled) == count(program)
    assert len(count(compiled)) == 4


def test_warnings_that_are_errors_are_raised_where_they_stand():
    changes = []

    def fn(x):
        changes.append(1)
        warnings.warn("stop")
        changes.append(2)
        return x + 1

    watched = Watched(fn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watched(X)
    assert changes == [1, 2, 1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(watched(X), UserWarning)
    assert changes == [1, 2, 1, 2, 1, 1]


def test_a_warning_about_a_value_that_only_the_graph_knows_breaks():
    def fn(x):
        warnings.warn(f"sum {x.sum()}")
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        breaks(fn, X)


@pytest.fixture
def written(monkeypatch):
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(pathname)s %(lineno)d %(funcName)s %(message)s"))
    monkeypatch.setattr(LOG, "handlers", [handler])
    monkeypatch.setattr(LOG, "propagate", False)
    LOG.setLevel(logging.INFO)
    yield handler.stream
    LOG.setLevel(logging.NOTSET)


def test_records_of_loggers_come_in_order_with_their_lines(written):
    LOG.handlers = LOG.handlers[:1]  # without those of pytest

    def helper(x):
        LOG.warning("in %s with %d", "helper", 3)
        return x * 2

    def fn(x):
        LOG.debug("not shown")
        LOG.info("first")
        y = helper(x)
        LOG.log(logging.ERROR, "last %r", (1, "a"))
        return y + 1

    compiled, graphs = graphs_of(fn)
    fn(X)
    expected = written.getvalue()
    assert expected.count("\n") == 3
    compiled(X)
    compiled(X)
    assert written.getvalue() == expected * 3
    assert len(graphs) == 1


def logs_at_every_turn(x):
    def helper(x):
        LOG.warning("sum %s", x.sum())
        LOG.warning("of the caller", stacklevel=2)
        try:
            x.missing
        except AttributeError:
            LOG.exception("failed")
        return x * 2

    y = helper(x + 1)
    LOG.info("between", extra={"more": 1})
    return helper(y) + 1


def test_what_the_programs_own_handler_keeps_is_seen_at_once(kept):
    def fn(x):
        y = x * 2
        LOG.info("first")
        x = y + len(kept)
        LOG.info("second")
        return x - len(kept)

    expected = fn(X)
    kept.clear()
    compiled, _ = graphs_of(fn)
    for _ in range(2):
        assert compiled(X).equal(expected)
        assert [record[-1] for record in kept] == ["first", "second"]
        kept.clear()


def test_records_that_break_the_graph_name_the_users_lines(kept):
    logs_at_every_turn(X)
    expected, kept[:] = list(kept), []
    assert len(expected) == 7 and len({record[3] for record in expected}) == 5
    compiled, _ = graphs_of(logs_at_every_turn)
    for _ in range(2):
        compiled(X)
        assert kept == expected
        kept.clear()


def filters_keep(kept, where):
    class Keeps(logging.Filter):
        def filter(self, record):
            kept.append(record.getMessage())
            return True

    where.addFilter(Keeps())


@pytest.mark.parametrize("where", ["logger", "handler", "formatter", "stream", "factory"])
def test_the_programs_own_part_of_logging_sees_records_at_once(written, monkeypatch, where):
    seen = []
    handler = LOG.handlers[0]
    LOG.handlers = [handler]  # without those of pytest

    class Formats(logging.Formatter):
        def format(self, record):
            seen.append(1)
            return ""

    class Stream:
        def write(self, text):
            seen.append(text)

        def flush(self):
            pass

    def factory(*args, **kwargs):
        seen.append(args)
        return logging.LogRecord(*args, **kwargs)

    monkeypatch.setattr(LOG, "filters", [])
    change = {
        "logger": lambda: filters_keep(seen, LOG),
        "handler": lambda: filters_keep(seen, handler),
        "formatter": lambda: handler.setFormatter(Formats()),
        "stream": lambda: handler.setStream(Stream()),
        "factory": lambda: monkeypatch.setattr(logging, "_logRecordFactory", factory),
    }[where]

    def fn(x):
        LOG.info("now")
        return x + bool(seen)

    compiled, _ = graphs_of(fn)
    assert compiled(X).equal(X)
    change()
    assert compiled(X).equal(X + 1)
    seen.clear()
    assert compiled(X).equal(X + 1)


def warns_of_callers(x):
    def inner(x, level):
        print(end="")
        warnings.warn("inner", stacklevel=level)
        print(end="")
        warnings.warn("inner again", stacklevel=level)
        return x.sin()

    def middle(x):
        y = inner(x * 2, 1)
        y = y + inner(y, 2)
        return (
            y
            + inner(y, 3)
            + inner(
                y + 1,
                4,
            )
        )

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = middle(
            x,
        )
    warnings.warn("outer", stacklevel=2)
    return y, [(str(item.message), item.filename, item.lineno) for item in caught]


def test_a_warning_of_a_caller_names_its_line_however_often_the_graph_broke():
    compiled, _ = graphs_of(warns_of_callers)
    found, outer = [], []
    for fn in (warns_of_callers, compiled, compiled):
        outer.append(warned(lambda x, fn=fn: found.append(fn(x)[1]), X))
    assert len(found[0]) == 8 and len({line for *_, line in found[0]}) == 5
    assert found[0] == found[1] == found[2]
    assert outer[0] == outer[1] == outer[2]


def test_a_level_that_changes_is_noticed(kept):
    def fn(x):
        LOG.debug("detail")
        return x + 1 if LOG.isEnabledFor(logging.DEBUG) else x - 1

    watched = Watched(fn)
    watched(X)
    assert kept == []
    LOG.setLevel(logging.DEBUG)
    watched(X)
    assert [record[-1] for record in kept] == ["detail", "detail"]
    logging.disable(logging.CRITICAL)
    try:
        watched(X)
    finally:
        logging.disable(logging.NOTSET)
    assert len(kept) == 2


def test_a_record_of_a_tensor_breaks(kept):
    def fn(x):
        LOG.warning("sum %s", x.sum())
        return x + 1

    breaks(fn, X)


def test_messages_can_be_left_out(kept):
    def fn(x):
        warnings.warn("left out")
        LOG.warning("sum %s", x.sum())
        return x + 1

    with tracer.config.patch(skip_messages=True):
        compiled, graphs = graphs_of(fn)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert torch.equal(compiled(X), X + 1)
    assert (len(caught), kept, len(graphs)) == (0, [], 1)


def test_objects_with_items_alone_are_iterated():
    class Tens:
        def __getitem__(self, index):
            if index > 2:
                raise IndexError
            return index * 10

        def __len__(self):
            return 3

    def fn(x):
        every = list(Tens()), [i for i in Tens()], list(reversed(Tens())), 20 in Tens(), max(Tens()), dict(enumerate(Tens()))
        half = iter(Tens())
        return x + next(half), every, half

    captured(fn, X)


# -- filters -----------------------------------------------------------------------------------------------------------


def silenced(x):
    warnings.warn("before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("dropped")
        y = x + 1
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        warnings.warn("dropped", FutureWarning)
        y = y * 2
    warnings.warn("after")
    return y


def test_warnings_are_caught_in_one_graph():
    filters, shown = warnings.filters, warnings.showwarning
    before = list(filters)
    compiled, graphs = graphs_of(silenced)
    expected = warned(silenced, X)
    assert [text for text, *_ in expected] == ["before", "after"]
    for _ in range(3):
        assert warned(compiled, X) == expected
    assert len(graphs) == 1
    assert warnings.filters is filters and list(filters) == before and warnings.showwarning is shown


def test_the_line_that_is_shown_once_is_shown_again_after_filters_changed():
    def twice(x):
        for _ in range(2):
            warnings.warn("once")
            with warnings.catch_warnings():
                x = x + 1
        return x

    def count(fn):
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            fn(X)
            fn(X)
        return len(caught)

    assert count(graphs_of(twice)[0]) == count(twice)


def test_a_warning_inside_that_is_shown_breaks_the_graph():
    def some(x):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "no", UserWarning)
            warnings.warn("not shown")
            x = x + 1
            warnings.warn("shown")
            return x * 2

    compiled, graphs = graphs_of(some)
    expected = warned(some, X)
    assert [text for text, *_ in expected] == ["shown"]
    assert warned(compiled, X) == expected == warned(compiled, X)
    assert len(graphs) == 2


def test_filters_that_the_program_leaves_changed():
    def change(x):
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.filterwarnings("default", module="a.b")
        return x + 1

    def left(fn):
        with warnings.catch_warnings():
            before = warnings.filters
            fn(X)
            return warnings.filters is before, list(warnings.filters)

    compiled, graphs = graphs_of(change)
    assert left(compiled) == left(change) == left(compiled)
    assert len(graphs) == 1


@pytest.mark.parametrize("options", ["record=True", "action='error'"])
def test_what_would_see_the_warnings_of_operations_breaks_the_graph(options):
    names = {"warnings": warnings}
    text = f"def f(x):\n    with warnings.catch_warnings({options}) as caught:\n        y = x + 1\n    return y, caught"
    exec(text, names)
    breaks(names["f"], X)


def test_what_was_recorded_is_seen_at_once():
    def read(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("a")
            warnings.warn("b")
            y = x + len(caught)
            caught.clear()
            warnings.warn("c")
        return y, [str(item.message) for item in caught]

    compiled, _ = graphs_of(read)
    for _ in range(2):
        assert compiled(X)[0].equal(X + 2)
        assert compiled(X)[1] == ["c"]


def test_a_function_of_the_program_that_shows_warnings_runs_where_they_are_given(monkeypatch):
    seen = []

    def told(x):
        warnings.warn("now")
        return x + len(seen)

    compiled, _ = graphs_of(told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(X)
        warnings.simplefilter("always")
        compiled(X)
        monkeypatch.setattr(warnings, "showwarning", lambda *args, **kwargs: seen.append(args[0]))
        assert [int(compiled(X)[0]) for _ in range(3)] == [1, 2, 3]


def test_a_logger_is_looked_up_where_it_is_used():
    def f(x):
        logger = logging.getLogger("tests.messages")
        logger.debug("found %d", 3)
        return x * 2, logger is LOG, logging.getLogger() is logging.root

    captured(f, X)


def test_a_logger_that_is_not_there_is_made_by_python():
    def f(x):
        return x * 2, logging.getLogger("tests.messages.new").name

    traced = tracer.compile(f, backend="eager")
    loggers = logging.Logger.manager.loggerDict
    for _ in range(3):
        loggers.pop("tests.messages.new", None)
        assert traced(X)[1] == "tests.messages.new" and "tests.messages.new" in loggers
        assert traced(X)[1] == "tests.messages.new"
