"""Mutants of the code that changes guards: one small mistake each, made mechanically.

A mutant is named by its function and what it changes, which stays the same when lines move.
"""

import ast
import collections
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
MODULES = [  # the simplifier, the translator, the printer, and what drops guards
    "shapes.simplify",
    "shapes.solver.translate",
    "shapes.solver.bits",
    "shapes.solver.bounds",
    "shapes.printing",
    "shapes.solver.pruning",
]

COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Pow: ast.Mult,
}  # fmt: skip
TEXTS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "eq": "ne", "ne": "eq", "ge": "eq",
         "+": "-", "-": "+", "*": "+", "//": "%", "%": "//", "sat": "unsat", "unsat": "sat"}  # fmt: skip


class Mutant(NamedTuple):
    module: str
    name: str
    tree: ast.Module
    target: ast.AST
    replacement: ast.AST

    @property
    def place(self) -> str:
        """The function or class that it is in."""
        return self.name.split(": ")[0]

    def code(self):
        """The module with the mistake in it."""
        return compile(_with(self.tree, self.target, self.replacement), f"<{self.name}>", "exec")


# ------------------------------------------------------------------------------------------------- making them


def mutants(module: str) -> list[Mutant]:
    tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text())
    made, counts = [], collections.Counter()
    for node, place in _mutable(tree, ""):
        for replacement in _replacements(node):
            name = f"{module}.{place}: {_difference(node, replacement)}"
            counts[name] += 1
            if counts[name] > 1:
                name = f"{name} #{counts[name]}"
            made.append(Mutant(module, name, tree, node, replacement))
    return made


def _difference(node: ast.AST, replacement: ast.AST) -> str:
    if isinstance(node, ast.Tuple | ast.List | ast.Dict):
        dropped = next(element for element in _elements(node) if element not in _elements(replacement))
        return f"without {_text(dropped)} in {_text(node)[:40]}"
    if isinstance(node, ast.If):
        return f"if {_text(node.test)} -> if {_text(replacement.test)}"
    return f"{_text(node)} -> {_text(replacement)}"


def _elements(node: ast.AST) -> list[ast.AST]:
    return node.keys if isinstance(node, ast.Dict) else node.elts


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _mutable(node: ast.AST, place: str) -> Iterator[tuple[ast.AST, str]]:
    """Nodes that run, without annotations, docstrings, imports, messages of errors and dunder names."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "keywords") and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":  # of zip, a check of what is so
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, ast.If) and _text(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Assign) and _text(child.targets[0]) == "__all__":
                continue
            if isinstance(child, ast.Assign) and _text(child.value).startswith("Callable["):
                continue
            inner = place
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{place}.{child.name}".lstrip(".")
            yield child, inner or "module"
            yield from _mutable(child, inner)


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
        yield _changed(node, ops=[COMPARE[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_type_union(node):
        yield _changed(node, op=ARITHMETIC[type(node.op)]())
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            yield node.left
    elif isinstance(node, ast.BoolOp):
        yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for index in range(len(node.values)):
            rest = node.values[:index] + node.values[index + 1 :]
            yield rest[0] if len(rest) == 1 else _changed(node, values=rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Tuple | ast.List) and len(node.elts) > 1 and isinstance(node.ctx, ast.Load):
        for index in range(len(node.elts)):
            yield _changed(node, elts=node.elts[:index] + node.elts[index + 1 :])
    elif isinstance(node, ast.Dict) and len(node.keys) > 1:
        for index in range(len(node.keys)):
            yield _changed(
                node,
                keys=node.keys[:index] + node.keys[index + 1 :],
                values=node.values[:index] + node.values[index + 1 :],
            )
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.If):
        yield _changed(node, test=ast.Constant(True))
        yield _changed(node, test=ast.Constant(False))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


def _is_type_union(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.BitOr) and any(
        isinstance(side, ast.Attribute | ast.Name) and _text(side).split(".")[-1][0].isupper() for side in (node.left, node.right)
    )


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
        if node.value:
            yield ast.Constant(node.value - 1)
    elif isinstance(node.value, str) and node.value in TEXTS:
        yield ast.Constant(TEXTS[node.value])


def _changed(node: ast.AST, **fields) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def parsed(text: str) -> ast.AST:
    """One statement, to be put in the place of another."""
    return ast.parse(text).body[0]


def _with(tree: ast.Module, target: ast.AST, replacement: ast.AST) -> ast.Module:
    return ast.fix_missing_locations(_copied(tree, target, replacement))


def _copied(node: ast.AST, target: ast.AST, replacement: ast.AST) -> ast.AST:
    """A copy of the tree with the replacement for the target."""
    if node is target:
        return copy.deepcopy(replacement)
    new = copy.copy(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(new, field, [_copied(v, target, replacement) if isinstance(v, ast.AST) else v for v in value])
        elif isinstance(value, ast.AST):
            setattr(new, field, _copied(value, target, replacement))
    return new
