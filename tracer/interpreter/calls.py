"""Calls: of Python functions (traced through), of library models, of torch operations (put in the graph)."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable
from typing import Any, NoReturn

import torch

from tracer import user_marks
from tracer.graph.array_twins import numpy_dtype
from tracer.graph_breaks import unsupported
from tracer.interpreter.binding import bind
from tracer.interpreter.object_model import MODULE_CALLS
from tracer.interpreter.real_values import real_value
from tracer.library import all_models  # noqa: F401  (registers them)
from tracer.library.registry import (
    allows_inlining,
    code_model_of,
    instance_models,
    is_foldable,
    is_in_graph,
    is_own_guard,
    model_of,
)
from tracer.operators.facts import takes_one_for_all, writes
from tracer.preserve import preserve_global_state
from tracer.sources import GenericAttrSource, ObjectSource, Source
from tracer.sources.reading import is_a
from tracer.variables.arrays import NdarrayVariable
from tracer.variables.base import ObservedException, VariableTracker, invoke
from tracer.variables.callables import CallableVariable
from tracer.variables.constant import fold
from tracer.variables.exceptions import ExceptionVariable, HandledOutsideVariable, refuse_fields
from tracer.variables.functions import CellVariable, FunctionVariable, UserFunctionVariable, cell_of
from tracer.variables.generators import GeneratorVariable
from tracer.variables.iterators import ItemIterator
from tracer.variables.literals import from_python
from tracer.variables.lookups import lookup, rely_on_code, rely_on_process
from tracer.variables.mappings import DictVariable, entries_are_copied, pairs_of
from tracer.variables.objects import UserObjectVariable
from tracer.variables.overrides import base_method
from tracer.variables.sequences import SequenceVariable, TupleVariable
from tracer.variables.symbolic import SymNodeVariable
from tracer.variables.tensor import TensorVariable, writing
from tracer.variables.wrappers import refuse_wrappers

_UNSUPPORTED_KINDS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


class Calls:
    """How values are called, and how values of Python become tracked ones. Mixed into the translator."""

    def wrap(self, value: Any, source: Source) -> VariableTracker:
        tx: Any = self
        return tx.trace.builder(tx, value, source)

    def guard(self, guard: Any) -> None:
        tx: Any = self
        if not (tx.is_polyfill and is_own_guard(guard)):
            tx.trace.guard(guard)

    def literal(self, value: Any) -> VariableTracker:
        return from_python(value)

    def new_dict(self, items: dict[str, VariableTracker]) -> DictVariable:
        return DictVariable({key: (from_python(key), value) for key, value in items.items()})

    def tuple_of(self, items: Iterable[VariableTracker]) -> TupleVariable:
        return TupleVariable(items)

    def cell(self, cell: types.CellType, source: Source) -> CellVariable:
        tx: Any = self
        known = tx.trace.builder.known(cell)
        return known if known is not None else tx.trace.builder.remember(cell, cell_of(cell, source))

    # -- exceptions --------------------------------------------------------------------------------------------------

    def raise_error(self, cls: type[BaseException], *args: Any) -> NoReturn:
        self.raise_value(self.new_exception(cls, *map(from_python, args)))

    def new_exception(self, cls: type[BaseException], *args: VariableTracker) -> ExceptionVariable:
        tx: Any = self
        refuse_fields(cls)
        made = ExceptionVariable(cls)
        made.initialize(tx, cls, list(args), {})
        return made

    def raise_value(self, value: VariableTracker) -> NoReturn:
        self.link_to_handled(value)
        raise ObservedException(value)

    def link_to_handled(self, value: VariableTracker) -> None:
        """The context of an exception that is about to be raised."""
        tx: Any = self
        assert isinstance(value, ExceptionVariable)
        if value.value is None and isinstance(tx.trace.handled, HandledOutsideVariable):
            value.set_field(tx, "__context__", tx.trace.handled)
        else:
            handled = self.handled_exception()
            if handled is not None and handled is not value:
                value.link_context(tx, handled)

    def raise_name_error(self, name: str, message: str) -> NoReturn:
        tx: Any = self
        error = self.new_exception(NameError, from_python(message))
        error.set_field(tx, "name", from_python(name))
        self.raise_value(error)

    def raise_attribute_error(self, owner: VariableTracker, name: VariableTracker, message: str) -> NoReturn:
        tx: Any = self
        error = self.new_exception(AttributeError, from_python(message))
        error.set_field(tx, "name", name)
        error.set_field(tx, "obj", owner)
        self.raise_value(error)

    def read_attribute(self, owner: VariableTracker, name: str) -> VariableTracker:
        """owner.name; an AttributeError that comes out of it says so, as CPython's PyObject_GetAttr makes it."""
        tx: Any = self
        try:
            return owner.get_attr(tx, name)
        except ObservedException as raised:
            error = raised.value
            if isinstance(error, ExceptionVariable) and issubclass(error.cls, AttributeError):
                if all(error.field(tx, field).is_none() for field in ("name", "obj")):
                    error.set_field(tx, "name", from_python(name))
                    error.set_field(tx, "obj", owner)
            raise

    def handled_exception(self) -> VariableTracker | None:
        """sys.exception()"""
        tx: Any = self
        handled = tx.trace.handled
        if isinstance(handled, HandledOutsideVariable):
            handled = tx.trace.handled = handled.realize(tx)
        return None if handled.is_constant() else handled

    def exception_instance(self, value: VariableTracker) -> VariableTracker:
        """`raise value`: a class is called, an instance stands for itself."""
        tx: Any = self
        cls = value.identity()
        if is_a(cls, type) and issubclass(cls, BaseException):
            return value.call(tx, [], {})
        if not issubclass(value.python_type(), BaseException):
            self.raise_error(TypeError, "exceptions must derive from BaseException")
        return value

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, callee: VariableTracker, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """A call whose instruction only pushes the result."""
        tx: Any = self
        target, args, kwargs = callee.resolve_call(tx, args, kwargs)
        if isinstance(target, FunctionVariable):
            return self.inline(target, args, kwargs, direct=True)
        return target.call(tx, args, kwargs)

    def inline(
        self,
        function: FunctionVariable,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
        direct: bool = False,
    ) -> VariableTracker:
        tx: Any = self
        code = function.code
        if isinstance(function, UserFunctionVariable):
            if function.any_of_its_code:
                tx.guard_globals(function)
            else:
                rely_on_code(function.value)
            if function.value in user_marks.run_only and function.source is not None:
                source = GenericAttrSource(function.source, "__wrapped__")
                return tx.wrap(function.value.__wrapped__, source).call(tx, args, kwargs)  # type: ignore[no-any-return,attr-defined]
        if code.co_flags & _UNSUPPORTED_KINDS:
            unsupported("coroutine", function=code.co_qualname)
        of_wrapper = tx.output.traces_wrapper and function.globals.get("__name__") in tx.output.modules_of_wrappers
        if not of_wrapper and not allows_inlining(function):
            unsupported("skipped-function", function=code.co_qualname, file=code.co_filename)
        if args and any(code is each for each in MODULE_CALLS):
            tx.refuse_backward_hooks(args[0], args[1:])
        locals_: dict[str, Any] = dict(bind(tx, function, args, kwargs))
        cells = dict(zip(code.co_freevars, function.closure(tx)))
        for name in code.co_cellvars:
            cells[name] = CellVariable(locals_.pop(name, None))
        frame = type(tx)(tx.trace, code, function.globals, locals_, cells, function, tx, direct)
        if code.co_flags & inspect.CO_GENERATOR:
            return GeneratorVariable(frame)
        return frame.run()

    def call_library(
        self, callee: CallableVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """A call of something without Python code of its own."""
        tx: Any = self
        function = callee.value
        if _is_of_torch(function):
            tx.trace.torch_calls += 1
        if user_marks.is_disallowed(function):
            unsupported("disallowed-in-graph", function=name_of(function))
        if user_marks.has_constant_result(function):
            return self.call_now(function, args, kwargs)
        if tx.may_override(function, args, kwargs):
            result = tx.overridden(function, args, kwargs)
            if result is not None:
                return result  # type: ignore[no-any-return]
        model = model_of(function)
        if model is not None:
            if tx.output.world.fake_mode.met_wrapper:
                refuse_wrappers(model, name_of(function), [*args, *kwargs.values()])
            return invoke(model, (tx, *args), kwargs)
        model = instance_models.get(type(function)) or code_model_of(function)
        if model is not None:
            return invoke(model, (tx, callee, *args), kwargs)
        if is_in_graph(function) or user_marks.is_allowed(function):
            return self.call_in_graph(function, args, kwargs)
        if is_foldable(function) and all(v.is_constant() for v in (*args, *kwargs.values())):
            return fold(tx, function, *(a.constant() for a in args), **{k: v.constant() for k, v in kwargs.items()})
        owner = getattr(function, "__objclass__", None)
        if owner is not None and args and owner in args[0].python_type().__mro__:
            cls = args[0].python_type()
            own = lookup(cls, function.__name__)[0] is not owner and not issubclass(cls, torch.Tensor)
            if own and not isinstance(args[0], UserObjectVariable):
                unsupported("unsupported-builtin", function=f"{name_of(function)} of {args[0].describe()}")
            return self.call_unbound(owner, function.__name__, args, kwargs)
        if user_marks.is_opaque(function):
            unsupported("disabled-function", function=name_of(function))
        unsupported("unsupported-builtin", function=name_of(function))

    def call_unbound_model(
        self, descriptor: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """The model of a method of a class that is written in C."""
        return self.call_library(CallableVariable(descriptor), args, kwargs)

    def call_now(self, function: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """A call whose result the user promised to be the same each time: made once, while tracing."""
        tx: Any = self
        what = f"an argument of {name_of(function)}, which is assumed to be constant"
        rely_on_process(f"the result of {name_of(function)} was assumed to be constant")
        with preserve_global_state():
            reals = [real_value(tx, arg, what) for arg in args]
            result = function(*reals, **{key: real_value(tx, value, what) for key, value in kwargs.items()})
        return tx.wrap(result, ObjectSource(result, f"{name_of(function)}()"))

    def call_unbound(
        self, owner: type, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """`dict.get(d, key)`: the method of the built-in class, whatever a subclass made of it."""
        tx: Any = self
        if isinstance(args[0], UserObjectVariable):
            return tx.call_base_method(owner, name, args[0], args[1:], kwargs)
        return base_method(tx, args[0], name, args[1:], kwargs)

    def call_in_graph(self, function: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        tx: Any = self
        graph_args = tuple(self._argument_of(function, index, arg) for index, arg in enumerate(args))
        graph_kwargs = {key: self._argument_of(function, key, value) for key, value in kwargs.items()}
        if writes(function, kwargs):
            with writing(tx, *args, *kwargs.values()):
                return tx.output.call_function(function, graph_args, graph_kwargs)
        return tx.output.call_function(function, graph_args, graph_kwargs)

    def _argument_of(self, function: Any, position: int | str, value: VariableTracker) -> Any:
        if isinstance(value, SymNodeVariable) and takes_one_for_all(function, position):
            value = value.specialize(self)  # type: ignore[arg-type]
        return self.as_graph_arg(value)

    def as_graph_arg(self, value: VariableTracker) -> Any:
        """An argument of a graph operation; containers are passed by value."""
        tx: Any = self
        if isinstance(value, SequenceVariable):
            items = [self.as_graph_arg(item) for item in value.items(tx)]
            return tuple(items) if issubclass(value.cls, tuple) else items
        if isinstance(value, DictVariable):
            value.values(tx)
        if isinstance(value, (FunctionVariable, UserFunctionVariable)):
            unsupported("not-a-graph-argument", value=value.describe())
        if isinstance(value, NdarrayVariable):
            value = value.as_number(tx)
        return value.graph_arg()

    def array_of(self, tensor: TensorVariable) -> VariableTracker:
        """The array that shares a tensor's memory."""
        numpy_dtype(tensor.fake.dtype)
        return NdarrayVariable(tensor)

    # -- containers ------------------------------------------------------------------------------------------------------

    def as_mapping(self, value: VariableTracker) -> list[tuple[VariableTracker, VariableTracker]] | None:
        """The pairs of something with `keys()`, None for other values."""
        tx: Any = self
        if isinstance(value, UserObjectVariable) and isinstance(value.storage, DictVariable):
            if entries_are_copied(value.cls):
                return value.storage.pairs(tx)
        if isinstance(value, UserObjectVariable) and value.special(tx, "keys") is not None:
            keys = value.call_special(tx, "keys")
            assert keys is not None
            return [(key, value.get_item(tx, key)) for key in keys.unpack(tx)]
        if value.python_type() is dict:
            return value.call_method(tx, "copy", [], {}).pairs(tx)  # type: ignore[attr-defined]
        return None

    def pairs_of(self, value: VariableTracker) -> list[tuple[VariableTracker, VariableTracker]]:
        tx: Any = self
        return pairs_of(tx, value)

    def getitem_iterator(self, value: VariableTracker) -> VariableTracker:
        return ItemIterator(value)

    # -- globals -----------------------------------------------------------------------------------------------------------

    def global_effect(self, globals_: dict[str, Any], name: str) -> VariableTracker | None:
        tx: Any = self
        value = tx.effects.global_value(globals_, name)
        return value if isinstance(value, VariableTracker) else None


def _is_of_torch(function: Any) -> bool:
    """Also of what nobody knows where it is from."""
    module = getattr(getattr(function, "__objclass__", function), "__module__", None)
    return not isinstance(module, str) or module.partition(".")[0] == "torch"


def name_of(function: Any) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None) or repr(function)
    return f"{module}.{name}" if module else name
