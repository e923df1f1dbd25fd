"""Models of `logging` and `warnings`: a message is emitted after the graph, at each run of the output code, with the user's line.
Whether it is emitted at all is decided while tracing, and guarded."""

from __future__ import annotations

import inspect
import logging
import logging.handlers
import re
import sys
import types
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer import _C, config
from tracer.effects import deferred_calls
from tracer.effects.deferred_calls import DeferredCall
from tracer.graph_breaks import unsupported
from tracer.guards.state import WarningFiltersMatch
from tracer.protocol.inlining import transparent
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import ModuleGlobalsSource, ModuleSource
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.values.constant import NONE, ONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_METHODS = ("debug", "info", "warning", "error", "critical", "log")


_SKIPPED = str(logging._srcfile)


def _user_place(callers: Any, stacklevel: Value, skipped: str, instead: tuple[Any, Any]) -> Any:
    """The place to which a message is attributed: file, line, globals, name of the function."""
    if not stacklevel.is_constant():
        unsupported("side-effect-call", name="a message of a caller", value=stacklevel.describe(), calls_instead=instead)
    place = callers.traced(stacklevel.constant(), skipped)
    if place is None:
        name = "a message that is attributed to the caller of the traced function"
        unsupported("unsupported-builtin", function=name, calls_instead=instead)
    return place


@models(logging.getLogger)
def _get_logger(tx: Tracer, name: Value = NONE) -> Value:
    """Finds a logger that exists already. For any other the graph breaks, and CPython makes it."""
    if not name.is_constant() or type(name.constant()) not in (str, type(None)):
        unsupported("side-effect-call", name="logging.getLogger", value=name.describe())
    module = tx.wrap(logging, ModuleSource("logging"))
    root = module.get_attr(tx, "root")
    if not name.constant() or tx.compare("==", name, root.get_attr(tx, "name")).truth(tx):
        return root
    loggers = module.get_attr(tx, "Logger").get_attr(tx, "manager").get_attr(tx, "loggerDict")
    found = loggers.find(tx, name) if isinstance(loggers, DictVariable) else None
    if found is None or not issubclass(found.python_type(), logging.Logger):
        unsupported("side-effect-call", name="logging.getLogger", value=f"{name.constant()!r}, which is not there yet")
    return found


# -- warnings ----------------------------------------------------------------------------------------------------------


transparent(*[getattr(warnings, name) for name in ("simplefilter", "filterwarnings", "resetwarnings", "_add_filter")])
transparent(*[vars(warnings.catch_warnings)[name] for name in ("__init__", "__enter__", "__exit__")])
if hasattr(warnings, "_lock"):  # from Python 3.14 on
    _parts: Any = warnings
    transparent(*[vars(type(_parts._lock))[name] for name in ("__enter__", "__exit__")])
    transparent(_parts._get_filters, _parts._get_context, type(_parts._get_context())._filters.fget)


@models(warnings.catch_warnings)
def _catch_warnings(tx: Tracer, **options: Value) -> Value:
    """Traced through: it saves and restores the list of filters of the module. Recording breaks the graph: operations of a graph
    warn only when it runs, so the recorded list would lack their warnings."""
    record = options.get("record", NONE)
    if not record.is_constant() or record.constant():
        unsupported("with-block", value="catch_warnings, which records them,")
    options.setdefault("module", tx.wrap(warnings, ModuleSource("warnings")))
    return tx.type_call(tx.class_variable(warnings.catch_warnings), [], options)


def _deferred(function: Any, refuses_errors: bool) -> Callable[[Tracer], Value]:
    """Called by the output code where it repeats what was done to the filters. The lock of Python 3.14 is held for that long,
    and at a graph break."""

    def model(tx: Tracer) -> Value:
        if refuses_errors and any(action == "error" for action, *_ in _filters(tx) if (action, *_) not in warnings.filters):
            unsupported("side-effect-call", name="a filter of warnings", value="that makes errors of them")
        tx.effects.defer(DeferredCall(function, (), ()))
        return NONE

    return model


for _name in ("_filters_mutated", "_filters_mutated_lock_held", "_acquire_lock", "_release_lock"):
    if hasattr(warnings, _name):  # the first until Python 3.13 of C, then of Python; the others from 3.14 on
        models(getattr(warnings, _name))(_deferred(getattr(warnings, _name), "mutated" in _name))


def _filters(tx: Tracer) -> list[tuple[Any, ...]]:
    """The filters as the program has left them so far."""
    return [tuple([part.identity() for part in each.unpack(tx)]) for each in _tracked_filters(tx).unpack(tx)]


def _tracked_filters(tx: Tracer) -> Value:
    return tx.wrap(warnings, ModuleSource("warnings")).get_attr(tx, "filters")


def _changes_filters(tx: Tracer) -> bool:
    filters = _tracked_filters(tx)
    return filters.source != ModuleGlobalsSource("warnings", "filters") or filters in tx.effects.mutated


@models(warnings.warn)
def _warn(tx: Tracer, message: Value, category: Value = NONE, stacklevel: Value = ONE, source: Value = NONE) -> Value:
    if config.skip_messages:
        return NONE
    none = category.is_none()
    kind: Any = UserWarning if none else category.identity()
    callers = tx.callers()
    told = warnings.warn, _warns_from(callers)
    filename, line, namespace, _ = _user_place(callers, stacklevel, "", told)
    plain = type(message) is ConstantVariable and type(message.value) is str
    if not plain or not (none or isinstance(category, ClassVariable)) or source is not NONE:
        unsupported("side-effect-call", name="warnings.warn", value=message.describe(), calls_instead=told)
    if not issubclass(kind, Warning):
        unsupported("side-effect-call", name="warnings.warn", value=category.describe())
    changed = _changes_filters(tx)
    filters = _filters(tx) if changed else list(warnings.filters)
    module = namespace.get("__name__") or "<string>"
    action = _action(filters, str(message.constant()), kind, module, line)
    if action == "error":
        unsupported("side-effect-call", name="warnings.warn, which raises", value=message.describe())
    if changed:
        if action != "ignore":
            name = "warnings.warn, with filters of its own,"
            unsupported("side-effect-call", name=name, value=message.describe(), calls_instead=told)
        tx.effects.defer(DeferredCall(deferred_calls.ignored_warning, (namespace,), ()))
        return NONE
    tx.guard(WarningFiltersMatch(tuple(warnings.filters)))
    if action != "ignore" and _is_told_at_once(tx):
        unsupported("side-effect-call", name="warnings.warn, shown by the program,", value=message.describe(), calls_instead=told)
    cls = tx.class_variable(kind) if none else category
    tx.effects.defer(DeferredCall(deferred_calls.warn, (filename, line, namespace), (message, cls)))
    return NONE


def defer_warning(tx: Tracer, name: str, warns: Callable[[], None]) -> None:
    """Lets `warns`, which may give a warning of a library, run after the graph. `name` says in a graph break what it is."""
    filters = warnings.filters
    if _changes_filters(tx) or _is_told_at_once(tx) or any(action == "error" for action, *_ in filters):
        unsupported("side-effect-call", name=name, value="a warning that the program handles itself")
    tx.guard(WarningFiltersMatch(tuple(filters)))
    tx.effects.defer(DeferredCall(warns, (), ()))


def _warns_from(callers: Any) -> Callable[..., None]:
    """A warnings.warn that takes the place of its caller from `callers`."""

    def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None) -> None:
        filename, line, namespace, _ = callers.place(stacklevel, "")
        registry = namespace.setdefault("__warningregistry__", {})
        module = namespace.get("__name__") or "<string>"
        kind = type(message) if isinstance(message, Warning) else UserWarning if category is None else category
        warnings.warn_explicit(message, kind, filename, line, module, registry, source=source)

    _C.never_trace(warn.__code__)
    return warn


def _is_told_at_once(tx: Tracer) -> bool:
    """Whether a warning must be shown at its place in the program, which has a `showwarning` of its own or reads the list in
    which warnings are recorded."""
    shown = tx.wrap(warnings, ModuleSource("warnings")).get_attr(tx, "showwarning")
    replaced = shown.identity() is not warnings._showwarning_orig  # type: ignore[attr-defined]  # private in the library
    recorded = tx.trace.builder.known(deferred_calls.list_of_warnings())
    return replaced or (isinstance(recorded, ListVariable) and (recorded.is_read() or recorded in tx.effects.mutated))


def _action(filters: list[tuple[Any, ...]], text: str, category: type[Warning], module: str, line: int) -> str:
    """The action that the filters choose for a warning."""
    for action, message, kind, pattern, number in filters:
        fits = message is None or _matches(message, text)
        if fits and issubclass(category, kind) and (pattern is None or _matches(pattern, module)) and number in (0, line):
            return str(action)
    return getattr(warnings, "defaultaction", "default")


def _matches(pattern: Any, text: str) -> bool:
    return pattern.match(text) is not None if isinstance(pattern, re.Pattern) else pattern == text


# -- loggers -----------------------------------------------------------------------------------------------------------

transparent(*(getattr(logging.Logger, name) for name in (*_METHODS, "exception", "getEffectiveLevel")))


@models(logging.Logger.isEnabledFor)
def _is_enabled_for(tx: Tracer, logger: Value, level: Value) -> Value:
    """Does not use the cache that the logger keeps: the levels are read, and guarded, where they are set."""
    manager = logger.get_attr(tx, "manager")
    off = logger.get_attr(tx, "disabled").truth(tx) or tx.binary_truth(">=", manager.get_attr(tx, "_disable"), level)
    if config.skip_messages or off:
        return ConstantVariable(False)
    return tx.compare(">=", level, logger.call_method(tx, "getEffectiveLevel", [], {}))


@models(logging.Logger._log)
def _log(tx: Tracer, logger: Value, level: Value, message: Value, args: Value, **options: Value) -> Value:
    stacklevel = options.get("stacklevel", ONE)
    if "stack_info" in options:
        unsupported("side-effect-call", name="a logger's method", value=", ".join(options))
    callers = tx.callers()
    told = logging.Logger._log, _logs_from(callers)
    filename, line, _, name = _user_place(callers, stacklevel, _SKIPPED, told)
    items = args.items(tx) if isinstance(args, TupleVariable) else [args]
    given = level, message, *items
    later = isinstance(args, TupleVariable) and not options.keys() - {"stacklevel"} and all(item.is_constant() for item in given)
    if not later or logger.source is None or _runs_the_programs_code(tx, logger):
        unsupported("side-effect-call", name="a logger's method", value=logger.describe(), calls_instead=told)
    tx.effects.defer(DeferredCall(deferred_calls.log, (filename, line, name), (logger, *given)))
    return NONE


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
    logging.NullHandler, logging.StreamHandler, logging.FileHandler, logging._StderrHandler,  # type: ignore[attr-defined]  # private in the library
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
    if cls not in _WRITERS or _has_filters(tx, handler):
        return False
    formatter = handler.get_attr(tx, "formatter")
    if not formatter.is_none() and formatter.python_type() is not logging.Formatter:
        return False
    if cls is not logging.StreamHandler:
        return True
    write = inspect.getattr_static(handler.get_attr(tx, "stream").python_type(), "write", None)
    return not isinstance(write, types.FunctionType)
