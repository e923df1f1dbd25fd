"""`shapes_spec=` of torch.compile (`dynamic_shapes=` in torch 2.14): torch's ShapesSpec as a `ShapeSpec` of ours."""

from __future__ import annotations

import inspect
import keyword
import re
import types
import warnings
from collections.abc import Iterator
from typing import Any

import sympy
import torch

from shapes.domain import LARGEST_SIZE
from tracer.bytecode.slots import slot_of_others
from tracer.drop_in.torchs import PythonPrinter, dynamic_spec
from tracer.errors import UserError
from tracer.locations import levels_to_the_user
from tracer.runtime.argument_paths import Attribute, Path, path_text
from tracer.runtime.shape_spec import ShapeSpec


def shapes_spec_of(said: Any) -> Any:
    """What torch.compile was given as a ShapesSpec: that itself, a ParamsSpec or a dict. Raises TypeError for anything else, as
    torch does."""
    return said if isinstance(said, dynamic_spec.ShapesSpec) else dynamic_spec.ShapesSpec(said)


def shape_spec_of(theirs: Any, target: Any) -> ShapeSpec:
    """Our spec for calls of `target`. Raises UserError for what cannot be honoured."""
    return _Reading(theirs, target).spec()


class _Reading:
    """One ShapesSpec. Its variables have no unique names, which ours need."""

    def __init__(self, theirs: Any, target: Any) -> None:
        self._theirs, self._target = theirs, target
        self._names: dict[Any, str] = {}  # SymPy symbol of a variable -> its name here
        self._variables: dict[str, Any] = {}  # the name -> torch's IntVar
        self._of_dims: set[str] = set()  # names that are the size of some dim
        self._dims: dict[str, list[Any]] = {}

    def spec(self) -> ShapeSpec:
        for path, leaf in self._leaves():
            if isinstance(leaf, dynamic_spec.TensorSpec):
                self._dims[path_text(path)] = [self._size(dim, at_dim=True) for dim in leaf]
            elif leaf is not None:
                self._dims[path_text(path)] = [self._size(leaf, at_dim=False)]
        relations = [self._text(each.node.expr) for each in self._theirs.assumptions]
        self._check_names()
        return ShapeSpec(self._dims, [*map(self._bounds, self._variables), *relations])

    # -- paths -----------------------------------------------------------------------------------------------------------

    def _leaves(self) -> Iterator[tuple[Path, Any]]:
        params = self._theirs._params
        if params is None:
            return
        for name, spec in params._named_args.items():
            yield from _leaves_below((name,), spec)
        for index, spec in enumerate(params._varargs or ()):
            yield from _leaves_below((self._slot(inspect.CO_VARARGS, "*args"), index), spec)
        for key, spec in (params._varkw or {}).items():
            yield from _leaves_below((self._slot(inspect.CO_VARKEYWORDS, "**kwargs"), key), spec)

    def _slot(self, flag: int, text: str) -> str:
        """The name of the parameter of the target that takes all other arguments."""
        function = self._target.forward if isinstance(self._target, torch.nn.Module) else self._target
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        slot = slot_of_others(code, flag) if isinstance(code, types.CodeType) else None
        if slot is None:
            raise UserError(f"the shapes_spec names {text!r}, but {self._target!r} takes no such arguments")
        return slot

    # -- sizes -----------------------------------------------------------------------------------------------------------

    def _size(self, leaf: Any, at_dim: bool) -> Any:
        """A size or int as `ShapeSpec` reads it: a name or expression, a number, or None."""
        if leaf is None or type(leaf) is int:
            return leaf
        if not isinstance(leaf, torch.SymInt):
            raise UserError(f"the shapes_spec has {leaf!r} where an int or a ShapeVar is expected")
        if isinstance(leaf, dynamic_spec.IntVar):
            name = self._name(leaf.sympy_sym)
            self._variables[name] = leaf
            if at_dim:
                self._of_dims.add(name)
            return name
        return self._text(leaf.node.expr)

    def _name(self, symbol: Any) -> str:
        """A Python identifier for a variable of torch's, whose symbol is named `batch#0`."""
        known = self._names.get(symbol)
        if known is None:
            base = re.sub(r"\W", "_", symbol.name.rpartition("#")[0])
            if not base.isidentifier() or keyword.iskeyword(base):
                base = f"n_{base}"
            taken, known = set(self._names.values()), base
            while known in taken:
                known = f"{base}_{symbol.name.rpartition('#')[2]}" if known == base else f"{known}_"
            self._names[symbol] = known
        return known

    def _text(self, expr: Any) -> str:
        names = {symbol: sympy.Symbol(self._name(symbol), integer=True) for symbol in expr.free_symbols}
        text: str = PythonPrinter().doprint(expr.xreplace(names))
        return text

    def _bounds(self, name: str) -> str:
        """`batch in 1..64`"""
        variable = self._variables[name]
        if variable.optimization_hint is not None:
            message = f"optimization_hint={variable.optimization_hint} of {variable.name} has no effect in the tracer"
            warnings.warn(message, stacklevel=levels_to_the_user())
        smallest = -LARGEST_SIZE if variable.min is None else variable.min
        smallest = max(smallest, 0) if name in self._of_dims else smallest
        return f"{name} in {smallest}..{'' if variable.max is None else variable.max}"

    def _check_names(self) -> None:
        unbound = [name for name in self._names.values() if name not in self._variables]
        if unbound:
            raise UserError(
                f"the shapes_spec computes with {unbound[0]}, but no dim and no int is {unbound[0]} itself",
                hint=f"give {unbound[0]} as the size of a dim or as an int argument, so that its value can be read.",
            )


def _leaves_below(path: Path, spec: Any) -> Iterator[tuple[Path, Any]]:
    """The specs of tensors and ints in nested containers, each with its path."""
    if isinstance(spec, dynamic_spec.ObjectSpec):
        items: list[tuple[Any, Any]] = [(Attribute(name), inner) for name, inner in spec.items()]
    elif isinstance(spec, dynamic_spec.DictSpec):
        items = list(spec.items())
    elif isinstance(spec, dynamic_spec.SeqSpec):
        items = list(enumerate(spec._entries))
    else:
        yield path, spec
        return
    for key, inner in items:
        yield from _leaves_below((*path, key), inner)
