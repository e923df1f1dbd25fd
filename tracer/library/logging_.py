"""Models of `logging`: a message is emitted after the graph, at each run of the output code, with the user's line.
Whether it is emitted at all is decided while tracing, and guarded."""

from __future__ import annotations

import inspect
import logging
import logging.handlers
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer import _C, config
from tracer.effects import deferred_calls
from tracer.effects.deferred_calls import DeferredCall
from tracer.graph_breaks import unsupported
from tracer.library.warnings_ import is_redirected, user_place
from tracer.protocol.inlining import transparent
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import ModuleSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.containers.tuples import SizeVariable
from tracer.variables.values.constant import NONE, ONE, ConstantVariable, fold
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_METHODS = ("debug", "info", "warning", "error", "critical", "log")


_SKIPPED = str(logging._srcfile)
_CHECK_LEVEL: Any = vars(logging)["_checkLevel"]
_STDERR_HANDLER: Any = vars(logging)["_StderrHandler"]
_DISABLED: Any = vars(logging.Manager)["disable"]  # a property


@models(logging.getLogger)
def _get_logger(tx: Tracer, name: Value = NONE) -> Value:
    """Finds a logger that exists already. For any other the graph breaks, and CPython makes it."""
    if not name.is_constant() or type(name.constant()) not in (str, type(None)):
        unsupported("side-effect-call", name="logging.getLogger", value=name.describe())
    module = tx.wrap(logging, ModuleSource("logging"))
    root = module.get_attr(tx, "root")
    if not name.constant() or tx.compare("==", name, root.get_attr(tx, "name")).truth(tx):
        return root
    return _logger_of(tx, module.get_attr(tx, "Logger").get_attr(tx, "manager"), name)


@models(logging.Manager.getLogger)
def _logger_of(tx: Tracer, manager: Value, name: Value) -> Value:
    if not name.is_constant() or type(name.constant()) is not str:
        unsupported("side-effect-call", name="logging.Manager.getLogger", value=name.describe())
    loggers = manager.get_attr(tx, "loggerDict")
    found = loggers.find(tx, name) if isinstance(loggers, DictVariable) else None
    if found is None or not issubclass(found.python_type(), logging.Logger):
        unsupported("side-effect-call", name="logging.getLogger", value=f"{name.constant()!r}, which is not there yet")
    return found


# -- loggers -----------------------------------------------------------------------------------------------------------

_LEVELS = "isEnabledFor getEffectiveLevel setLevel hasHandlers".split()
transparent(*(getattr(logging.Logger, name) for name in (*_METHODS, "exception", "getEffectiveLevel", "hasHandlers", "getChild")))
transparent(*(getattr(logging.LoggerAdapter, name) for name in (*_METHODS, "exception", "process", *_LEVELS)))
transparent(_DISABLED.fget, _DISABLED.fset)


@models(logging.Logger.isEnabledFor)
def _is_enabled_for(tx: Tracer, logger: Value, level: Value) -> Value:
    """Does not use the cache that the logger keeps: the levels are read, and guarded, where they are set."""
    manager = logger.get_attr(tx, "manager")
    off = logger.get_attr(tx, "disabled").truth(tx) or tx.binary_truth(">=", manager.get_attr(tx, "_disable"), level)
    if config.skip_messages or off:
        return ConstantVariable(False)
    return tx.compare(">=", level, logger.call_method(tx, "getEffectiveLevel", [], {}))


@models(_CHECK_LEVEL)
def _check_level(tx: Tracer, level: Value) -> Value:
    return fold(tx, _CHECK_LEVEL, level.constant())


@models(logging.Logger.setLevel)
def _set_level(tx: Tracer, logger: Value, level: Value) -> Value:
    """The output code calls it, too, which clears what loggers remember of levels."""
    number = _check_level(tx, level)
    logger.set_attr(tx, "level", number)
    tx.effects.defer(DeferredCall(logging.Logger.setLevel, (), (logger, number)))
    return NONE


@models(logging.disable)
def _disable(tx: Tracer, level: Value = ConstantVariable(logging.CRITICAL)) -> Value:
    number = _check_level(tx, level)
    tx.wrap(logging, ModuleSource("logging")).get_attr(tx, "root").get_attr(tx, "manager").set_attr(tx, "_disable", number)
    tx.effects.defer(DeferredCall(logging.disable, (), (number,)))
    return NONE


@models(logging.Logger._log)
def _log(tx: Tracer, logger: Value, level: Value, message: Value, args: Value, **options: Value) -> Value:
    stacklevel = options.get("stacklevel", ONE)
    if "stack_info" in options:
        unsupported("side-effect-call", name="a logger's method", value=", ".join(options))
    callers = tx.callers()
    told = logging.Logger._log, _logs_from(callers)
    filename, line, _, name = user_place(callers, stacklevel, _SKIPPED, told)
    items = args.items(tx) if isinstance(args, TupleVariable) else [args]
    given = level, message, *items
    extra = _extra(tx, options.get("extra", NONE))
    later = (
        isinstance(args, TupleVariable)
        and not options.keys() - {"stacklevel", "extra"}
        and all(_stays(tx, value) for value in given)
    )
    if not later or extra is None or logger.source is None or _runs_the_programs_code(tx, logger):
        unsupported("side-effect-call", name="a logger's method", value=logger.describe(), calls_instead=told)
    tx.effects.defer(DeferredCall(deferred_calls.log, (filename, line, name, extra), (logger, *given)))
    return NONE


def _stays(tx: Tracer, value: Value) -> bool:
    """Whether a value is the same after the graph, so that the record can be formatted then."""
    if isinstance(value, SymNodeVariable):
        return not value.depends_on_data()
    if type(value) in (TupleVariable, SizeVariable):
        return all(_stays(tx, item) for item in value.unpack(tx))
    return value.is_constant()


def _extra(tx: Tracer, given: Value) -> tuple[tuple[str, Any], ...] | None:
    """The further attributes of a record; None if they are no constants, or if `makeRecord` would refuse them."""
    if given.is_none():
        return ()
    names = _FIELDS.keys() | {"message", "asctime"}
    if type(given) is not DictVariable or not all(type(key) is str and key not in names for key in given.entries):
        return None
    values = {key: given.value(tx, key) for key in given.entries}
    return tuple([(key, value.constant()) for key, value in values.items()]) if all(map(_is_constant, values.values())) else None


def _is_constant(value: Value) -> bool:
    return value.is_constant()


_FIELDS = vars(logging.LogRecord("", 0, "", 0, "", (), None))


def _logs_from(callers: Any) -> Callable[..., None]:
    """A logging.Logger._log that takes the place of its caller from `callers`."""

    def log(
        self: logging.Logger,
        level: int,
        message: Any,
        args: Any,
        exc_info: Any = None,
        extra: Any = None,
        stack_info: bool = False,
        stacklevel: int = 1,
    ) -> None:
        filename, line, _, name = callers.place(stacklevel, _SKIPPED)
        if isinstance(exc_info, BaseException):
            exc_info = (type(exc_info), exc_info, exc_info.__traceback__)
        elif exc_info and not isinstance(exc_info, tuple):
            exc_info = sys.exc_info()
        self.handle(self.makeRecord(self.name, level, filename, line, message, args, exc_info or None, name, extra, None))

    _C.never_trace(log.__code__)
    return log


_STEPS = ("handle", "makeRecord", "filter", "callHandlers")
_WRITERS = (
    logging.NullHandler, logging.StreamHandler, logging.FileHandler, _STDERR_HANDLER,
    logging.handlers.RotatingFileHandler, logging.handlers.TimedRotatingFileHandler, logging.handlers.WatchedFileHandler,
)  # fmt: skip


def _runs_the_programs_code(tx: Tracer, logger: Value) -> bool:
    """Whether logging a record runs code of the program, or keeps the record where the program can read it. Such a record must
    be logged at once, not after the graph."""
    cls = logger.python_type()
    made = tx.wrap(logging, ModuleSource("logging")).get_attr(tx, "_logRecordFactory")
    changed = any(getattr(cls, name) is not getattr(logging.Logger, name) for name in _STEPS)
    if changed or made.identity() is not logging.LogRecord or _has_filters(tx, logger):
        return True
    place = logger
    while not place.is_none():
        if not tx.effects.attributes(place).keys() <= {"level"}:
            return True
        if not all(_only_writes(tx, handler) for handler in place.get_attr(tx, "handlers").unpack(tx)):
            return True
        if not place.get_attr(tx, "propagate").truth(tx):
            break
        place = place.get_attr(tx, "parent")
    return False


def _has_filters(tx: Tracer, filterer: Value) -> bool:
    return any(item.python_type() is not logging.Filter for item in filterer.get_attr(tx, "filters").unpack(tx))


def _only_writes(tx: Tracer, handler: Value) -> bool:
    """Whether a handler is one of the library's own, and its stream's `write` is no Python function."""
    cls = handler.python_type()
    if cls not in _WRITERS or _has_filters(tx, handler) or handler in tx.effects.mutated:
        return False
    if cls is _STDERR_HANDLER and is_redirected(tx):
        return False
    formatter = handler.get_attr(tx, "formatter")
    if not formatter.is_none() and formatter.python_type() is not logging.Formatter:
        return False
    if cls is not logging.StreamHandler:
        return True
    write = inspect.getattr_static(handler.get_attr(tx, "stream").python_type(), "write", None)
    return not isinstance(write, types.FunctionType)
