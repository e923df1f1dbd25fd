"""Exceptions of the traced program: how they are made, raised and linked to the one that is handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.sources.reading import is_a
from tracer.variables.builders.literals import from_python
from tracer.variables.exceptions.exceptions import ExceptionVariable, HandledOutsideVariable, refuse_fields
from tracer.variables.values.constant import is_constant_value


def raise_error(tx: Tracer, cls: type[BaseException], *args: Any) -> NoReturn:
    raise_value(tx, tx.new_exception(cls, *map(from_python, args)))


def run_now(tx: Tracer, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise_caught(tx, error)


def raise_caught(tx: Tracer, error: Exception) -> NoReturn:
    made = new_exception(tx, type(error), *map(from_python, error.args))
    if isinstance(error, AttributeError) and is_constant_value(error.obj):  # for any other value `read_attribute` sets them
        made.set_field(tx, "name", from_python(error.name))
        made.set_field(tx, "obj", from_python(error.obj))
    for name, value in error.__dict__.items():  # such as the position in a pattern that `re.compile` refuses
        made.default_set_attr(tx, name, from_python(value))
    raise_value(tx, made)


def new_exception(tx: Tracer, cls: type[BaseException], *args: VariableTracker) -> ExceptionVariable:
    refuse_fields(cls)
    made = ExceptionVariable(cls)
    made.initialize(tx, cls, list(args), {})
    return made


def raise_value(tx: Tracer, value: VariableTracker) -> NoReturn:
    link_to_handled(tx, value)
    raise ObservedException(value)


def link_to_handled(tx: Tracer, value: VariableTracker) -> None:
    """Sets the `__context__` of an exception that is about to be raised."""
    assert isinstance(value, ExceptionVariable)
    if value.value is None and isinstance(tx.trace.handled, HandledOutsideVariable):
        value.set_field(tx, "__context__", tx.trace.handled)
    else:
        handled = handled_exception(tx)
        if handled is not None and handled is not value:
            value.link_context(tx, handled)


def raise_name_error(tx: Tracer, name: str, message: str) -> NoReturn:
    error = new_exception(tx, NameError, from_python(message))
    error.set_field(tx, "name", from_python(name))
    raise_value(tx, error)


def raise_attribute_error(tx: Tracer, owner: VariableTracker, name: VariableTracker, message: str) -> NoReturn:
    error = new_exception(tx, AttributeError, from_python(message))
    error.set_field(tx, "name", name)
    error.set_field(tx, "obj", owner)
    raise_value(tx, error)


def read_attribute(tx: Tracer, owner: VariableTracker, name: str) -> VariableTracker:
    """owner.name. An AttributeError gets its `name` and `obj` set here, as in CPython's PyObject_GetAttr."""
    try:
        return owner.get_attr(tx, name)
    except ObservedException as raised:
        error = raised.value
        if isinstance(error, ExceptionVariable) and issubclass(error.cls, AttributeError):
            if all(error.field(tx, field).is_none() for field in ("name", "obj")):
                error.set_field(tx, "name", from_python(name))
                error.set_field(tx, "obj", owner)
        raise


def handled_exception(tx: Tracer) -> VariableTracker | None:
    """sys.exception()"""
    handled = tx.trace.handled
    if isinstance(handled, HandledOutsideVariable):
        handled = handled.realize(tx)
        tx.trace.handle(handled)
    return None if handled.is_constant() else handled


def exception_instance(tx: Tracer, value: VariableTracker) -> VariableTracker:
    """The exception that `raise value` raises: a class is called, an instance is raised itself."""
    cls = value.identity()
    if is_a(cls, type) and issubclass(cls, BaseException):
        return value.call(tx, [], {})
    if not issubclass(value.python_type(), BaseException):
        raise_error(tx, TypeError, "exceptions must derive from BaseException")
    return value
