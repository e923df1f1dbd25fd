"""Finds the names private to torch that the tracer uses; `python -m tools.private_names` writes them into
tracer/compat_torch/private_names.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DROP_IN = ROOT / "tracer" / "drop_in" / "torchs.py"  # loaded by `tracer.install` alone, which says itself what a torch lacks
LIST = ROOT / "tracer" / "compat_torch" / "private_names.py"


def text() -> str:
    """The module, with the names that the sources use now."""
    before = LIST.read_text()
    head = before[: before.index("NAMES = (")]
    return head + "NAMES = (\n" + "".join(f'    "{name}",\n' for name in used()) + ")\n"


def used() -> list[str]:
    """Dotted names with a part that begins with one underscore; of a name and what is read from it, the longer."""
    paths = sorted(path for path in (ROOT / "tracer").rglob("*.py") if path != DROP_IN)
    found = {name for path in paths for name in _used_by(ast.parse(path.read_text()))}
    return sorted(name for name in found if not any(other.startswith(f"{name}.") for other in found))


def _used_by(tree: ast.Module) -> Iterator[str]:
    imported = dict(_imported(tree))
    for name in [*imported.values(), *_read(tree, imported)]:
        parts = name.split(".")
        special = next((place for place, part in enumerate(parts) if part.startswith("__")), len(parts))
        if any(part.startswith("_") for part in parts[:special]):
            yield ".".join(parts[:special])


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Local name -> what it stands for, of what is imported from torch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "torch":
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            ours = [alias for alias in node.names if alias.name.split(".")[0] == "torch"]
            yield from ((alias.asname, alias.name) if alias.asname else ("torch", "torch") for alias in ours)


def _read(tree: ast.Module, imported: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        parts: list[str] = []
        owner: ast.AST = node
        while isinstance(owner, ast.Attribute):
            parts.append(owner.attr)
            owner = owner.value
        if parts and isinstance(owner, ast.Name) and owner.id in imported:
            yield ".".join([imported[owner.id], *reversed(parts)])


if __name__ == "__main__":
    LIST.write_text(text())
