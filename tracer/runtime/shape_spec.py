"""`ShapeSpec`: what a user declares of the sizes and ints among a function's arguments, and how that applies to one call.

The sizes, as named integers with bounds and relations, form a `shapes.domain.Domain`. This module reads the notations in which
a user may write them, and finds the values in a call that they are about (`argument_paths`).
"""

from __future__ import annotations

import ast
import dataclasses
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import sympy
import torch

from shapes.domain import Domain, OutsideDomain, Point, Variable, show
from shapes.parsing import ParseError, parse_condition, parse_integer, variable
from shapes.printing import readable_sides
from shapes.sympy_functions import PythonMod
from tracer.bytecode.slots import argument_slots
from tracer.errors import ConstraintViolationError, UserError
from tracer.runtime.argument_paths import Path, follow, parse_path, path_text
from tracer.runtime.spec_messages import GRAMMAR, computed_only, hint_for, meant_line, unknown_name
from tracer.runtime.thread_state import MODES
from tracer.sources.base import Source
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource

_STRIDED = re.compile(r"(.*?)\bstrided\b(.*)")  # B, S strided, or B, S strided R, 1
_RANGE = re.compile(r"\s*(\w+)\s+in\s+(-?\d+)\s*\.\.\s*(-?\d+)?(?:\s+by\s+(\d+))?\s*")  # S in 8..4096 by 8
_MOST_DOMAINS = 64  # that a spec keeps
_MODES = re.compile(r"modes\s*=([^=].*)")  # modes = no_grad, inference_mode


class _Unreadable(UserError):
    """A text that is no expression, relation or list of dims."""


class ShapeSpec:
    """Names, bounds and relations of the dims of arguments, and of ints among them.

    >>> ShapeSpec({"x": ["B", "S"], "mask": {0: "B", 3: "S + 1"}}, B=(1, 256), S=(1, 4096, 8), relations=["B <= S"])
    >>> ShapeSpec("x: B, S; mask: B, _, _, S + 1; n: N; B in 1..256; S in 1..4096 by 8; N in 0..64; B <= S")

    The keys are names of parameters (`"batch['ids']"` is an item of one, `"self.cache.keys"` an attribute; nested dicts and lists
    say items too), the dims a list or a dict from dim to what is found there: a name, an expression over names, a number, or a
    `torch.export.Dim`. A tensor that is `strided` may lie in memory in any way, as slices and transposed tensors do:
    "x: B, S strided", or strided=["x"]; its strides can be said, too: "x: B, S strided R, 1; R >= S", or
    strided={"x": ["R", 1]}. Others lie as in the call that is traced. Of an argument that is an int, the one thing that stands
    there is the int. What is None or left out is
    not declared. What has no bounds is 1 or more; (min, max) and (min, max, multiple_of) bound it.
    `modes="no_grad, inference_mode"` (in a text `modes = no_grad, inference_mode`) names the modes of torch that calls come in:
    `precompile` certifies for each of them; without it, for that of the thread that asks. There is `enable_grad`, too.
    Raises UserError for what cannot be read.

    ```python
    spec = tracer.ShapeSpec({"x": ["B", "S"]}, B=(1, 8), S=(1, 64))
    compiled = tracer.compile(lambda x: x.flatten(), shapes=spec)
    assert tracer.precompile(compiled, example=(torch.ones(3, 5),)).certified
    ```
    """

    def __init__(
        self,
        shapes: Mapping[str, Any] | str,
        relations: Sequence[str] = (),
        *,
        strided: Any = (),
        modes: str | Sequence[str] = (),
        **sizes: Any,
    ) -> None:
        self.modes: tuple[str, ...] = _read_modes(modes)
        self.dims: dict[Path, dict[int, Any]] = {}
        self.strided: dict[Path, list[Any]] = {}  # what each stride is; None for any; empty if all are any
        self._domains: dict[Any, Domain] = {}  # by places
        self._fields: dict[str, dict[str, Any]] = {}  # name -> fields of its Variable
        self._said: dict[str, str] = {}  # name -> the first clause that bounds or relates it
        relations_read: list[Any] = []
        if isinstance(shapes, str):
            relations_read += self._read_text(shapes)
        else:
            for key, value in shapes.items():
                self._read_dims(parse_path(key), value)
        for text in [strided] if isinstance(strided, str) else strided:
            self._set_strided(parse_path(text), strided[text] if isinstance(strided, Mapping) else ())
        for name, bounds in sizes.items():
            self._said.setdefault(name, f"{name}={bounds!r}")
            self._set_bounds(name, **_bounds_of_keyword(name, bounds))
        for text in () if isinstance(relations, str) else relations:
            relations_read += self._read_clause(text)
        self.relations = tuple(relations_read)
        of_dims = _names(self._dim_exprs())
        of_strides = _names(expr for strides in self.strided.values() for expr in strides if expr is not None)
        for name in [*of_dims, *of_strides]:
            fields = self._fields.setdefault(name, {})
            if name in of_strides and name not in of_dims:
                fields.setdefault("min", 0)
        self._check_names(of_strides)
        self.variables = {name: _variable(name, fields) for name, fields in self._fields.items()}

    @classmethod
    def of(cls, spec: Any) -> ShapeSpec:
        """The spec itself, or that of its dict or string form."""
        return spec if isinstance(spec, cls) else cls(spec)

    # -- reading -------------------------------------------------------------------------------------------------

    def _read_text(self, text: str) -> list[Any]:
        clauses = filter(None, map(str.strip, re.split(r"[;\n]", text)))
        return [relation for clause in clauses for relation in self._read_clause(clause)]

    def _read_clause(self, clause: str) -> list[Any]:
        """Reads the dims of an argument, or bounds; returns the relations in the clause."""
        path, colon, dims = clause.partition(":")
        named = _MODES.fullmatch(clause.strip())
        if named:
            self.modes = _read_modes(named[1])
            return []
        try:
            if not colon:
                return self._read_relation(clause)
            self._read_dims(_read_path(path), dims)
        except _Unreadable as error:
            message = error.message if clause in error.message else f"{error.message}, in {clause!r}"
            raise UserError(message, hint=hint_for(clause)) from None
        return []

    def _dim_exprs(self) -> list[Any]:
        return [expr for dims in self.dims.values() for expr in dims.values()]

    def _check_names(self, of_strides: list[str]) -> None:
        """Raises UserError for a name that no call tells the value of: one that is at no dim or stride, or at none alone."""
        exprs = [*self._dim_exprs(), *(expr for strides in self.strided.values() for expr in strides if expr is not None)]
        at_dims = _names(exprs)
        for name in self._fields:
            if name not in at_dims:
                message, hint = unknown_name(name, self._said.get(name, name), at_dims)
                raise UserError(f"{message}; declared are {self._dims_text()!r}", hint=hint)
            if not any(expr.is_Symbol and expr.name == name for expr in exprs):
                if name not in of_strides:  # else the domain of the call says it
                    self._refuse_computed(name)

    def _refuse_computed(self, name: str) -> NoReturn:
        path, expr = next((path, expr) for path, dims in self.dims.items() for expr in dims.values() if name in _names([expr]))
        fields = self._fields[name]
        message, hint = computed_only(name, expr, self._dims_text(path), (fields.get("min", 1), fields.get("max")))
        raise UserError(message, hint=hint)

    def _dims_text(self, *paths: Path) -> str:
        """`x: B, S; mask: B, _, S + 1`"""
        texts = []
        for path in paths or self.dims:
            dims = self.dims[path]
            named = [show(dims[dim]) if dim in dims else "_" for dim in range(max(dims, default=-1) + 1)]
            texts.append(f"{path_text(path)}: {', '.join(named)}")
        return "; ".join(texts)

    def _read_dims(self, path: Path, value: Any) -> None:
        if value is None:
            return
        if isinstance(value, str):
            value = self._without_strided(path, value)
            value = [value] if _RANGE.fullmatch(value) else _split_dims(value)
        elif isinstance(value, int) or hasattr(value, "__name__"):
            value = [value]  # an int argument, which has one place
        items = dict(value.items() if isinstance(value, Mapping) else enumerate(value))
        is_nested = any(isinstance(item, (Mapping, list, tuple)) for item in items.values())
        if is_nested or any(not isinstance(key, int) for key in items):
            for key, item in items.items():
                self._read_dims((*path, key), item)
            return
        self.dims[path] = {
            dim: expr for dim, item in items.items() if (expr := self._dim_expression(path, dim, item)) is not None
        }

    def _without_strided(self, path: Path, text: str) -> str:
        """`B, S strided` -> `B, S`; what is said of the strides is noted."""
        found = _STRIDED.fullmatch(text.strip())
        if found is None:
            return text
        dims, strides = map(str.strip, found.groups())
        if not dims:
            raise UserError(f"{path_text(path)}: {text.strip()} declares no dims", hint="write B, S strided, or _, _ strided.")
        self._set_strided(path, _split_dims(strides) if strides else ())
        return dims

    def _set_strided(self, path: Path, strides: Sequence[Any]) -> None:
        self.strided[path] = [self._dim_expression(path, dim, each) for dim, each in enumerate(strides)]
        self.dims.setdefault(path, {})

    def _dim_expression(self, path: Path, dim: int, item: Any) -> Any:
        if item is None or (isinstance(item, str) and item.strip() == "_"):
            return None
        if isinstance(item, int) and not isinstance(item, bool):
            return sympy.Integer(item)
        if isinstance(item, str):
            named = _RANGE.fullmatch(item)
            return self._read_range(named) if named else _parse(parse_integer, item)
        return self._read_export_dim(path, dim, item)

    def _read_export_dim(self, path: Path, dim: int, item: Any) -> Any:
        """`Dim("batch", min=1, max=64)`, `2*batch + 1`, `Dim.AUTO`."""
        name = getattr(item, "__name__", None)
        if name is None:
            kind = getattr(getattr(item, "type", None), "name", "")
            if kind not in ("AUTO", "DYNAMIC", "STATIC"):
                raise UserError(f"{path_text(path)} dim {dim} was declared as {item!r}", hint="give a name, a number or a Dim.")
            if kind == "STATIC":
                return None
            name = "_".join([*(re.sub(r"\W", "_", str(part)) for part in path), str(dim)])
            item = types.SimpleNamespace(__name__=name, min=getattr(item, "min", None), max=getattr(item, "max", None))
        root = getattr(item, "root", item)
        bounds = {key: getattr(root, key) for key in ("min", "max") if isinstance(getattr(root, key, None), int)}
        self._set_bounds(root.__name__, **{"min": 0, **bounds})
        return _parse(parse_integer, name)

    def _read_range(self, found: re.Match[str]) -> Any:
        name, low, high, step = found.groups()
        self._set_bounds(name, min=int(low), max=int(high) if high else None, multiple_of=int(step) if step else None)
        return _parse(parse_integer, name)

    def _set_bounds(self, name: str, **fields: Any) -> None:
        known = self._fields.setdefault(name, {})
        for key, value in fields.items():
            if value is not None and known.setdefault(key, value) != value:
                raise UserError(f"{name} was declared twice, with {key}={known[key]} and {key}={value}")

    def _read_relation(self, text: str) -> list[Any]:
        """The conjuncts of a relation, without bounds on one size, which become fields of its Variable."""
        named = _RANGE.fullmatch(text)
        if named:
            self._said.setdefault(named[1], text)
            self._read_range(named)
            return []
        condition = _parse(parse_condition, text)
        for name in _names([condition]):
            self._said.setdefault(name, text)
            self._fields.setdefault(name, {})
        return [part for part in sympy.And.make_args(condition) if not self._is_bound_of_one_size(part)]

    def _is_bound_of_one_size(self, condition: Any) -> bool:
        if not isinstance(condition, sympy.core.relational.Relational):
            return False
        term, operator, value = readable_sides(condition)
        if isinstance(term, PythonMod) and term.args[0].is_Symbol and term.args[1].is_Integer and value == 0:
            if operator == "==":
                self._set_bounds(term.args[0].name, multiple_of=int(term.args[1]))
            return operator == "=="
        if not (term.is_Symbol and value.is_Integer and operator in ("<", "<=", ">", ">=")):
            return False
        if operator[0] == "<":
            self._set_bounds(term.name, max=int(value) - (operator == "<"))
        else:
            self._set_bounds(term.name, min=int(value) + (operator == ">"))
        return True

    # -- one call ------------------------------------------------------------------------------------------------

    def bind(self, function: types.FunctionType, args: Sequence[Any]) -> Declared:
        """What is declared of the sizes of this call. Arguments that are None have no sizes."""
        slots = dict(zip(argument_slots(function.__code__), args, strict=True))
        tensors: dict[Path, DeclaredTensor] = {}
        ints: dict[Path, DeclaredInt] = {}
        for path, dims in self.dims.items():
            value, source = follow(function, slots, path)
            if isinstance(value, torch.Tensor):
                strides = self._strides_of(path, value) if path in self.strided else ()
                tensors[path] = DeclaredTensor(path, value, source, _dims_of_tensor(path, dims, value), strides)
            elif path in self.strided and value is not None:
                raise UserError(f"{path_text(path)} was declared as strided, but is a {type(value).__name__}, not a tensor")
            elif type(value) is int:
                ints[path] = DeclaredInt(path, value, source, _expr_of_int(path, dims))
            elif value is not None:
                raise UserError(
                    f"{path_text(path)} was declared with dims, but is a {type(value).__name__}, not a tensor or an int"
                )
        found = [*(each.exprs() for each in tensors.values()), *(each.exprs() for each in ints.values())]
        places = {place: expr for exprs in found for place, expr in exprs.items()}
        of_strides = frozenset(each.stride(dim).name for each in tensors.values() for dim in range(len(each.strides)))
        domain = self._domain_of(places, frozenset(each.source.name for each in ints.values()), of_strides)
        return Declared(domain, tensors, ints)

    def _domain_of(self, places: dict[str, Any], ints: frozenset[str], strides: frozenset[str]) -> Domain:
        """Kept, because each refused call of a sealed function asks for it while a request waits."""
        key = tuple(places.items()), ints, strides
        known = self._domains.get(key)
        if known is not None:
            return known
        present = {symbol for expr in places.values() for symbol in expr.free_symbols}
        variables = [each for each in self.variables.values() if each.symbol in present]
        of_sizes = {each.symbol for each in self.variables.values()}
        of_strides = [Variable(symbol.name, min=0) for symbol in sorted(present - of_sizes, key=str)]
        relations = tuple([relation for relation in self.relations if relation.free_symbols <= present])
        try:
            domain = Domain((*variables, *of_strides), places, relations, ints, strides)
        except ValueError as error:
            raise UserError(str(error)) from None
        if len(self._domains) < _MOST_DOMAINS:
            self._domains[key] = domain
        return domain

    def _strides_of(self, path: Path, value: torch.Tensor) -> tuple[Any, ...]:
        """What each stride of a tensor is; a variable of its own, with a name that no size has, where none was declared."""
        if value.layout is not torch.strided:
            raise UserError(f"{path_text(path)} was declared as strided, but its layout is {value.layout}")
        declared = self.strided[path] or [None] * value.dim()
        if len(declared) != value.dim():
            raise UserError(f"{len(declared)} strides of {path_text(path)} were declared, but it has {value.dim()} dims")
        name = re.sub(r"\W+", "_", path_text(path)).strip("_") + "_stride"
        while any(known.startswith(name) for known in self.variables):
            name += "_"
        return tuple([variable(f"{name}_{dim}") if expr is None else expr for dim, expr in enumerate(declared)])

    def __repr__(self) -> str:
        dims = [
            f"{path_text(path)}: {', '.join(f'{dim}: {expr}' for dim, expr in exprs.items())}"
            for path, exprs in self.dims.items()
        ]
        dims += [f"{path_text(path)} strided {', '.join(map(str, exprs))}".rstrip() for path, exprs in self.strided.items()]
        return f"<ShapeSpec {'; '.join([*dims, *map(str, self.variables.values()), *map(str, self.relations)])}>"


@dataclasses.dataclass(frozen=True, eq=False)
class DeclaredTensor:
    """A tensor argument, or a tensor inside one. `dims`: dim -> expression over the variables of the domain. `strides`: what each
    stride is; empty if they are those of the example."""

    path: Path
    value: torch.Tensor
    source: Source
    dims: dict[int, Any]
    strides: tuple[Any, ...] = ()

    def size(self, dim: int) -> TensorSizeSource:
        return TensorSizeSource(self.source, dim)

    def stride(self, dim: int) -> TensorStrideSource:
        return TensorStrideSource(self.source, dim)

    def exprs(self) -> dict[str, Any]:
        sizes = {self.size(dim).name: expr for dim, expr in self.dims.items()}
        return sizes | {self.stride(dim).name: expr for dim, expr in enumerate(self.strides)}


@dataclasses.dataclass(frozen=True, eq=False)
class DeclaredInt:
    """An int argument, or an int inside one. `expr`: what it is, over the variables of the domain."""

    path: Path
    value: int
    source: Source
    expr: Any

    def exprs(self) -> dict[str, Any]:
        return {self.source.name: self.expr}


@dataclasses.dataclass(frozen=True, eq=False)
class Declared:
    """The domain that a call has to lie in, and the tensors and ints of the call that it is about."""

    domain: Domain
    tensors: dict[Path, DeclaredTensor]
    ints: dict[Path, DeclaredInt]

    def places(self) -> Iterator[tuple[Source, int]]:
        """The source of each declared size, stride or int, and its value in this call."""
        for tensor in self.tensors.values():
            for dim in tensor.dims:
                yield tensor.size(dim), tensor.value.shape[dim]
            for dim in range(len(tensor.strides)):
                yield tensor.stride(dim), tensor.value.stride(dim)
        for each in self.ints.values():
            yield each.source, each.value

    def sizes(self) -> dict[str, tuple[Source, int]]:
        return {source.name: (source, size) for source, size in self.places()}

    def point(self) -> Point:
        """The values of the variables in this call. Raises ConstraintViolationError if it lies outside of the domain."""
        try:
            return self.domain.point_of({source.name: size for source, size in self.places()})
        except OutsideDomain as error:
            raise ConstraintViolationError(
                f"this call has a shape that was not declared: {error}.",
                hint=f"call with a shape of the declared domain ({self.domain}), or declare a larger one.",
            ) from None


def _read_path(text: str) -> Path:
    try:
        return parse_path(text)
    except UserError as error:
        raise _Unreadable(error.message, hint=error.hint) from None


def _read_modes(modes: str | Sequence[str]) -> tuple[str, ...]:
    names = [name.strip() for name in modes.split(",")] if isinstance(modes, str) else list(modes)
    for name in names:
        if name not in MODES:
            raise UserError(f"{name!r} is not a mode of torch", hint=f"write modes='no_grad'; there are {', '.join(MODES)}.")
    return tuple(dict.fromkeys(names))


def _split_dims(text: str) -> list[str]:
    """`B, _, S + 1` -> ["B", "_", "S + 1"]"""
    try:
        node = ast.parse(f"({text.strip().rstrip(',')},)", mode="eval").body
    except (SyntaxError, ValueError):
        raise _Unreadable(f"{text.strip()!r} is not a list of dims", hint="write B, S, or B, _, 2*S + 1.") from None
    assert isinstance(node, ast.Tuple)
    return [ast.unparse(part) for part in node.elts]


def _names(exprs: Iterable[Any]) -> list[str]:
    """The names in some expressions, each once, in order."""
    return list(dict.fromkeys(symbol.name for expr in exprs for symbol in sorted(expr.free_symbols, key=str)))


def _parse(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ParseError as error:
        raise _Unreadable(str(error), hint=GRAMMAR) from None


def _bounds_of_keyword(name: str, bounds: Any) -> dict[str, Any]:
    if isinstance(bounds, Mapping):
        unknown = set(bounds) - {"min", "max", "multiple_of"}
        if unknown:
            raise UserError(f"{name} was declared with {unknown.pop()!r}", hint="give min, max or multiple_of.")
        return dict(bounds)
    if isinstance(bounds, (tuple, list)) and 2 <= len(bounds) <= 3:
        return dict(zip(("min", "max", "multiple_of"), bounds))
    if isinstance(bounds, str) and (found := _RANGE.fullmatch(meant_line(f"{name} in {bounds}") or "")):
        raise UserError(f"{name}={bounds!r} is not a range of sizes", hint=f"write {name}=({found[2]}, {found[3]}).")
    raise UserError(
        f"{name}={bounds!r} is not a range of sizes", hint=f"write {name}=(1, 64), or {name}=(8, 4096, 8) for multiples of 8."
    )


def _variable(name: str, fields: dict[str, Any]) -> Variable:
    try:
        return Variable(name, **fields)
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from None


def _dims_of_tensor(path: Path, dims: dict[int, Any], value: torch.Tensor) -> dict[int, Any]:
    found = {}
    for dim, expr in dims.items():
        if not -value.dim() <= dim < value.dim():
            raise UserError(f"dim {dim} of {path_text(path)} was declared, but it has {value.dim()} dims: {tuple(value.shape)}")
        found[dim % value.dim()] = expr
    return found


def _expr_of_int(path: Path, dims: dict[int, Any]) -> Any:
    if list(dims) != [0]:
        raise UserError(f"{len(dims)} dims of {path_text(path)} were declared, but it is an int", hint="write n: N for an int n.")
    return dims[0]


__all__ = ["Declared", "DeclaredInt", "DeclaredTensor", "ShapeSpec"]
