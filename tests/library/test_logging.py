"""Loggers in traced code: which records are given out, in which order, and from which line."""

from __future__ import annotations

import io
import logging
import warnings

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support import breaks, captured
from tests.support.graphs import graphs_of

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


# -- adapters, children and levels -------------------------------------------------------------------------------------


def records_of(stream, fn, *args):
    stream.seek(0)
    stream.truncate()
    return fn(*args), stream.getvalue()


def adapted(x, adapter):
    adapter.debug("not shown")
    adapter.info("of %s", x.shape[0])
    adapter.warning("shape %s", x.shape, extra={"b": 1})
    return x + 1


def child(x, logger):
    logger.getChild("child").info("of a child of %s", x.shape)
    return x + 1


def raised(x, logger):
    before = logger.level
    logger.setLevel("ERROR")
    logger.warning("not shown")
    logger.setLevel(before)
    logger.warning("shown", extra={"a": 1})
    return x + 1


def switched_off(x, logger):
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    logger.warning("not shown")
    logging.disable(before)
    logger.warning("shown")
    return x + 1


@pytest.mark.parametrize(("program", "argument"), [
    (adapted, logging.LoggerAdapter(LOG, {"a": 1})), (child, LOG), (raised, LOG), (switched_off, LOG),
])  # fmt: skip
@pytest.mark.parametrize("dynamic", [None, True])
def test_what_loggers_are_asked_for_is_one_graph(written, program, argument, dynamic):
    LOG.handlers = LOG.handlers[:1]  # without those of pytest
    logging.getLogger("tests.messages.child").setLevel(logging.NOTSET)
    compiled = tracer.compile(program, fullgraph=True, dynamic=dynamic)
    for size in (3, 3, 4, 5):
        x = torch.ones(size)
        (y, records), (expected, told) = records_of(written, compiled, x, argument), records_of(written, program, x, argument)
        assert y.equal(expected) and records == told != ""
        assert LOG.isEnabledFor(logging.WARNING) and LOG.level == logging.INFO


def test_a_level_that_is_left_is_known_to_what_asks_later(kept):
    LOG.isEnabledFor(logging.INFO)  # the logger remembers the answer
    compiled, _ = graphs_of(lambda x, level: (x + 1, LOG.setLevel(level))[0])
    for level in (logging.ERROR, logging.INFO, logging.ERROR):
        compiled(X, level)
        assert LOG.isEnabledFor(logging.INFO) is (level == logging.INFO)


def test_a_record_with_a_name_that_the_record_has_itself_is_refused_in_its_place(kept):
    seen = []
    compiled, _ = graphs_of(lambda x: (seen.append(1), LOG.warning("told", extra={"message": 1}), seen.append(2)))
    with pytest.raises(KeyError, match="overwrite 'message'"):
        compiled(X)
    assert seen == [1]


def test_a_handler_that_the_program_has_changed_is_called_at_once(written):
    handler = LOG.handlers[0]

    def fn(x):
        handler.level = logging.ERROR
        LOG.warning("not shown")
        handler.level = logging.NOTSET
        return x + 1

    compiled, _ = graphs_of(fn)
    for _ in range(2):
        compiled(X)
    assert written.getvalue() == ""


def test_a_record_of_what_changes_later_in_a_tuple_is_given_out_at_once(written):
    def fn(x, state):
        LOG.info("before: %s", state)
        state[0].add_(x)
        return x * 2

    texts = []
    for run in (fn, tracer.compile(fn)):
        written.seek(0)
        written.truncate()
        run(X, (torch.zeros(3), 1))
        texts.append(written.getvalue())
    assert texts[0] == texts[1] and "tensor([0., 0., 0.])" in texts[0]
