"""Calls of cached functions (functools.lru_cache) in the output code: one generated function makes them in the program's order
and compares the results with those of the trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch

from shapes.printing import NAMESPACE, python_source
from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.guards.constants import same_constant
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.variables.containers.tuples import SizeVariable, TupleVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.codegen.codegen import Codegen


def emit_cache_calls(cg: Codegen) -> bool:
    """-> whether each cache has given what was traced. Emits nothing, and returns False, where none is asked."""
    if not cg.effects.cached.asked:
        return False
    function, loads = _CacheCheck(cg).function()
    cg.call_object(function, *loads)
    return True


class _CacheCheck:
    """Generates the function, and the loads of its arguments."""

    def __init__(self, cg: Codegen) -> None:
        self.cg = cg
        self._lines: list[str] = []
        self._parameters: dict[Source, str] = {}  # what is read for it -> its name
        self._namespace: dict[str, Any] = {
            **NAMESPACE,
            "same": same_constant,
            "Size": torch.Size,
        }

    def function(self) -> tuple[Callable[..., Any], list[Callable[[], None]]]:
        for number, call in enumerate(self.cg.effects.cached.asked):
            values = [self._value(arg) for arg in call.args]
            first = len(values) - len(call.names)
            named = [f"{name}={value}" for name, value in zip(call.names, values[first:], strict=True)]
            self._lines.append(f"r{number} = {self._value(call.function)}({', '.join([*values[:first], *named])})")
            conditions: list[str] = []
            self._compare(call.result, f"r{number}", conditions)
            self._lines.append(f"if not ({' and '.join(conditions)}): return False")
        self._lines.append("return True")
        text = f"def ask_caches({', '.join(self._parameters.values())}):\n" + "".join(f"    {line}\n" for line in self._lines)
        exec(compile(text, "<caches>", "exec"), self._namespace)
        asking = self._namespace.pop("ask_caches")
        _C.never_trace(asking.__code__)
        return asking, [functools.partial(self.cg.read, source) for source in self._parameters]

    def _constant(self, value: Any) -> str:
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        name = f"c{len(self._namespace)}"
        self._namespace[name] = value
        return name

    def _number(self, value: SymNodeVariable) -> str:
        number = value.example.node.reduced()
        symbols = self.cg.trace.output.world.torch_env.symbols_of(number)
        names = {symbol.sympy: self._source(cast(Source, symbol.label)) for symbol in symbols}
        return f"({python_source(number.sympy, names)})"

    def _source(self, source: Source) -> str:
        """The name of the parameter that is given what lies at a source."""
        return self._parameters.setdefault(source, f"v{len(self._parameters)}")

    def _value(self, value: VariableTracker) -> str:
        """An expression that gives the value."""
        if value.is_constant():
            return self._constant(value.constant())
        if isinstance(value, SymNodeVariable):
            return self._number(value)
        if type(value) in (TupleVariable, SizeVariable) and value.source is None:
            items = f"({''.join(f'{self._value(item)}, ' for item in value.children())})"
            return items if type(value) is TupleVariable else f"Size({items})"
        if value.source is None:
            unsupported("cannot-reconstruct", value=value.describe())
        return self._source(value.source)

    def _compare(self, value: VariableTracker, path: str, conditions: list[str]) -> None:
        """Appends the conditions under which the value at `path` is the one that was traced."""
        if value.is_constant():
            conditions.append(self._is_constant(value.constant(), path))
        elif isinstance(value, SymNodeVariable):
            conditions.append(f"type({path}) is int and {path} == {self._number(value)}")
        elif value.source is not None:
            conditions.append(f"{path} is {self._source(value.source)}")
        else:
            items = list(value.children())
            conditions.append(f"type({path}) is {self._constant(value.python_type())} and len({path}) == {len(items)}")
            for index, item in enumerate(items):
                self._compare(item, f"{path}[{index}]", conditions)

    def _is_constant(self, value: Any, path: str) -> str:
        if value is None or type(value) is bool:
            return f"{path} is {value}"
        if type(value) in (int, str):
            return f"type({path}) is {type(value).__name__} and {path} == {value!r}"
        return f"same({path}, {self._constant(value)})"
