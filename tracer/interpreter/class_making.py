"""Making classes: class statements, `type(name, bases, namespace)`, and the `type.__new__` that metaclasses call in the end.

The program's own code in it (the body, `__prepare__`, `__new__` and `__init__` of a metaclass, `__set_name__`,
`__init_subclass__`) is traced in CPython's order. Meanwhile a prototype stands for the class (`variables.classes.made_classes`).
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from tracer.graph_breaks import unsupported
from tracer.interpreter import enum_making
from tracer.interpreter.opcodes.names import read_global
from tracer.protocol.lookups import has_from_python, lookup, rely_on_bases
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.classes import given_annotations
from tracer.variables.classes.class_making import bare_class, run_metaclass
from tracer.variables.classes.classes import ClassVariable, SuperVariable
from tracer.variables.classes.made_classes import MadeClassVariable, stand_in_for
from tracer.variables.classes.type_forms import TypeFormVariable, mro_entries
from tracer.variables.classes.type_parameters import NamespaceCell
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import CellVariable, FunctionVariable, NestedFunctionVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import ConstantVariable

# Metaclasses that are run while tracing, on prototypes, and again when the class is made. They run no code of the program.
RUN_AS_THEY_ARE: frozenset[type] = frozenset([type(torch.autograd.Function), typing.NamedTupleMeta, typing._TypedDictMeta])  # type: ignore[attr-defined]  # private in typing
NAMED_BASES = (typing.NamedTuple, typing.TypedDict)
Values = list[VariableTracker]
Keywords = dict[str, VariableTracker]


def build_class(tx: Tracer, body: VariableTracker, name: VariableTracker, written: Values, kwargs: Keywords) -> VariableTracker:
    """builtins.__build_class__(body, name, *written, **kwargs): a class statement with the bases as they are written there"""
    if not isinstance(body, NestedFunctionVariable):
        refuse(f"A class statement with {body.describe()} for a body")
    bases = _resolve_bases(tx, written)
    metaclass = _metaclass(tx, kwargs.pop("metaclass", None), bases)
    namespace = _prepared(tx, metaclass, name, bases, kwargs)
    cell = _run_class_body(tx, body, namespace)
    if any(base is not before for base, before in zip(bases, written, strict=False)) or len(bases) != len(written):
        namespace.set_item(tx, ConstantVariable("__orig_bases__"), TupleVariable(written))
    if isinstance(metaclass, ClassVariable) and metaclass.value in RUN_AS_THEY_ARE:
        made: VariableTracker = _made_by_library(tx, metaclass, name.constant(), bases, _copied(tx, namespace), kwargs)
    else:
        made = metaclass.call(tx, [name, TupleVariable(bases), namespace], kwargs)
    if cell is not None and isinstance(made, ClassVariable) and cell.contents is not made:
        refuse("A class statement whose metaclass does not pass __classcell__ on")
    return made


def _resolve_bases(tx: Tracer, written: Values) -> Values:
    """The bases of the class: those that are no classes are replaced by what their `__mro_entries__` returns."""
    bases: Values = []
    for base in written:
        if isinstance(base, ClassVariable):
            bases.append(base)
        elif isinstance(base, TypeFormVariable):
            bases += mro_entries(tx, base, written)
        elif isinstance(base, CallableVariable) and base.value in NAMED_BASES:
            bases += mro_entries(tx, base, written)
        elif isinstance(base, (FunctionVariable, UserObjectVariable)):
            bases += base.get_attr(tx, "__mro_entries__").call(tx, [TupleVariable(written)], {}).unpack(tx)
        else:
            refuse(f"A class statement with {base.describe()} for a base")
    return bases


def _metaclass(tx: Tracer, explicit: VariableTracker | None, bases: Values) -> VariableTracker:
    """The metaclass of a class statement; `explicit` is its `metaclass=`, which may be any callable."""
    if explicit is None:
        explicit = tx.class_variable(bases[0].python_type(), bases[0]) if bases else tx.class_variable(type)
    return _most_derived(tx, explicit, bases) if isinstance(explicit, ClassVariable) else explicit


def _most_derived(tx: Tracer, metaclass: ClassVariable, bases: Values) -> ClassVariable:
    """The most derived of `metaclass` and the metaclasses of the bases; a TypeError of the program where there is none."""
    winner = metaclass
    for base in bases:
        kind = tx.class_variable(base.python_type(), base)
        rely_on_bases(kind.value)
        if issubclass_plainly(winner.value, kind.value):
            continue
        if not issubclass_plainly(kind.value, winner.value):
            tx.raise_error(TypeError, (
                "metaclass conflict: the metaclass of a derived class must be a (non-strict) subclass of the metaclasses "
                "of all its bases"
            ))  # fmt: skip
        winner = kind
    return winner


def _prepared(tx: Tracer, metaclass: VariableTracker, name: VariableTracker, bases: Values, kwargs: Keywords) -> VariableTracker:
    """The namespace in which the body will run: what `__prepare__` returns, or a new dict if there is no `__prepare__`."""
    if isinstance(metaclass, ClassVariable):
        owner, _ = lookup(metaclass.value, "__prepare__")
        if owner is type or metaclass.value in RUN_AS_THEY_ARE:
            return DictVariable({})
        return metaclass.get_attr(tx, "__prepare__").call(tx, [name, TupleVariable(bases)], kwargs)
    if isinstance(metaclass, FunctionVariable):
        return DictVariable({})
    refuse(f"A class statement with {metaclass.describe()} for a metaclass")


def _run_class_body(tx: Tracer, body: FunctionVariable, namespace: VariableTracker) -> CellVariable | None:
    """Runs the code of a class statement, which fills the namespace. -> the cell of `__class__`, if there is one"""
    cells = dict(zip(body.code.co_freevars, body.closure(tx)))
    for name in body.code.co_cellvars:
        cells[name] = NamespaceCell() if name == "__classdict__" else CellVariable()
    cell = tx.inner_frame(body, {}, cells, namespace=namespace).run()
    return cell if isinstance(cell, CellVariable) else None


def new_class(tx: Tracer, metaclass: ClassVariable, args: Values, kwargs: Keywords) -> VariableTracker:
    """type.__new__(metaclass, name, bases, namespace, **kwargs), in the order of `type_new` in Objects/typeobject.c"""
    if len(args) != 3 or not args[0].is_constant() or args[1].python_type() is not tuple:
        refuse(f"{metaclass.value.__qualname__} with arguments that are not those of type(name, bases, namespace)")
    name, base_tuple, mapping = args
    bases = base_tuple.unpack(tx)
    namespace = _copied(tx, mapping)
    if not all(isinstance(base, ClassVariable) for base in bases):
        refuse("type() with a base that is not a class")
    winner = _most_derived(tx, metaclass, bases)
    if metaclass.value in RUN_AS_THEY_ARE:
        refuse(f"A call of {metaclass.value.__qualname__}")
    if winner.value in RUN_AS_THEY_ARE:
        return _made_by_library(tx, winner, name.constant(), bases, namespace, kwargs)
    if issubclass_plainly(winner.value, enum.EnumMeta):
        return _made_enum(tx, winner, name.constant(), bases, mapping, kwargs)
    if winner is not metaclass and lookup(winner.value, "__new__")[0] is not type:
        return winner.get_attr(tx, "__new__").call(tx, [winner, *args], kwargs)
    if lookup(winner.value, "mro")[0] is not type:
        refuse(f"A class with the metaclass {winner.value.__qualname__}, which has its own mro()")
    made = _with_prototype(tx, winner, name.constant(), bases, namespace)
    _set_names(tx, made, namespace)
    _init_subclass(tx, made, kwargs)
    return made


def _copied(tx: Tracer, mapping: VariableTracker) -> dict[str, VariableTracker]:
    """The entries of a namespace, as type.__new__ copies them. `mapping` is a dict, or an object of a class derived from dict."""
    held = mapping.storage if isinstance(mapping, UserObjectVariable) else mapping
    if not isinstance(held, DictVariable):
        refuse(f"A class with {mapping.describe()} for a namespace")
    pairs = held.pairs(tx)
    if not all(key.is_constant() and type(key.constant()) is str for key, _ in pairs):
        refuse("A class with a name that is not a string")
    return {key.constant(): value for key, value in pairs}


def _made_by_library(
    tx: Tracer, metaclass: ClassVariable, name: str, bases: Values, namespace: dict[str, VariableTracker], kwargs: Keywords
) -> VariableTracker:
    """A class with a metaclass of `RUN_AS_THEY_ARE`. Whatever would run code of the program meanwhile is refused."""
    if kwargs:
        refuse(f"A class statement with the metaclass {metaclass.value.__qualname__} and keywords")
    for base in bases:
        if has_from_python(base.identity(), "__init_subclass__"):
            refuse(f"A class statement with the metaclass {metaclass.value.__qualname__} and {base.describe()} for a base")
    for value in namespace.values():
        if has_from_python(value.python_type(), "__set_name__"):
            refuse(f"A class statement with the metaclass {metaclass.value.__qualname__} and {value.describe()} in it")
    annotate = given_annotations.annotate_name(namespace)
    given: dict[str, Any] = {}
    if annotate is not None:  # the library calls it, for the prototype and for the class of the output code
        if metaclass.value is typing._TypedDictMeta and given_annotations.reads_cells(namespace[annotate]):  # type: ignore[attr-defined]  # private in typing
            refuse("A TypedDict with annotations that name local variables")
        changes = len(tx.effects.changes)
        try:
            found = given_annotations.traced(tx, namespace[annotate])
        except ObservedException:
            refuse(f"A class statement with the metaclass {metaclass.value.__qualname__} and annotations that raise")
        if any(each is not found for each in tx.effects.changes[changes:]):  # it fills the dict that it gives
            refuse(f"A class statement with the metaclass {metaclass.value.__qualname__} and annotations with side effects")
        given[annotate] = given_annotations.giving(stand_in_for(tx, "__annotations__", found))
    made = _with_prototype(tx, metaclass, name, bases, namespace, run_metaclass, given)
    made.adopt(tx, {})
    return made


def _made_enum(
    tx: Tracer, metaclass: ClassVariable, name: str, bases: Values, mapping: VariableTracker, kwargs: Keywords
) -> VariableTracker:
    """EnumMeta.__new__(metaclass, name, bases, mapping, boundary=...)"""
    if "boundary" not in kwargs:
        refuse("type.__new__ of an enum")
    namespace = _copied(tx, mapping)
    make = enum_making.maker(tx, metaclass, name, bases, mapping, namespace, kwargs)
    made = _with_prototype(tx, metaclass, name, bases, namespace, make)
    made.adopt(tx, {})
    return made


def _with_prototype(
    tx: Tracer,
    metaclass: ClassVariable,
    name: str,
    bases: Values,
    namespace: dict[str, VariableTracker],
    make: Callable[..., type] = bare_class,
    given: dict[str, Any] | None = None,
) -> MadeClassVariable:
    """The tracked class, with a prototype that `make` has made of the stand-ins for the namespace. Its `__class__` cell is
    filled; hooks such as `__set_name__` are left to the caller. `given`: stand-ins for some of the namespace."""
    cell, namespace_cell = namespace.pop("__classcell__", None), namespace.get("__classdictcell__")
    passes_cell = (
        make is bare_class or metaclass.value is type(torch.autograd.Function) or issubclass(metaclass.value, enum.EnumMeta)
    )
    if cell is not None and not passes_cell:
        refuse("A class statement whose metaclass does not pass __classcell__ on")
    if "__module__" not in namespace and "__name__" in tx.globals:
        namespace["__module__"] = read_global(tx, "__name__")
    if "__qualname__" not in namespace:
        namespace["__qualname__"] = ConstantVariable(name)
    own = {key: value for key, value in namespace.items() if value is not namespace_cell}
    stand_ins = {key: stand_in_for(tx, key, value) for key, value in own.items()} | (given or {})
    try:
        cls = make(metaclass.value, name, tuple(base.identity() for base in bases), stand_ins)
    except Exception as error:
        refuse(f"A class statement that fails ({error})")
    tx.trace.findings.made[id(cls)] = cls
    made = tx.trace.builder.remember(cls, MadeClassVariable(cls, metaclass, bases, namespace, make))
    # type.__new__ fills the cell, and takes the name away.
    if isinstance(namespace_cell, NamespaceCell) and make is bare_class:  # the library may leave the cell as the body left it
        namespace_cell.made = made
    if isinstance(cell, CellVariable):
        cell.write(tx, made)
    return made


def _set_names(tx: Tracer, made: MadeClassVariable, namespace: dict[str, VariableTracker]) -> None:
    """Calls `__set_name__` of each value in the namespace whose class defines it in Python."""
    for name, value in namespace.items():
        if not has_from_python(value.python_type(), "__set_name__"):
            continue
        if not isinstance(value, UserObjectVariable):
            refuse(f"A class statement with {value.describe()} in it")
        try:
            value.call_special(tx, "__set_name__", made, ConstantVariable(name))
        except ObservedException:
            refuse("A class statement in which __set_name__ raises")


def _init_subclass(tx: Tracer, made: MadeClassVariable, kwargs: Keywords) -> None:
    """super(cls, cls).__init_subclass__(**kwargs)"""
    cls = made.value
    owner, _ = lookup(cls, "__init_subclass__", cls)
    if owner is object or owner is None:
        if kwargs:
            tx.raise_error(TypeError, f"{cls.__qualname__}.__init_subclass__() takes no keyword arguments")
        return
    SuperVariable(cls, made).get_attr(tx, "__init_subclass__").call(tx, [], kwargs)


def issubclass_plainly(cls: type, base: type) -> bool:
    """issubclass(), without the `__subclasscheck__` of a metaclass."""
    return base in type.__getattribute__(cls, "__mro__")


def refuse(what: str) -> NoReturn:
    """Breaks the graph. `what` is the subject of a sentence that ends in "makes a class"."""
    unsupported("makes-a-class", function=what)
