"""Calls of cached functions (functools.lru_cache) in the output code: one generated function makes them in the program's order
and compares the results with those of the trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch

from shapes.printing import NAMESPACE, python_source
from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.guards.constants import same_constant
from tracer.protocol.variable import VariableTracker
from tracer.sources import Source
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.sequence_base import SequenceVariable
from tracer.variables.containers.tuples import SizeVariable, TupleVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.codegen.codegen import Codegen


def emit_cache_calls(cg: Codegen) -> bool:
    """Emits the calls of cached functions; returns whether there are any. The local `cg.cached_results` holds a tuple of the
    results, or None if one differs from the trace."""
    if not cg.effects.cached.calls:
        return False
    text = _CacheCheck(cg)
    function, loads = text.function()
    cg.call_object(function, *loads)
    cg.cached_results, cg.cached_result_indices = cg.store_temporary(), text.result_indices
    return True


def load_cached_object(cg: Codegen, value: VariableTracker) -> None:
    """-> an object that is in a cache"""
    part = cg.effects.cached.parts[value]
    if part.parent is None:
        cg.asm.load_fast(cg.cached_results)
        cg.load_const(cg.cached_result_indices[value])
    elif part.is_attribute:
        parent = part.parent
        cg.call_object(_C.instance_dict, lambda: cg.load(parent))
        cg.load_const(part.key)
    else:
        cg.load(part.parent)
        cg.load_const(part.key)
    cg.getitem()


class _CacheCheck:
    """Generates the function, and the loads of its arguments."""

    def __init__(self, cg: Codegen) -> None:
        self.cg = cg
        self.cached = cg.effects.cached
        self.result_indices: dict[VariableTracker, int] = {}  # result -> its index in the tuple that the function returns
        self._lines: list[str] = []
        self._paths: dict[VariableTracker, str] = {}
        self._parameters: dict[Any, tuple[str, Callable[[], None]]] = {}
        self._namespace: dict[str, Any] = {
            **NAMESPACE,
            "attributes": _C.instance_dict,
            "same": same_constant,
            "Size": torch.Size,
        }

    def function(self) -> tuple[Callable[..., Any], list[Callable[[], None]]]:
        results: dict[VariableTracker, str] = {}
        for number, call in enumerate(self.cached.calls):
            values = [self._value(arg) for arg in call.args]
            first = len(values) - len(call.names)
            named = [f"{name}={value}" for name, value in zip(call.names, values[first:], strict=True)]
            self._lines.append(f"r{number} = {self._value(call.function)}({', '.join([*values[:first], *named])})")
            conditions: list[str] = []
            self._compare(call.result, f"r{number}", conditions)
            if conditions:
                self._lines.append(f"if not ({' and '.join(conditions)}): return None")
            if call.result not in results:
                self.result_indices[call.result] = len(results)
                results[call.result] = f"r{number}"
        self._lines.append(f"return ({''.join(f'{name}, ' for name in results.values())})")
        names = [name for name, _ in self._parameters.values()]
        text = f"def ask_caches({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in self._lines)
        exec(compile(text, "<caches>", "exec"), self._namespace)
        asking = self._namespace.pop("ask_caches")
        _C.never_trace(asking.__code__)
        return asking, [load for _, load in self._parameters.values()]

    def _parameter(self, key: Any, load: Callable[[], None]) -> str:
        """The name of a parameter of the function."""
        return self._parameters.setdefault(key, (f"v{len(self._parameters)}", load))[0]

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
        return self._parameter(source, lambda: self.cg.read(source))

    def _value(self, value: VariableTracker) -> str:
        """An expression that gives the value."""
        if value.is_constant():
            return self._constant(value.constant())
        if value in self._paths:
            return self._paths[value]
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
        part = self.cached.parts.get(value)
        if value.is_constant():
            conditions.append(self._is_constant(value.constant(), path))
        elif isinstance(value, SymNodeVariable):
            conditions.append(f"type({path}) is int and {path} == {self._number(value)}")
        elif part is None or value in self._paths:
            conditions.append(f"{path} is {self._value(value)}")
        else:
            self._paths[value] = path
            self._compare_parts(value, path, conditions)

    def _is_constant(self, value: Any, path: str) -> str:
        if value is None or type(value) is bool:
            return f"{path} is {value}"
        if type(value) in (int, str):
            return f"type({path}) is {type(value).__name__} and {path} == {value!r}"
        return f"same({path}, {self._constant(value)})"

    def _compare_parts(self, value: VariableTracker, path: str, conditions: list[str]) -> None:
        conditions.append(f"type({path}) is {self._constant(value.python_type())}")
        if isinstance(value, SequenceVariable):
            items = list(value.children())
            conditions.append(f"len({path}) == {len(items)}")
            for index, item in enumerate(items):
                self._compare(item, f"{path}[{index}]", conditions)
            return
        if isinstance(value, DictVariable):
            held = {key: item for key, (_, item) in value.entries.items()}
        else:
            held, path = self.cg.effects.attributes(value), f"attributes({path})"
        conditions.append(f"list({path}) == {list(held)!r}")
        for key, item in held.items():
            self._compare(item, f"{path}[{key!r}]", conditions)
