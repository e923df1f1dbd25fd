"""The arrows of docs/architecture.md ("Who may know whom"), and the doors of torch that the decisions allow.

Read from the source by its AST; what stands under `if TYPE_CHECKING` is no dependency.
"""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for package in ("tracer", "shapes") for path in (ROOT / package).rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
# leaves know no room of the tracer
LEAVES = {"locations", "errors", "exc", "config", "user_marks", "metrics", "logs", "steady_steps", "handing_on"}

# room -> what it may import of the tracer; a room is a package or a file of `tracer`, `a.b` is that file alone
ROOMS: dict[str, set[str]] = {
    "sources": {"_C"},
    "bytecode": set(),
    "guards": {"sources", "_C", "locations", "steady_steps"},
    "graph_breaks": {"errors"},
    "operators": {"graph.proxies", "graph_breaks", "_C"},
    "graph": {"operators", "sources", "graph_breaks", "variables.base", "_C", *LEAVES},
    "effects": {"variables", "graph_breaks", "sources", *LEAVES},
    "variables": {"sources", "guards", "graph", "operators", "effects", "graph_breaks", "library.registry", "_C", *LEAVES},
    "library": {"variables", "sources", "guards", "graph", "operators", "effects", "graph_breaks", "preserve", "polyfills",
                "api.inside", "_C", *LEAVES},
    "polyfills": {"library", "api.inside"},  # where they are registered, and what stands for a break
    "interpreter": {"variables", "library", "sources", "guards", "graph", "operators", "effects", "graph_breaks", "bytecode",
                    "preserve", "polyfills", "log_texts", "_C", *LEAVES},
    "codegen": {"interpreter", "variables", "effects", "guards", "graph", "sources", "graph_breaks", "bytecode",
                "_C", *LEAVES},
    "preserve": {"graph_breaks", "_C", *LEAVES},
    "backends": {"graph", "operators", *LEAVES},
    "cache": {"_C", "guards", "metrics"},
    "trace_guards": {"interpreter", "variables", "guards", "sources", *LEAVES},
    "stances": {"_C"},
    "misses": {"cache", "upkeep", "time_limit", "frame_state", "stances", "log_texts", "guards", "sources", "_C", *LEAVES},
    "time_limit": {"preserve", "tracing_lock", "_C", *LEAVES},
    "upkeep": {"cache", "guards", "graph", "sources", "tracing_lock", "_C", *LEAVES},
    "shape_spec": {"argument_paths", "sources", "guards", *LEAVES},
    "argument_paths": {"sources", "guards", "_C", *LEAVES},
    "frame_state": {"sources", *LEAVES},
    "log_texts": {"guards", "locations", "errors", "bytecode"},
    "api": {"backends", "region_state", "shape_spec", "serving", "saving", "stances", "_C", *LEAVES},
    "report": {"log_texts", "guards", "sources", *LEAVES},
    "saving": {"serving", "cache", "upkeep", "guards", "graph", "preserve", "sources", "tracing_lock", "_C", *LEAVES},
    "serving": {"api", "region_state", "cache", "upkeep", "graph", "preserve", "shape_spec", "argument_paths", "guards",
                "sources", "tracing_lock", "_C", *LEAVES},
}  # fmt: skip
KNOWN_BY_ALL_OF = {
    "convert_frame": {"region_state"},
    "region_state": {"api", "serving"},
    "api": {"__init__", "library", "polyfills", "serving"},
    "codegen": {"convert_frame"},
    "report": {"__init__", "__main__"},
    "saving": {"__init__", "api"},
    "serving": {"__init__", "__main__", "api", "saving"},
}

# Imports inside functions: what takes long to load and is needed by few.
LATE = {
    ("shapes.solver.terms", "z3"),
    ("tracer.platform_check", "torch"),  # after the versions were found to be right
    ("tracer.platform_check", "tracer._C"),
    ("tracer.api.settings", "tracer.region_state"),
    ("tracer.api.settings", "tracer.shape_spec"),
    ("tracer.api.region_methods", "tracer.serving"),
    ("tracer.api.region_methods", "tracer.saving"),
    ("tracer.backends.calling", "tracer.backends"),
    ("tracer.backends.torch_compilers", "torch._inductor"),
    ("tracer.backends.torch_compilers", "torch._inductor.compile_fx"),
    ("tracer.graph.array_operations", "torch._numpy"),  # only programs with arrays need it
}

FORBIDDEN = ("torch._dynamo", "torch._C._dynamo")
BRIDGE = "tracer.backends.torch_bridge"
# private parts of torch -> the modules, and packages, that use them
DOORS: dict[str, set[str]] = {
    "torch._C": {"tracer.graph", "tracer.operators"},
    "torch._dispatch.python": {"tracer.graph", "tracer.operators", "tracer.preserve"},
    "torch._functorch.pyfunctorch": {"tracer.preserve"},
    "torch._functorch.aot_autograd": {"tracer.backends.torch_compilers"},
    "torch._guards": {BRIDGE},
    "torch._inductor": {"tracer.backends.torch_compilers"},
    "torch._numpy": {"tracer.graph.array_operations"},
    "torch._subclasses": {"tracer.graph", "tracer.operators", "tracer.backends.views", BRIDGE},
    "torch.utils._device": {
        "tracer.preserve",
        "tracer.interpreter.overriding",
        "tracer.library.torch_.overrides",
        "tracer.library.torch_.state",
    },
    "torch.utils._pytree": {
        "tracer.api.export",
        "tracer.graph.transformed",
        "tracer.graph.rows",
        "tracer.operators.row_rules",
        "tracer.graph.same_graph",
        "tracer.library",
        "tracer.backends.views",
        BRIDGE,
    },
    "torch.utils._python_dispatch": {"tracer.graph", "tracer.operators", "tracer.library.torch_.wrappers", BRIDGE},
    "torch.utils._sympy": {"tracer.graph.torch_sympy", "tracer.graph.shape_env_adapter", BRIDGE},
    "torch.fx.experimental": {
        "tracer.graph",
        "tracer.operators",
        "tracer.variables.symbolic",
        "tracer.library.torch_.numbers",
        "tracer.backends.aten_operators",
        BRIDGE,
    },
}
CLASSES_OF_TORCH = {"ShapeEnv", "SymNode", "DimDynamic", "StatelessSymbolicContext", "StatefulSymbolicContext"}


class Import:
    def __init__(self, module: str, name: str, late: bool) -> None:
        self.module = module  # what is imported from
        self.name = name  # dotted, with the imported name
        self.late = late

    @property
    def target(self) -> str:
        """The module of this project, or of another, that is loaded."""
        return self.name if self.name in MODULES else self.module


@functools.cache
def imports(module: str) -> tuple[Import, ...]:
    return tuple(_imports(ast.parse(MODULES[module].read_text()), late=False))


def _imports(node: ast.AST, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, alias.name, late) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0 and child.module is not None, "imports name the whole path"
            yield from (Import(child.module, f"{child.module}.{alias.name}", late) for alias in child.names)
        yield from _imports(child, late or isinstance(child, (ast.FunctionDef, ast.Lambda)))


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_only_the_rooms_that_it_may_know(room):
    allowed = {f"tracer.{name}" for name in ROOMS[room] | {room}}
    strangers = [
        f"{module} -> {found.name}"
        for module in MODULES
        if module.startswith("tracer") and room_of(module) == room
        for found in imports(module)
        if within(found.name, "tracer") and found.name != "tracer" and not any(within(found.name, name) for name in allowed)
    ]
    assert not strangers


@pytest.mark.parametrize("room", KNOWN_BY_ALL_OF)
def test_few_know_the_top(room):
    knows = {room_of(module) for module in MODULES for found in imports(module) if within(found.name, f"tracer.{room}")}
    assert knows - {room} <= KNOWN_BY_ALL_OF[room]


def test_shapes_knows_nothing_of_the_tracer_nor_of_torch_and_only_its_solver_knows_z3():
    for module in MODULES:
        roots = {found.module.partition(".")[0] for found in imports(module)}
        assert "z3" not in roots or within(module, "shapes.solver"), module
        assert not within(module, "shapes") or not roots & {"tracer", "torch", "numpy"}, module


def test_imports_make_no_cycle():
    edges = {
        module: {found.target for found in imports(module) if not found.late and found.target in MODULES} - {module}
        for module in MODULES
    }
    for module in edges:  # a package's __init__ that gathers its own modules is no cycle with them
        edges[module] = {target for target in edges[module] if not within(module, target)}
    graphlib.TopologicalSorter(edges).prepare()


def test_imports_stand_at_the_top():
    late = {(module, found.module) for module in MODULES for found in imports(module) if found.late}
    assert late == LATE


def test_torchs_own_tracer_is_not_touched():
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "_dynamo":
                pytest.fail(f"{module}:{node.lineno} touches {ast.unparse(node)}")
        for found in imports(module):
            assert not any(within(found.name, name) for name in FORBIDDEN), f"{module} imports {found.name}"


def test_only_the_allowed_doors_of_torch_are_used():
    used = set()
    for module in MODULES:
        for found in imports(module):
            private = found.module.startswith("torch") and any(part[:1] == "_" for part in found.module.split("."))
            door = next((name for name in DOORS if within(found.module, name) or within(found.name, name)), None)
            if door is None:
                assert not private, f"{module} imports {found.name}, which is private to torch"
                continue
            assert any(within(module, user) for user in DOORS[door]), f"{module} imports {found.name}"
            used.add(door)
    assert used == set(DOORS)


def test_torchs_shape_env_and_sym_node_stay_outside_but_for_the_bridge():
    for module, path in MODULES.items():
        if module == BRIDGE:
            continue
        from_torch = {found.name.rpartition(".")[2] for found in imports(module) if within(found.module, "torch")}
        assert not from_torch & CLASSES_OF_TORCH, module
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in CLASSES_OF_TORCH:
                assert "symbolic_shapes" not in ast.unparse(node), f"{module}:{node.lineno}"
                assert not ast.unparse(node).startswith("torch."), f"{module}:{node.lineno}"
