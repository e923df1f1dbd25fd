"""The table of steps, one row for each way to get from one value to the next.

A row says what C does (`_C.STEP`), which function gets the next value, and what `check_fn` prints. A kind of source names its
steps; from their rows follow its text, its bytecode and its value.
"""

from __future__ import annotations

import contextvars
import dataclasses
import math
import operator
from collections.abc import Callable
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from tracer._C import STEP, proxy_target, tensor_size, tensor_storage_offset, tensor_stride
from tracer.sources import reading
from tracer.sources.builtin_iterators import iterated, iterator_parts, upcoming

if TYPE_CHECKING:
    from tracer.sources.base import ReadScope, Source

PLAIN_KEYS = (str, int, bytes)  # types of keys that C can look up


@dataclasses.dataclass(eq=False, slots=True)
class Step:
    """One row. In texts, `{0}` is the value that the step starts from and `{1}` its key."""

    function: Callable[..., Any]  # value[, key] -> the next value; raises where there is none; runs no code of the program
    text: str  # what check_fn prints
    kind: int | None = None  # the step of C, one of _C.STEP; None: C cannot take it
    has: str = ""  # what check_fn prints to test whether there is a next value
    absent: int | None = None  # the step of C that succeeds if there is no next value
    known: Callable[[ReadScope, Source], bool] | None = None  # whether `plain` may be printed for a step from this source
    plain: str = ""  # a shorter text than `text`

    keyed: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.keyed = "{1}" in self.text

    def is_in_c(self, key: Any) -> bool:
        """Whether C can take it, with this key."""
        return self.kind is not None and (not self.keyed or type(key) in PLAIN_KEYS)

    @property
    def subscripts(self) -> bool:
        """Whether output code uses a subscript in place of a call of the function."""
        return self.function is operator.getitem

    def printed(self, value: str, key: Any, source: Source | None, scope: ReadScope) -> str:
        """The expression for check_fn. `source`: the source from which the step starts, if that is known."""
        plain = self.known is not None and source is not None and self.known(scope, source)
        return (self.plain if plain else self.text).format(value, key_text(key, scope) if self.keyed else "")


def key_text(key: Any, scope: ReadScope) -> str:
    """A key as Python source: a literal where one says it exactly."""
    if type(key) in (str, int, bool, bytes, type(None)) or (type(key) is float and math.isfinite(key)):
        return repr(key)
    return scope.const(key, "key")


def _exactly(*classes: type) -> Callable[[ReadScope, Source], bool]:
    return lambda scope, source: (source.leads_to or scope.exact_type(source)) in classes


def _of_c(function: Callable[..., Any], helper: str, kind: int, cls: type, attr: str) -> Step:
    """A step to an attribute of a C type: read by name if a guard shows the exact type, else by a helper that checks it."""
    return Step(function, f"{helper}({{0}})", kind, known=_exactly(cls), plain=f"{{0}}.{attr}")


def _of_tensor(function: Callable[..., Any], helper: str, method: str, arguments: str) -> Step:
    """A step to a size, a stride and the like. C reads those as words. The plain text calls a method of the tensor, so it needs a
    tensor that is known to have torch's own."""
    plain = f"{{0}}.{method}({arguments})"
    return Step(
        function,
        f"{helper}({{0}}{arguments and ', ' + arguments})",
        known=lambda scope, source: scope.plain_tensor(source),
        plain=plain,
    )


SUBSCRIPT = Step(
    operator.getitem, "{0}[{1}]", STEP.ITEM, "({1} in {0})", STEP.NO_ITEM
)  # of what is exactly a dict, list or tuple

ATTR = Step(reading.raw_attr, "___raw_attr({0}, {1})", STEP.ATTR, "___has_attr({0}, {1})", STEP.NO_ATTR)
INSTANCE_DICT = Step(reading.instance_dict, "___instance_dict({0})", STEP.DICT)
TYPE = Step(type, "type({0})", STEP.TYPE)
TYPE_ITEM = Step(reading.type_item, "___type_item({0}, {1})", STEP.TYPE_ITEM)
TYPE_LOOKUP = Step(
    reading.type_lookup, "___type_lookup({0}, {1})", STEP.TYPE_LOOKUP, "___class_has_attr({0}, {1})", STEP.NO_TYPE_LOOKUP
)
MRO = Step(reading.type_mro, "{0}.__mro__", STEP.MRO)
SUBCLASSES = Step(type.__subclasses__, "___subclasses({0})")
PROPERTY_GETTER = Step(operator.attrgetter("fget"), "{0}.fget", STEP.PROPERTY_GETTER)
WEAK_TARGET = Step(reading.weak_target, "{0}()")
PROXY_TARGET = Step(proxy_target, "___proxy_target({0})")
CONTEXT_VALUE = Step(contextvars.ContextVar.get, "{0}.get()")

ITEM = Step(
    reading.item,
    "___item({0}, {1})",
    STEP.ITEM,
    "___contains({0}, {1})",
    STEP.NO_ITEM,
    _exactly(list, tuple, dict),
    "{0}[{1}]",
)
KEY_AT = Step(reading.dict_key, "___dict_key({0}, {1})")
VALUE_AT = Step(reading.dict_value, "___dict_value({0}, {1})")
DICT_BEHIND = Step(reading.dict_behind, "___dict_behind({0})")

CODE = _of_c(reading.function_code, "___code_of", STEP.CODE, FunctionType, "__code__")
DEFAULTS = _of_c(reading.function_defaults, "___defaults_of", STEP.DEFAULTS, FunctionType, "__defaults__")
KWDEFAULTS = _of_c(reading.function_kwdefaults, "___kwdefaults_of", STEP.KWDEFAULTS, FunctionType, "__kwdefaults__")
CLOSURE = _of_c(reading.function_closure, "___closure_of", STEP.CLOSURE, FunctionType, "__closure__")
GLOBALS = _of_c(reading.function_globals, "___globals_of", STEP.GLOBALS, FunctionType, "__globals__")
CELL_CONTENTS = _of_c(reading.cell_contents, "___cell_contents", STEP.CELL_CONTENTS, CellType, "cell_contents")
METHOD_SELF = _of_c(reading.method_self, "___method_self", STEP.METHOD_SELF, MethodType, "__self__")
METHOD_FUNC = _of_c(reading.method_func, "___method_func", STEP.METHOD_FUNC, MethodType, "__func__")

UPCOMING = Step(upcoming, "___upcoming({0}, {1})")
ITERATED = Step(iterated, "___iterated({0})")
ITERATOR_PARTS = Step(iterator_parts, "___iterator_parts({0})")

SIZE = _of_tensor(tensor_size, "___tensor_size", "size", "{1}")
STRIDE = _of_tensor(tensor_stride, "___tensor_stride", "stride", "{1}")
STORAGE_OFFSET = _of_tensor(tensor_storage_offset, "___storage_offset", "storage_offset", "")
GRAD = Step(reading.tensor_grad, "___tensor_grad({0})")
TENSOR_OF_ARRAY = Step(reading.tensor_of_array, "___tensor_of_array({0})")
NUMBER_OF_SCALAR = Step(reading.number_of_scalar, "___number_of_scalar({0})")

TABLE = tuple(row for row in list(globals().values()) if isinstance(row, Step))
# What the texts call: the names that check_fn has for it.
HELPERS: dict[str, Callable[..., Any]] = {row.text.partition("(")[0]: row.function for row in TABLE if row.text.startswith("___")}
