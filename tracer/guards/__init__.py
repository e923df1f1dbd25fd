"""Guards: what a trace assumed, as frozen statements about sources, and the `check_fn` that is made of them.

One small class per kind, by topic: `identity`, `values`, `containers`, `iterators`, `attributes`, `class_shape`, `unchanged`,
`lifetimes`, `arrays`, `tensors`, `memory`, `state`, `shapes`. `base` has what kinds share. A new kind goes into the file of its
topic, and its name into this file. `demands` has the words in which a kind says what it demands: `checklist`, `steady`,
`decision` and `implication` go by these.

`order` says what is checked first, `code` prints the function, `manager` compiles and explains it, `checklist` hands to C what
C can compare, and `steady` finds what need not be compared again. Between the entries of one code object, `decision` says which
may hold, and `implication` whether the guards of one follow from those of another.
"""

from tracer.guards.arrays import ArrayMatch, NumpyErrorsMatch, ScalarMatch, is_shareable_array
from tracer.guards.attributes import ClassHasAttr, HasAttr
from tracer.guards.base import Guard, Mismatch
from tracer.guards.class_shape import ClassShape, ClassTemplate
from tracer.guards.code import CheckCode, fetchable
from tracer.guards.constants import LIBRARY_VALUES, is_guardable_constant
from tracer.guards.containers import (
    DictContains,
    DictKeysMatch,
    DictLengthReaches,
    LengthMatch,
    NotInGlobals,
    SetMatch,
    SetOrderMatch,
    can_be_key,
)
from tracer.guards.decision import decide, tests_of
from tracer.guards.identity import (
    BoolMatch,
    ClassAttrMatch,
    CodeMatch,
    Distinct,
    FunctionMatch,
    IdMatch,
    ModuleMatch,
    NoneMatch,
    SameObject,
    TypeMatch,
    WeakrefAlive,
)
from tracer.guards.iterators import ItemsLeft
from tracer.guards.lifetimes import EndsQuietly
from tracer.guards.manager import CheckFunctionManager, GuardFailure
from tracer.guards.memory import FillsStorage, MemoryApart, MemoryShared, fills_storage
from tracer.guards.reading import argument_slots
from tracer.guards.shapes import ShapeGuards, ShapeLine
from tracer.guards.state import AbcRegistryMatch, GlobalStateMatch, WarningFiltersMatch
from tracer.guards.tensors import LeafMatch, MarksMatch, TensorMatch, TensorSpec, tensor_spec
from tracer.guards.unchanged import Findings, Unchanged
from tracer.guards.values import PLAIN_VALUES, EqualsMatch, OrdinaryFloat, PlainValueMatch

__all__ = [
    "LIBRARY_VALUES",
    "PLAIN_VALUES",
    "AbcRegistryMatch",
    "ArrayMatch",
    "BoolMatch",
    "CheckCode",
    "CheckFunctionManager",
    "ClassAttrMatch",
    "ClassHasAttr",
    "CodeMatch",
    "DictContains",
    "DictKeysMatch",
    "DictLengthReaches",
    "Distinct",
    "EndsQuietly",
    "EqualsMatch",
    "FillsStorage",
    "Findings",
    "FunctionMatch",
    "GlobalStateMatch",
    "Guard",
    "GuardFailure",
    "HasAttr",
    "ClassShape",
    "ClassTemplate",
    "IdMatch",
    "ItemsLeft",
    "LeafMatch",
    "LengthMatch",
    "MarksMatch",
    "MemoryApart",
    "MemoryShared",
    "Mismatch",
    "ModuleMatch",
    "NoneMatch",
    "NotInGlobals",
    "NumpyErrorsMatch",
    "OrdinaryFloat",
    "PlainValueMatch",
    "SameObject",
    "ScalarMatch",
    "SetMatch",
    "SetOrderMatch",
    "ShapeGuards",
    "ShapeLine",
    "TensorMatch",
    "TensorSpec",
    "TypeMatch",
    "Unchanged",
    "WarningFiltersMatch",
    "WeakrefAlive",
    "argument_slots",
    "can_be_key",
    "fills_storage",
    "decide",
    "fetchable",
    "is_guardable_constant",
    "is_shareable_array",
    "tensor_spec",
    "tests_of",
]
