"""Models of `warnings`: a warning is given after the graph, at each run of the output code, with the user's line. Whether it is
given at all is decided while tracing, and guarded. What the program records is known while tracing."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

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
from tracer.variables.containers.lists import ListVariable
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.tensors.runtime_text import RuntimeTextVariable
from tracer.variables.values.constant import NONE, ONE, ConstantVariable, NamedMethodVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


def user_place(callers: Any, stacklevel: Value, skipped: str, instead: tuple[Any, Any]) -> Any:
    """The place to which a message is attributed: file, line, globals, name of the function."""
    if not stacklevel.is_constant():
        unsupported("side-effect-call", name="a message of a caller", value=stacklevel.describe(), calls_instead=instead)
    place = callers.traced(stacklevel.constant(), skipped)
    if place is None:
        name = "a message that is attributed to the caller of the traced function"
        unsupported("unsupported-builtin", function=name, calls_instead=instead)
    return place


transparent(*[getattr(warnings, name) for name in ("simplefilter", "filterwarnings", "resetwarnings", "_add_filter")])
transparent(*[vars(warnings.catch_warnings)[name] for name in ("__init__", "__enter__", "__exit__")])
transparent(vars(warnings.WarningMessage)["__init__"])
if hasattr(warnings, "_lock"):  # from Python 3.14 on
    _parts: Any = warnings
    transparent(*[vars(type(_parts._lock))[name] for name in ("__enter__", "__exit__")])
    transparent(_parts._get_filters, _parts._get_context, type(_parts._get_context())._filters.fget)


@models(warnings.catch_warnings)
def _catch_warnings(tx: Tracer, **options: Value) -> Value:
    """Traced through: it saves and restores the list of filters of the module. The list of what is recorded is one of the trace.
    An operation that warns would do so when the graph runs, too late: it breaks the graph (`world.warns_are_heard`)."""
    record = options.get("record", NONE)
    if not record.is_constant():
        unsupported("with-block", value="catch_warnings, which may record them,")
    tx.output.world.warns_are_heard |= bool(record.constant())
    options.setdefault("module", tx.wrap(warnings, ModuleSource("warnings")))
    return tx.type_call(tx.class_variable(warnings.catch_warnings), [], options)


def _deferred(function: Any, changes_filters: bool) -> Callable[[Tracer], Value]:
    """Called by the output code where it repeats what was done to the filters. The lock of Python 3.14 is held for that long,
    and at a graph break."""

    def model(tx: Tracer) -> Value:
        if changes_filters:
            tx.output.world.warns_are_heard |= any(each[0] == "error" for each in _filters(tx) if each not in warnings.filters)
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
    callers = tx.callers()
    told = warnings.warn, _warns_from(callers)
    given = _Warning.of(tx, message, category)
    if given is None or source is not NONE:
        unsupported("side-effect-call", name="warnings.warn", value=message.describe(), calls_instead=told)
    filename, line, namespace, _ = user_place(callers, stacklevel, "", told)
    changed = _changes_filters(tx)
    action = given.action(_filters(tx) if changed else list(warnings.filters), namespace.get("__name__") or "<string>", line)
    if not changed:
        if action == "error":
            unsupported("side-effect-call", name="warnings.warn, which raises", value=message.describe())
        tx.guard(WarningFiltersMatch(tuple(warnings.filters)))
        if action != "ignore" and _is_told_at_once(tx):
            name = "warnings.warn, shown by the program,"
            unsupported("side-effect-call", name=name, value=message.describe(), calls_instead=told)
        tx.effects.defer(DeferredCall(deferred_calls.warn, (filename, line, namespace), (message, given.category)))
        return NONE
    recorded = _list_of_the_trace(tx) if action == "always" else None
    if recorded is None and action not in ("ignore", "error"):
        name = "warnings.warn, with filters of its own,"
        unsupported("side-effect-call", name=name, value=message.describe(), calls_instead=told)
    tx.effects.defer(DeferredCall(deferred_calls.ignored_warning, (namespace,), ()))
    if action == "error":
        tx.raise_value(given.instance(tx))
    if recorded is not None:
        place = [given.instance(tx), given.category, tx.literal(filename), tx.literal(line)]
        made = tx.type_call(tx.class_variable(warnings.WarningMessage), place, {"source": source})
        recorded.call_method(tx, "append", [made], {})
    return NONE


class _Warning(NamedTuple):
    """What a call of `warnings.warn` is given."""

    message: Value  # the text, or the warning itself
    category: Value
    kind: type[Warning]

    @classmethod
    def of(cls, tx: Tracer, message: Value, category: Value) -> _Warning | None:
        """None for what cannot be told of later."""
        if isinstance(message, ExceptionVariable) and message.source is None and issubclass(message.cls, Warning):
            plain = message.cls.__str__ is Warning.__str__ and all(part.is_constant() for part in message.children())
            return cls(message, tx.class_variable(message.cls), message.cls) if plain else None
        if not message.is_constant() or not (isinstance(message, RuntimeTextVariable) or _is_text(message)):
            return None
        if category.is_none():
            return cls(message, tx.class_variable(UserWarning), UserWarning)
        kind: Any = category.identity()
        if not isinstance(category, ClassVariable) or not isinstance(kind, type) or not issubclass(kind, Warning):
            return None
        return cls(message, category, kind)

    def instance(self, tx: Tracer) -> Value:
        if isinstance(self.message, ExceptionVariable):
            return self.message
        assert isinstance(self.category, ClassVariable)
        return tx.type_call(self.category, [self.message], {})

    def action(self, filters: list[tuple[Any, ...]], module: str, line: int) -> str:
        """The action that the filters choose. The text is looked at only where a filter asks for it: that fixes sizes in it."""
        for action, message, kind, pattern, number in filters:
            fits = issubclass(self.kind, kind) and (pattern is None or _matches(pattern, module)) and number in (0, line)
            if fits and (message is None or _matches(message, self._text())):
                return str(action)
        return getattr(warnings, "defaultaction", "default")

    def _text(self) -> str:
        if isinstance(self.message, ExceptionVariable):
            return str(self.kind(*[part.constant() for part in self.message.children()]))
        return str(self.message.constant())


def _is_text(value: Value) -> bool:
    return type(value) is ConstantVariable and type(value.value) is str


def _is_shown_by_the_program(showwarning: Value) -> bool:
    return showwarning.identity() is not warnings._showwarning_orig  # type: ignore[attr-defined]  # private in the library


def _list_of_the_trace(tx: Tracer) -> ListVariable | None:
    """The list of `catch_warnings(record=True)`, where the trace has entered it and shows warnings in no other way."""
    module = tx.wrap(warnings, ModuleSource("warnings"))
    if _is_shown_by_the_program(module.get_attr(tx, "showwarning")):
        return None
    shown = module.get_attr(tx, "_showwarnmsg_impl")
    if not isinstance(shown, NamedMethodVariable) or shown.name != "append" or type(shown.owner) is not ListVariable:
        return None
    return shown.owner if shown.owner.source is None else None


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


def is_redirected(tx: Tracer) -> bool:
    """Whether the program has changed `sys.stderr` in this trace. What is written there after the graph would go elsewhere."""
    stored = tx.effects.global_value(vars(sys), "stderr")
    return stored is not None and stored is not tx.trace.builder.known(sys.stderr)


def _is_told_at_once(tx: Tracer) -> bool:
    """Whether a warning must be shown at its place in the program, which has a `showwarning` of its own or reads the list in
    which warnings are recorded."""
    shown = tx.wrap(warnings, ModuleSource("warnings")).get_attr(tx, "showwarning")
    if _is_shown_by_the_program(shown) or is_redirected(tx):
        return True
    recorded = tx.trace.builder.known(deferred_calls.list_of_warnings())
    return isinstance(recorded, ListVariable) and (recorded.is_read() or recorded in tx.effects.mutated)


def _matches(pattern: Any, text: str) -> bool:
    return pattern.match(text) is not None if isinstance(pattern, re.Pattern) else pattern == text
