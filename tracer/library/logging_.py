"""Models of `logging` and `warnings`: what is given out is given out after the graph, once a call, with the user's line.
Whether it is given out at all is found while tracing, and guarded."""
from __future__ import annotations

import logging
import re
import warnings
from typing import TYPE_CHECKING, Any

from tracer import config, guards
from tracer.effects import deferred
from tracer.effects.deferred import DeferredCall
from tracer.graph_breaks import unsupported
from tracer.library.registry import models, transparent
from tracer.sources import ModuleGlobalsSource, ModuleSource
from tracer.variables.base import VariableTracker
from tracer.variables.classes import ClassVariable
from tracer.variables.constant import NONE, ONE, ConstantVariable
from tracer.variables.sequences import ListVariable, TupleVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker
_METHODS = ("debug", "info", "warning", "error", "critical", "log")


def _user_frame(tx: Any, level: int, skipped: str) -> Any:
    """The frame that a message is said to come from: `level` frames up, not counting those of the library itself."""
    frame = tx
    while frame is not None:
        if frame.code.co_filename != skipped:
            level -= 1
            if level <= 0:
                return frame
        frame = frame.parent
    unsupported("unsupported-builtin", function="a message that is said to come from the caller of the traced function")


# -- warnings ----------------------------------------------------------------------------------------------------------


transparent(*[getattr(warnings, name) for name in ("simplefilter", "filterwarnings", "resetwarnings", "_add_filter")])
transparent(*[vars(warnings.catch_warnings)[name] for name in ("__init__", "__enter__", "__exit__")])


@models(warnings.catch_warnings)
def _catch_warnings(tx: Tracer, **options: Value) -> Value:
    """Traced through: the filters are a list of the module, which is put back at the end. What operations of the graph warn of
    by themselves comes when it runs: a list of all warnings would lack it, and no error could be made of it."""
    record = options.get("record", NONE)
    if not record.is_constant() or record.constant():
        unsupported("with-block", value="catch_warnings, which records them,")
    options.setdefault("module", tx.wrap(warnings, ModuleSource("warnings")))
    return tx.type_call(tx.class_variable(warnings.catch_warnings), [], options)  # type: ignore[no-any-return]


@models(warnings._filters_mutated)  # type: ignore[attr-defined]
def _filters_mutated(tx: Tracer) -> Value:
    if any(action == "error" for action, *_ in _filters(tx) if (action, *_) not in warnings.filters):
        unsupported("side-effect-call", name="a filter of warnings", value="that makes errors of them")
    tx.effects.defer(DeferredCall(warnings._filters_mutated, (), ()))  # type: ignore[attr-defined]
    return NONE


def _filters(tx: Tracer) -> list[tuple[Any, ...]]:
    """The filters as the program has left them so far."""
    return [tuple([part.identity() for part in each.unpack(tx)]) for each in _tracked_filters(tx).unpack(tx)]


def _tracked_filters(tx: Tracer) -> Value:
    return tx.wrap(warnings, ModuleSource("warnings")).get_attr(tx, "filters")


def _changes_filters(tx: Tracer) -> bool:
    filters = _tracked_filters(tx)
    return filters.source != ModuleGlobalsSource("warnings", "filters") or filters in tx.effects.mutated


@models(warnings.warn)
def _warn(
    tx: Tracer, message: Value, category: Value = NONE, stacklevel: Value = ONE, source: Value = NONE
) -> Value:
    if config.skip_messages:
        return NONE
    none = category.is_none()
    kind: Any = UserWarning if none else category.identity()
    plain = type(message) is ConstantVariable and type(message.value) is str
    if not plain or not (none or isinstance(category, ClassVariable)) or source is not NONE or not stacklevel.is_constant():
        unsupported("side-effect-call", name="warnings.warn", value=message.describe())
    if not issubclass(kind, Warning):
        unsupported("side-effect-call", name="warnings.warn", value=category.describe())
    frame = _user_frame(tx, stacklevel.constant(), "")
    place = frame.location()
    changed = _changes_filters(tx)
    filters = _filters(tx) if changed else list(warnings.filters)
    module = frame.globals.get("__name__") or "<string>"
    action = _action(filters, str(message.constant()), kind, module, place.lineno)
    if action == "error":
        unsupported("side-effect-call", name="warnings.warn, which raises", value=message.describe())
    if changed:
        if action != "ignore":
            unsupported("side-effect-call", name="warnings.warn, with filters of its own,", value=message.describe())
        tx.effects.defer(DeferredCall(deferred.ignored_warning, (frame.globals,), ()))
        return NONE
    tx.guard(guards.WarningFiltersMatch(tuple(warnings.filters)))
    if action != "ignore":
        _refuse_what_is_told_at_once(tx, message)
    cls = tx.class_variable(kind) if none else category
    tx.effects.defer(DeferredCall(deferred.warn, (place.filename, place.lineno, frame.globals), (message, cls)))
    return NONE


def _refuse_what_is_told_at_once(tx: Any, message: Value) -> None:
    """What the program shows warnings with is to run where they are given out, and so is what it reads of a list of them."""
    shown = tx.wrap(warnings, ModuleSource("warnings")).get_attr(tx, "showwarning")
    replaced = shown.identity() is not warnings._showwarning_orig  # type: ignore[attr-defined]
    recorded = tx.trace.builder.known(deferred.list_of_warnings())
    used = isinstance(recorded, ListVariable) and (recorded.is_read() or recorded in tx.effects.mutated)
    if replaced or used:
        unsupported("side-effect-call", name="warnings.warn, shown by the program,", value=message.describe())


def _action(filters: list[tuple[Any, ...]], text: str, category: type[Warning], module: str, line: int) -> str:
    """What the filters say is done with a warning."""
    for action, message, kind, pattern, number in filters:
        fits = message is None or _matches(message, text)
        if fits and issubclass(category, kind) and (pattern is None or _matches(pattern, module)) and number in (0, line):
            return action
    return getattr(warnings, "defaultaction", "default")


def _matches(pattern: Any, text: str) -> bool:
    return pattern.match(text) is not None if isinstance(pattern, re.Pattern) else pattern == text


# -- loggers -----------------------------------------------------------------------------------------------------------

transparent(*(getattr(logging.Logger, name) for name in (*_METHODS, "getEffectiveLevel")))


@models(logging.Logger.isEnabledFor)
def _is_enabled_for(tx: Tracer, logger: Value, level: Value) -> Value:
    """Without the cache that the logger keeps: levels are read, and guarded, where they are set."""
    manager = logger.get_attr(tx, "manager")
    off = logger.get_attr(tx, "disabled").truth(tx) or tx.binary_truth(">=", manager.get_attr(tx, "_disable"), level)
    if config.skip_messages or off:
        return ConstantVariable(False)
    return tx.compare(">=", level, logger.call_method(tx, "getEffectiveLevel", [], {}))


@models(logging.Logger._log)
def _log(tx: Tracer, logger: Value, level: Value, message: Value, args: Value, **options: Value) -> Value:
    if options.keys() - {"stacklevel"} or not isinstance(args, TupleVariable):
        unsupported("side-effect-call", name="a logger's method", value=", ".join(options))
    items = args.items(tx)
    for value in (level, message, *items):
        if not value.is_constant():
            unsupported("side-effect-call", name="a logger's method", value=value.describe())
    stacklevel = options.get("stacklevel", ONE)
    if logger.source is None or not stacklevel.is_constant():
        unsupported("side-effect-call", name="a logger's method", value=logger.describe())
    frame = _user_frame(tx, stacklevel.constant(), str(logging._srcfile))  # type: ignore[attr-defined]
    place = frame.location()
    call = DeferredCall(
        deferred.log, (place.filename, place.lineno, frame.code.co_name), (logger, level, message, *items)
    )
    tx.effects.defer(call)
    return NONE
