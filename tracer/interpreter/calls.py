"""Calls: of Python functions (traced through), of library models, of torch operations (put in the graph)."""

from __future__ import annotations

import functools
import inspect
import itertools
from typing import Any

import torch

from tracer import library, user_marks
from tracer.discovery import import_modules
from tracer.effects.torch_state import preserve_global_state
from tracer.errors import TraceAnew, Unsupported
from tracer.graph_breaks import unsupported
from tracer.interpreter.binding import Passed, bind, bind_passed
from tracer.interpreter.module_calls import MODULE_CALLS, refuse_backward_hooks
from tracer.interpreter.object_model import guard_globals
from tracer.interpreter.overriding import may_override
from tracer.interpreter.real_values import real_value
from tracer.operators.facts import gives_something, takes_one_for_all, writes
from tracer.protocol.inlining import allows_inlining
from tracer.protocol.lookups import lookup, rely_on_code, rely_on_process
from tracer.protocol.models import code_model_of, instance_models, is_foldable, is_in_graph, is_of_plain_tensors, model_of
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker, invoke
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.roots import ObjectSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import SequenceVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import CellVariable, FunctionVariable, UserFunctionVariable
from tracer.variables.iterators.generators import GeneratorVariable
from tracer.variables.marked_calls import heed_marks, name_of
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.tensors.overrides import base_method
from tracer.variables.tensors.tensor import writing
from tracer.variables.tensors.wrappers import refuse_wrappers
from tracer.variables.values.constant import fold
from tracer.variables.values.symbolic import SymNodeVariable

import_modules(library)  # registers the models

_UNSUPPORTED_KINDS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def call_directly(
    tx: Tracer, callee: VariableTracker, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """A call whose instruction only pushes the result."""
    target, args, kwargs = callee.resolve_call(tx, args, kwargs)
    if isinstance(target, FunctionVariable):
        return inline(tx, target, args, kwargs, direct=True)
    return target.call(tx, args, kwargs)


def call_passing(tx: Tracer, callee: VariableTracker, args: list[VariableTracker], passed: Passed) -> VariableTracker:
    """`callee(*args, *rest, **keywords)`, as `call_directly`, where the last two are passed on."""
    target, args, kwargs = callee.resolve_call(tx, args, {})
    if isinstance(target, FunctionVariable) and not kwargs:
        return inline(tx, target, args, {}, direct=True, passed=passed)
    return target.call(tx, [*args, *passed.args(tx)], {**kwargs, **passed.kwargs(tx)})


def inline(
    tx: Tracer,
    function: FunctionVariable,
    args: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
    direct: bool = False,
    passed: Passed | None = None,
) -> VariableTracker:
    """`passed`: what the call passes on besides; there are no `kwargs` then.

    A function that is allowed in torch's graphs is traced through where it can be, as that follows sizes that vary."""
    replayer = tx.trace.replayer
    if replayer is not None and isinstance(function, UserFunctionVariable) and replayer.concerns(function, args):
        run = functools.partial(_inline, tx, function, args, kwargs, direct, passed)
        return replayer.call(tx, function, args, kwargs, passed, run)
    return _inline(tx, function, args, kwargs, direct, passed)


def _inline(
    tx: Tracer,
    function: FunctionVariable,
    args: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
    direct: bool,
    passed: Passed | None,
) -> VariableTracker:
    if not isinstance(function, UserFunctionVariable) or not user_marks.is_allowed_by_torch(function.value):
        return _traced_through(tx, function, args, kwargs, direct, passed)
    if id(function.value) in tx.output.options.called_whole:
        given = [*args, *(() if passed is None else passed.args(tx))]
        return call_in_graph(tx, function.value, given, kwargs if passed is None else passed.kwargs(tx))
    try:
        return _traced_through(tx, function, args, kwargs, direct, passed)
    except Unsupported:
        raise TraceAnew(calls_whole=id(function.value)) from None


def _traced_through(
    tx: Tracer,
    function: FunctionVariable,
    args: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
    direct: bool,
    passed: Passed | None,
) -> VariableTracker:
    code = function.code
    if isinstance(function, UserFunctionVariable):
        if function.any_of_its_code:
            guard_globals(tx, function)
        else:
            rely_on_code(function.value)
        if function.value in user_marks.run_only and function.source is not None:
            wrapped = tx.wrap(vars(function.value)["__wrapped__"], GenericAttrSource(function.source, "__wrapped__"))
            return wrapped.call(tx, args, kwargs) if passed is None else call_passing(tx, wrapped, args, passed)
    if code.co_flags & _UNSUPPORTED_KINDS:
        unsupported("coroutine", function=code.co_qualname)
    of_wrapper = tx.output.traces_wrapper and function.globals.get("__name__") in tx.output.modules_of_wrappers
    if not of_wrapper and not allows_inlining(function):
        unsupported("skipped-function", function=code.co_qualname, file=code.co_filename)
    if args and any(code is each for each in MODULE_CALLS):
        refuse_backward_hooks(tx, args[0], itertools.chain(args[1:], () if passed is None else passed.args(tx)))
    locals_ = None if passed is None else bind_passed(tx, function, args, passed)
    if locals_ is None and passed is not None:
        args, kwargs = [*args, *passed.args(tx)], passed.kwargs(tx)
    if locals_ is None:
        locals_ = dict(bind(tx, function, args, kwargs))
    cells = dict(zip(code.co_freevars, function.closure(tx)))
    for name in code.co_cellvars:
        cells[name] = CellVariable(locals_.pop(name, None))
    if code.co_flags & inspect.CO_GENERATOR:  # not `direct`: its frame runs at each `next`, not in this instruction
        return GeneratorVariable(tx.inner_frame(function, locals_, cells))
    return tx.inner_frame(function, locals_, cells, direct).run()


def call_library(
    tx: Tracer, callee: CallableVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """A call of something without Python code of its own."""
    function = callee.value
    if _is_of_torch(function):
        tx.trace.count_torch_call()
    heed_marks(tx, function)
    if user_marks.has_constant_result(function):
        return call_now(tx, function, args, kwargs)
    substitute = user_marks.substitute_of(function)
    if substitute is not None:
        return tx.wrap(substitute, ObjectSource(substitute, f"substitute of {name_of(function)}")).call(tx, args, kwargs)
    if may_override(tx, function, args, kwargs):
        result = tx.overridden(function, args, kwargs)
        if result is not None:
            return result
    model = model_of(function)
    if model is not None:
        if tx.output.world.fake_mode.met_wrapper and is_of_plain_tensors(model):
            refuse_wrappers(tx, name_of(function), [*args, *kwargs.values()])
        return invoke(model, (tx, *args), kwargs)
    model = instance_models.get(type(function)) or code_model_of(function)
    if model is not None:
        return invoke(model, (tx, callee, *args), kwargs)
    if is_in_graph(function) or user_marks.is_allowed(function):
        return call_in_graph(tx, function, args, kwargs)
    if is_foldable(function) and all(v.is_constant() or isinstance(v, SymNodeVariable) for v in (*args, *kwargs.values())):
        args, kwargs = [arg.specialize(tx) for arg in args], {name: value.specialize(tx) for name, value in kwargs.items()}
        return fold(tx, function, *(a.constant() for a in args), **{k: v.constant() for k, v in kwargs.items()})
    owner = getattr(function, "__objclass__", None)
    if owner is not None and args and owner in args[0].python_type().__mro__:
        cls = args[0].python_type()
        own = lookup(cls, function.__name__)[0] is not owner and not issubclass(cls, torch.Tensor)
        if own and not isinstance(args[0], UserObjectVariable):
            unsupported("unsupported-builtin", function=f"{name_of(function)} of {args[0].describe()}")
        return call_unbound(tx, owner, function.__name__, args, kwargs)
    if user_marks.is_opaque(function):
        unsupported("disabled-function", function=name_of(function))
    unsupported("unsupported-builtin", function=name_of(function))


def call_unbound_model(
    tx: Tracer, descriptor: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """Calls the model of a method of a class that is written in C."""
    return call_library(tx, CallableVariable(descriptor), args, kwargs)


def call_now(tx: Tracer, function: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
    """A call whose result the user promised to be the same each time: made once, while tracing."""
    what = f"an argument of {name_of(function)}, which is assumed to be constant"
    rely_on_process(f"the result of {name_of(function)} was assumed to be constant")
    with preserve_global_state():
        reals = [real_value(tx, arg, what) for arg in args]
        result = function(*reals, **{key: real_value(tx, value, what) for key, value in kwargs.items()})
    return tx.wrap(result, ObjectSource(result, f"{name_of(function)}()"))


def call_unbound(
    tx: Tracer, owner: type, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """`dict.get(d, key)`: calls the method of the built-in class, even if a subclass overrides it."""
    if isinstance(args[0], UserObjectVariable):
        return tx.call_base_method(owner, name, args[0], args[1:], kwargs)
    return base_method(tx, args[0], name, args[1:], kwargs)


def call_in_graph(tx: Tracer, function: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
    graph_args = tuple(_argument_of(tx, function, index, arg) for index, arg in enumerate(args))
    graph_kwargs = {key: _argument_of(tx, function, key, value) for key, value in kwargs.items()}
    if writes(function, kwargs):
        with writing(tx, *args, *kwargs.values()):
            result = tx.output.call_function(function, graph_args, graph_kwargs)
        # torch's Python binding gives the list itself that such an operator writes to, which has no result in its schema
        return result if result.is_none() or gives_something(function) else (args[0] if args else kwargs["self"])
    return tx.output.call_function(function, graph_args, graph_kwargs)


def _argument_of(tx: Tracer, function: Any, position: int | str, value: VariableTracker) -> Any:
    value = value.as_number(tx) if isinstance(value, NdarrayVariable) else value
    if isinstance(value, SymNodeVariable) and takes_one_for_all(function, position):
        value = value.specialize(tx)
    return as_graph_arg(tx, value)


def as_graph_arg(tx: Tracer, value: VariableTracker) -> Any:
    """An argument of a graph operation; containers are passed by value."""
    if isinstance(value, SequenceVariable):
        items = [as_graph_arg(tx, item) for item in value.items(tx)]
        return tuple(items) if issubclass(value.cls, tuple) else items
    if isinstance(value, DictVariable):
        value.values(tx)
    if isinstance(value, (FunctionVariable, UserFunctionVariable)):
        unsupported("not-a-graph-argument", value=value.describe())
    if isinstance(value, NdarrayVariable):
        value = value.as_number(tx)
    return value.graph_arg()


def _is_of_torch(function: Any) -> bool:
    """Whether a function is torch's, or comes from a module that is not known."""
    module = getattr(getattr(function, "__objclass__", function), "__module__", None)
    return not isinstance(module, str) or module.partition(".")[0] == "torch"
