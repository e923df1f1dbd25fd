"""Models of the builtins that look at the frame that calls them: `locals`, `globals`, `vars()`, `dir()`, and `eval` of a text."""

from __future__ import annotations

import ast
import functools
import types
from typing import TYPE_CHECKING

from tracer.errors import Unsupported
from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.functions.python_functions import NestedFunctionVariable
from tracer.variables.module_namespace import ModuleNamespaceVariable, module_of_namespace

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

# Functions that would look at the frame of the evaluated text, and syntax whose own frame does not see the locals around it.
_LOOK_AT_FRAMES = frozenset({"locals", "vars", "dir", "eval", "exec", "globals", "super", "breakpoint"})
_WITH_A_FRAME = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom,
)  # fmt: skip


@models(locals)
def locals_of_caller(tx: Tracer) -> Value:
    try:
        values = tx.named_values()
    except Unsupported as refused:  # of a value that is read for the first time: no break may be at this very call
        unsupported("frame-introspection", function=f"locals() with a value that breaks the graph ({refused.id})")
    if values is None:
        unsupported("frame-introspection", function="locals()")
    tx.gave_locals = True
    return tx.new_dict(values)


@models(globals)
def globals_of_caller(tx: Tracer) -> Value:
    name = module_of_namespace(tx.globals)
    if name is None:
        unsupported("frame-introspection", function="globals() of code that is in no module")
    return ModuleNamespaceVariable(name, tx.globals)


@models(eval)
def _eval(tx: Tracer, source: Value, *namespaces: Value) -> Value:
    """An expression that a text holds, which sees the locals of the frame, as a function with these for arguments."""
    _break_where_given_a_namespace(namespaces, "eval", source)
    text = source.constant() if source.is_constant() else None
    values = tx.named_values() if not namespaces else None
    if values is None or type(text) is not str:
        unsupported("frame-introspection", function="eval() of something else than a text that is known")
    code = function_of(text.lstrip(" \t"), tuple(values))
    if code is None:
        unsupported("frame-introspection", function="eval() of such an expression")
    evaluated = NestedFunctionVariable(code, tx.globals, tx.function, code.co_qualname)
    named = code.co_varnames[: code.co_argcount]
    try:
        return tx.inline(evaluated, [values[name] for name in named], {})
    except Unsupported as refused:  # a call of `eval` in output code would see the locals of that: CPython runs all of the frame
        step = 0 if tx.parent is None else tx.parent.break_step()
        unsupported("frame-introspection", function=f"eval() of a text that breaks the graph ({refused.id})", break_step=step)


@functools.lru_cache(maxsize=512)
def function_of(text: str, names: tuple[str, ...]) -> types.CodeType | None:
    """The code of a function of those of the names that an expression uses; None if it is no function of them, or no expression,
    where CPython raises the error."""
    try:
        body = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    nodes = list(ast.walk(body))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    if used & _LOOK_AT_FRAMES or any(isinstance(node, _WITH_A_FRAME) for node in nodes):
        return None
    arguments = ast.arguments([], [ast.arg(name) for name in names if name in used], None, [], [], None, [])
    expression = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, body)))
    function = eval(compile(expression, "<string>", "eval"), {})
    code: types.CodeType = function.__code__
    return code.replace(co_name="<module>", co_qualname="<module>")


@models(exec)
def _exec(tx: Tracer, source: Value, *namespaces: Value, **options: Value) -> Value:
    _break_where_given_a_namespace(namespaces, "exec", source)
    unsupported("frame-introspection", function="exec() without a namespace")


def _break_where_given_a_namespace(namespaces: tuple[Value, ...], name: str, source: Value) -> None:
    """Code that is given a namespace does not see the frame: CPython makes the call, and the trace goes on behind it."""
    if namespaces and not namespaces[0].is_constant():
        unsupported("side-effect-call", name=name, value=source.describe())


@models(breakpoint)
def _breakpoint(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    unsupported("frame-introspection", function="breakpoint()")
