"""Objects of classes written in C that the trace makes of known values, and that change by their own methods only: hashes,
compressors. A shadow of each, a real object, does while tracing what the program asks for; the output code makes it again and
repeats the calls that have changed it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.variables.text import plain_form

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How an object is made, and what of it a trace knows. `asked`: methods that give a known value; `changing`: methods that
    change the object as well; `read`: attributes. All take and give plain values."""

    make: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    read: frozenset[str]
    asked: frozenset[str]
    changing: frozenset[str]


class MadeObjectVariable(VariableTracker):
    """`value` is the shadow; `calls` are those that have changed it."""

    def __init__(self, value: Any, recipe: Recipe, calls: tuple[Call, ...] = ()) -> None:
        self.value = value
        self.recipe = recipe
        self.calls = calls

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"{type(self).__name__}({type(self.value).__name__})"

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in self.recipe.read:
            return tx.literal(getattr(self.value, name))
        if hasattr(self.value, name):
            return tx.bound_builtin_method(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        recipe = self.recipe
        if name == "copy" and not args and not kwargs:
            return MadeObjectVariable(tx.run_now(self.value.copy), recipe, self.calls)
        if name not in recipe.asked and name not in recipe.changing:
            unsupported("unsupported-method", value=self.describe(), name=name)
        given = tuple(plain_form(tx, arg) for arg in args)
        named = {key: plain_form(tx, value) for key, value in kwargs.items()}
        if name in recipe.asked:
            return tx.literal(tx.run_now(getattr(self.value, name), *given, **named))
        tx.effects.mutate(self)
        self.calls += ((name, given, named),)
        try:
            return tx.literal(tx.run_now(getattr(self.value, name), *given, **named))
        except ObservedException as raised:
            if is_exception(raised.value, TypeError):  # of the arguments: nothing has changed
                self.calls = self.calls[:-1]
                raise
            unsupported("unsupported-method", value=f"{self.describe()}, which fails,", name=name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        recipe = self.recipe
        parts = (recipe.args, recipe.kwargs, self.calls)
        cg.call_object(_made_again, *(functools.partial(cg.load_object, part) for part in (recipe.make, *parts)))


def _made_again(make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], calls: tuple[Call, ...]) -> Any:
    """Called by output code."""
    made = make(*args, **kwargs)
    for name, given, named in calls:
        getattr(made, name)(*given, **named)
    return made


def make_object(tx: Tracer, recipe: Recipe) -> MadeObjectVariable:
    """The object; what making it raises, the program raises."""
    return MadeObjectVariable(tx.run_now(recipe.make, *recipe.args, **recipe.kwargs), recipe)
