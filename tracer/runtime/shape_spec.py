"""`ShapeSpec`: what a user declares of the sizes and ints among a function's arguments, and how that applies to one call.

The sizes, as named integers with bounds and relations, form a `shapes.domain.Domain`. This module reads the notations in which
a user may write them, and finds the values in a call that they are about (`argument_paths`).
"""

from __future__ import annotations

import ast
import dataclasses
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch

from shapes.domain import Domain, OutsideDomain, Point, Variable
from shapes.parsing import ParseError, parse_condition, parse_integer
from shapes.printing import readable_sides
from shapes.sympy_functions import PythonMod
from tracer.errors import ConstraintViolationError, UserError
from tracer.guards import argument_slots
from tracer.runtime.argument_paths import Path, follow, parse_path, path_text
from tracer.sources import Source
from tracer.sources.tensors import TensorSizeSource

_RANGE = re.compile(r"\s*(\w+)\s+in\s+(-?\d+)\s*\.\.\s*(-?\d+)?(?:\s+by\s+(\d+))?\s*")  # S in 8..4096 by 8


class ShapeSpec:
    """Names, bounds and relations of the dims of arguments, and of ints among them.

    >>> ShapeSpec({"x": ["B", "S"], "mask": {0: "B", 3: "S + 1"}}, B=(1, 256), S=(1, 4096, 8), relations=["B <= S"])
    >>> ShapeSpec("x: B, S; mask: B, _, _, S + 1; n: N; B in 1..256; S in 1..4096 by 8; N in 0..64; B <= S")

    The keys are names of parameters (`"batch['ids']"` is an item of one, `"self.cache.keys"` an attribute; nested dicts and lists
    say items too), the dims a list or a dict from dim to what is found there: a name, an expression over names, a number, or a
    `torch.export.Dim`. Of an argument that is an int, the one thing that stands there is the int. What is None or left out is
    not declared. What has no bounds is 1 or more; (min, max) and (min, max, multiple_of) bound it.
    Raises UserError for what cannot be read.

    ```python
    spec = tracer.ShapeSpec({"x": ["B", "S"]}, B=(1, 8), S=(1, 64))
    compiled = tracer.compile(lambda x: x.flatten(), shapes=spec)
    assert tracer.precompile(compiled, example=(torch.ones(3, 5),)).certified
    ```
    """

    def __init__(self, shapes: Mapping[str, Any] | str, relations: Sequence[str] = (), **sizes: Any) -> None:
        self.dims: dict[Path, dict[int, Any]] = {}
        self._fields: dict[str, dict[str, Any]] = {}  # name -> fields of its Variable
        conditions = [] if isinstance(relations, str) else list(relations)
        if isinstance(shapes, str):
            conditions = [*self._read_text(shapes), *conditions]
        else:
            for key, value in shapes.items():
                self._read_dims(parse_path(key), value)
        for name, bounds in sizes.items():
            self._set_bounds(name, **_bounds_of_keyword(name, bounds))
        self.relations = tuple([condition for text in conditions for condition in self._read_relation(text)])
        for expr in [*self.relations, *(expr for dims in self.dims.values() for expr in dims.values())]:
            for symbol in expr.free_symbols:
                self._fields.setdefault(symbol.name, {})
        self.variables = {name: _variable(name, fields) for name, fields in self._fields.items()}

    @classmethod
    def of(cls, spec: Any) -> ShapeSpec:
        """The spec itself, or that of its dict or string form."""
        return spec if isinstance(spec, cls) else cls(spec)

    # -- reading -------------------------------------------------------------------------------------------------

    def _read_text(self, text: str) -> list[str]:
        relations = []
        for clause in filter(None, map(str.strip, re.split(r"[;\n]", text))):
            path, colon, dims = clause.partition(":")
            if colon:
                self._read_dims(parse_path(path), dims)
            else:
                relations.append(clause)
        return relations

    def _read_dims(self, path: Path, value: Any) -> None:
        if value is None:
            return
        if isinstance(value, str):
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
        self._set_bounds(name, min=int(low), max=int(high) if high else None, multiple_of=int(step or 1))
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
            self._read_range(named)
            return []
        return [part for part in sympy.And.make_args(_parse(parse_condition, text)) if not self._is_bound_of_one_size(part)]

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

    def bind(self, code: types.CodeType, args: Sequence[Any]) -> Declared:
        """What is declared of the sizes of this call. Arguments that are None have no sizes."""
        slots = dict(zip(argument_slots(code), args, strict=True))
        tensors: dict[Path, DeclaredTensor] = {}
        ints: dict[Path, DeclaredInt] = {}
        for path, dims in self.dims.items():
            value, source = follow(code, slots, path)
            if isinstance(value, torch.Tensor):
                tensors[path] = DeclaredTensor(path, value, source, _dims_of_tensor(path, dims, value))
            elif type(value) is int:
                ints[path] = DeclaredInt(path, value, source, _expr_of_int(path, dims))
            elif value is not None:
                raise UserError(f"{path_text(path)} was declared with dims, but is {type(value).__name__}, no tensor and no int")
        found = [*(each.exprs() for each in tensors.values()), *(each.exprs() for each in ints.values())]
        places = {place: expr for exprs in found for place, expr in exprs.items()}
        present = {symbol for expr in places.values() for symbol in expr.free_symbols}
        try:
            domain = Domain(
                tuple([each for each in self.variables.values() if each.symbol in present]),
                places,
                tuple([relation for relation in self.relations if relation.free_symbols <= present]),
                frozenset(each.source.name for each in ints.values()),
            )
        except ValueError as error:
            raise UserError(str(error)) from None
        return Declared(domain, tensors, ints)

    def __repr__(self) -> str:
        dims = [f"{path_text(path)}: {', '.join(f'{dim}: {expr}' for dim, expr in of.items())}" for path, of in self.dims.items()]
        return f"<ShapeSpec {'; '.join([*dims, *map(str, self.variables.values()), *map(str, self.relations)])}>"


@dataclasses.dataclass(frozen=True, eq=False)
class DeclaredTensor:
    """A tensor argument, or a tensor inside one. `dims`: dim -> expression over the variables of the domain."""

    path: Path
    value: torch.Tensor
    source: Source
    dims: dict[int, Any]

    def size(self, dim: int) -> TensorSizeSource:
        return TensorSizeSource(self.source, dim)

    def exprs(self) -> dict[str, Any]:
        return {self.size(dim).name: expr for dim, expr in self.dims.items()}


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
        """The source of each declared size or int, and its value in this call."""
        for tensor in self.tensors.values():
            for dim in tensor.dims:
                yield tensor.size(dim), tensor.value.shape[dim]
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


def _split_dims(text: str) -> list[str]:
    """`B, _, S + 1` -> ["B", "_", "S + 1"]"""
    try:
        node = ast.parse(f"({text.strip().rstrip(',')},)", mode="eval").body
    except (SyntaxError, ValueError):
        raise UserError(f"{text!r} is no list of dims", hint="write B, S, or B, _, 2*S + 1.") from None
    assert isinstance(node, ast.Tuple)
    return [ast.unparse(part) for part in node.elts]


def _parse(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ParseError as error:
        raise UserError(str(error)) from None


def _bounds_of_keyword(name: str, bounds: Any) -> dict[str, Any]:
    if isinstance(bounds, Mapping):
        unknown = set(bounds) - {"min", "max", "multiple_of"}
        if unknown:
            raise UserError(f"{name} was declared with {unknown.pop()!r}", hint="there are min, max and multiple_of.")
        return dict(bounds)
    if isinstance(bounds, (tuple, list)) and 2 <= len(bounds) <= 3:
        return dict(zip(("min", "max", "multiple_of"), bounds))
    raise UserError(f"{name}={bounds!r} bounds no size", hint=f"write {name}=(1, 64), or {name}=(8, 4096, 8) for multiples of 8.")


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
