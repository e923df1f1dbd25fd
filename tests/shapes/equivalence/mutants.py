"""Mutants of the code that changes guards: one small mistake each, made mechanically, run against a battery of checks.

`python -m tests.shapes.equivalence.mutants [MODULE or NAME ...]` runs them (all if none is given) and prints the
survivors. Each runs in a forked child that imports the package afresh with the one module changed, so nothing is left
behind. A mutant is named by its function and what it changes, which stays the same when lines move.
"""

import ast
import collections
import copy
import importlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
SURVIVORS = Path(__file__).with_name("survivors.txt")
TIMEOUT_S = 60
WORKERS = 2
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
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, ast.If) and _text(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Assign) and _text(child.targets[0]) == "__all__":
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


# ------------------------------------------------------------------------------------------------ running them


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other source."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == self.mutant.module else None

    def exec_module(self, module):
        exec(self.mutant.code(), module.__dict__)


def start(mutant: Mutant | None, module: str) -> int:
    """A child that exits with 0 if no check of the battery of `module` notices; None is the code as it is."""
    child = os.fork()
    if child == 0:
        _run_child(mutant, module)
    return child


def _run_child(mutant: Mutant | None, module: str) -> None:
    code = 1
    try:
        for name in [name for name in sys.modules if name.split(".")[0] == "shapes" or name.startswith("tests.shapes")]:
            del sys.modules[name]
        if mutant is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1), os.dup2(null, 2)
            sys.meta_path.insert(0, _Mutated(mutant))
        signal.alarm(TIMEOUT_S)  # one that hangs would be noticed
        importlib.import_module("tests.shapes.equivalence.battery").run(module)
        code = 0
    except BaseException:
        if mutant is None:
            traceback.print_exc()
    finally:
        os._exit(code)


def survivors(chosen: Sequence[Mutant]) -> list[str]:
    """Runs them, two at a time."""
    alive, running, waiting = [], {}, list(reversed(chosen))
    while waiting or running:
        while waiting and len(running) < WORKERS:
            mutant = waiting.pop()
            running[start(mutant, mutant.module)] = mutant
        child, status = os.wait()
        mutant = running.pop(child)
        if os.waitstatus_to_exitcode(status) == 0:
            alive.append(mutant.name)
    return alive


def listed() -> dict[str, str]:
    """Survivors that are known, each with why it changes nothing that matters."""
    known = {}
    for line in SURVIVORS.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition("  ## ")
            known[name] = reason
    return known


def is_listed(name: str, known: dict[str, str]) -> bool:
    """Listed by name, or by the function with a star: `module.function: *`."""
    return name in known or f"{name.split(': ')[0]}: *" in known


def main(chosen: Sequence[str]) -> None:
    """Of the modules, or of the mutants named, or of all modules."""
    for module in MODULES:
        begin = time.monotonic()
        found = [mutant for mutant in mutants(module) if not chosen or module in chosen or mutant.name in chosen]
        if not found:
            continue
        alive = survivors(found)
        print(f"# {module}: {len(found)} mutants, {len(alive)} survive, {time.monotonic() - begin:.0f} s", flush=True)
        for name in alive:
            print(f"{name}  ## {listed().get(name, '')}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
