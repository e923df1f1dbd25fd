"""The floors of docs/architecture.md, where every arrow points down, and the doors of torch that the decisions allow.

Read from the source by its AST; what stands under `if TYPE_CHECKING` is no dependency.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for package in ("tracer", "shapes") for path in (ROOT / package).rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
# The house, from the ground up. A room knows the rooms on the floors below it, and none beside or above it. A room is a package
# of `tracer`, or a module at its top.
GROUND = (
    "compat_torch config discovery errors exc forwarding graph_breaks inside locations logs metrics monitoring platform_check "
    "profile_labels user_marks whole_files"
)
FLOORS = (
    GROUND,
    "bytecode sources",
    "guards operators",
    "protocol",
    "graph",
    "backends effects",
    "variables",
    "library",
    "interpreter",
    "codegen",
    "runtime",
    "pipeline",
    "api",
    "serving",
    "report saving",
    "drop_in",
    "__init__ __main__",
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms.split()} | {"_C": -1}

# Imports inside functions: what takes long to load and is needed by few, or must wait. A comment there, `late: ...`, says why.
LATE = {
    ("shapes.solver.terms", "z3"),
    ("tracer.platform_check", "torch"),
    ("tracer.platform_check", "tracer._C"),
    ("tracer.platform_check", "tracer.compat_torch"),
    ("tracer.compat_torch.triton_kernels", "torch._higher_order_ops"),
    ("tracer.drop_in.autoload", "tracer"),
    ("tracer.api.settings", "tracer.pipeline.convert_frame"),
    ("tracer.api.settings", "tracer.runtime.region_state"),
    ("tracer.api.settings", "tracer.runtime.spec_choice"),
    ("tracer.backends.calling", "tracer.backends"),
    ("tracer.drop_in.installing", "tracer.drop_in"),
    ("tracer.backends.torch_compilers", "torch._inductor"),
    ("tracer.backends.torch_compilers", "torch._inductor.compile_fx"),
    ("tracer.backends.torch_compilers", "torch._inductor.decomposition"),
    ("tracer.saving.closures", "tracer.saving"),
    ("tracer.report.exporters.opentelemetry", "opentelemetry.metrics"),
    ("tracer.report.exporters.prometheus", "prometheus_client.core"),
}

FORBIDDEN = ("torch._dynamo", "torch._C._dynamo")
DROP_IN = "tracer.drop_in.torchs"  # the one module that knows torch's own tracer; docs/decisions/drop_in.md
BRIDGE = "tracer.backends.torch_bridge"
# private parts of torch -> the modules, and packages, that use them
DOORS: dict[str, set[str]] = {
    "torch._C": {"tracer.graph", "tracer.operators"},
    "torch._dispatch.python": {"tracer.graph", "tracer.operators", "tracer.effects.torch_state"},
    "torch._functorch.pyfunctorch": {"tracer.effects.torch_state"},
    "torch._functorch.config": {"tracer.backends.torch_compilers"},
    "torch._functorch.aot_autograd": {"tracer.backends.torch_compilers"},
    "torch._functorch._aot_autograd": {"tracer.backends.torch_compilers", "tracer.saving.compiled_graphs"},
    "torch._higher_order_ops": {"tracer.compat_torch.triton_kernels"},
    "torch._guards": {BRIDGE, "tracer.backends.outlining", "tracer.saving.compiled_graphs"},
    "torch._inductor": {
        "tracer.backends.torch_compilers",
        "tracer.saving.compiled_graphs",
        "tracer.saving.generated_code",
    },
    "torch._library": {"tracer.saving.operators"},
    "torch.nested._internal": {
        "tracer.graph.fakes",
        "tracer.guards.nested",
        "tracer.operators.graph_functions",
    },
    "torch._numpy": {"tracer.graph.operations.array_operations"},
    "torch._subclasses": {
        "tracer.compat_torch.fakes",
        "tracer.graph",
        "tracer.operators",
        "tracer.effects.fake_modes",
        "tracer.backends.view_strides",
        BRIDGE,
    },
    "torch.utils._device": {
        "tracer.effects.function_modes",
        "tracer.interpreter.overriding",
        "tracer.library.torch_.overrides",
        "tracer.library.torch_.global_state",
    },
    "torch.utils._pytree": {
        "tracer.api.conformance",
        "tracer.api.export",
        "tracer.graph.operations.func_transforms",
        "tracer.graph.independent_rows",
        "tracer.operators.row_rules",
        "tracer.graph.same_graph",
        "tracer.library",
        "tracer.backends.kept_operations",
        "tracer.backends.view_strides",
        BRIDGE,
    },
    "torch.utils._python_dispatch": {"tracer.graph", "tracer.operators", "tracer.library.torch_.wrappers", BRIDGE},
    "torch.utils._sympy": {"tracer.graph.symbols", BRIDGE},
    "torch.fx.experimental": {
        DROP_IN,
        "tracer.graph",
        "tracer.operators",
        "tracer.variables.values.symbolic",
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


def test_every_room_stands_on_a_floor():
    assert {room_of(module) for module in MODULES if within(module, "tracer")} == FLOOR_OF.keys() - {"_C"}


@pytest.mark.parametrize("room", [room for floor in FLOORS[1:] for room in floor.split()])
def test_a_room_knows_only_rooms_on_the_floors_below(room):
    arrows_up = [
        f"{module} -> {found.name}"
        for module in MODULES
        if within(module, "tracer") and room_of(module) == room
        for found in imports(module)
        if found.name.startswith("tracer.") and room_of(found.name) != room
        if FLOOR_OF[room_of(found.name)] >= FLOOR_OF[room]
    ]
    assert not arrows_up


def test_the_ground_floor_knows_no_room_above_it():
    for module in MODULES:
        if within(module, "tracer") and room_of(module) in GROUND.split():
            known = {room_of(found.name) for found in imports(module) if found.name.startswith("tracer.")}
            assert known <= {*GROUND.split(), "_C"}, module


def test_shapes_knows_nothing_of_the_tracer_nor_of_torch_and_only_its_solver_knows_z3():
    for module in MODULES:
        roots = {found.module.partition(".")[0] for found in imports(module)}
        assert "z3" not in roots or within(module, "shapes.solver"), module
        assert not within(module, "shapes") or not roots & {"tracer", "torch", "numpy"}, module


PACKAGES = sorted({module.rpartition(".")[0] for module in MODULES if "." in module})


@pytest.mark.parametrize("package", PACKAGES)
def test_what_lies_in_a_package_knows_one_another_in_one_direction(package):
    """Modules and folders alike: a folder counts as one."""

    def part(module: str) -> str:
        return module.removeprefix(f"{package}.").partition(".")[0]

    inside = {module for module in MODULES if within(module, package) and module != package}
    edges = {part(module): set() for module in inside}
    for module in inside:
        targets = {found.target for found in imports(module) if not found.late and found.target in inside}
        edges[part(module)] |= {part(target) for target in targets} - {part(module)}
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError, which names the circle


MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION = 500, 60


def test_files_and_functions_are_short():
    c_files = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in (".c", ".cpp", ".h")]
    long = [str(path) for path in [*FILES, *c_files] if len(path.read_text().splitlines()) > MOST_LINES_OF_A_FILE]
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION:
                long.append(f"{path}:{node.lineno} {node.name}")
    assert not long


def test_imports_stand_at_the_top():
    late = {(module, found.module) for module in MODULES for found in imports(module) if found.late}
    assert late == LATE


@pytest.mark.parametrize("module", sorted({module for module, _ in LATE}))
def test_an_import_inside_a_function_says_why(module):
    lines = MODULES[module].read_text().splitlines()
    nodes = [node for node in ast.walk(tree_of(MODULES[module])) if isinstance(node, (ast.Import, ast.ImportFrom))]
    late = sorted(node.lineno - 1 for node in nodes if node.col_offset)
    first_of_each = [number for number in late if number - 1 not in late]
    inside_functions = [number for number in first_of_each if lines[number - 1].strip() != "if TYPE_CHECKING:"]
    assert inside_functions
    assert not [lines[number] for number in inside_functions if "  # late: " not in lines[number]]


def test_torchs_own_tracer_is_not_touched():
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "_dynamo":
                pytest.fail(f"{module}:{node.lineno} touches {ast.unparse(node)}")
        for found in imports(module):
            if module != DROP_IN:
                assert not any(within(found.name, name) for name in FORBIDDEN), f"{module} imports {found.name}"
            if not within(module, "tracer.drop_in"):
                assert found.target != DROP_IN, f"{module} loads torch's own tracer"


def test_only_the_allowed_doors_of_torch_are_used():
    used = set()
    for module in MODULES:
        for found in imports(module) if module != DROP_IN else ():
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


# What a trace is made of: (module, class) -> the names by which others hold one.
STATE_OF_A_TRACE = {
    ("tracer.interpreter.trace", "Trace"): {"trace"},
    ("tracer.graph.output_graph", "OutputGraph"): {"output"},
    ("tracer.graph.fakes.fake_mode", "FakeMode"): {"mode", "fake_mode"},
    ("tracer.operators.operation_memo", "OperationCache"): {"operations"},
    ("tracer.effects.log", "Effects"): {"effects"},
    ("tracer.variables.tensors.overrides", "OverrideState"): {"overrides"},
}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def assigned(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that are assigned, also in an unpacking, or deleted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node


def assigned_from_outside(tree: ast.AST, owners: set[str], attributes: set[str]) -> list[str]:
    """Assignments to `owner.attribute`, whatever leads to the owner."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in assigned(tree)
        if node.attr in attributes and ast.unparse(node.value).rpartition(".")[2].lstrip("_") in owners
    ]


@pytest.mark.parametrize(("module", "name"), STATE_OF_A_TRACE)
def test_state_of_a_trace_is_changed_by_its_own_methods(module, name):
    body = next(node for node in tree_of(MODULES[module]).body if getattr(node, "name", "") == name)
    attributes = {node.attr for node in assigned(body) if ast.unparse(node.value) == "self"}
    owners = STATE_OF_A_TRACE[module, name]
    assert attributes
    for attribute in attributes:  # the test itself would find one
        assert assigned_from_outside(ast.parse(f"tx.{min(owners)}.{attribute}, other = 1, 2"), owners, attributes)
    for other, path in MODULES.items():
        if other != module:
            assert not assigned_from_outside(tree_of(path), owners, attributes), other


def test_the_tracer_promises_what_it_has_by_name():
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "Any" and node.value is not None:
                assert ast.unparse(node.value) not in ("self", "tx"), f"{path}:{node.lineno} takes the types off the tracer"
            if isinstance(node, ast.ClassDef) and node.name == "Tracer":
                assert "__getattr__" not in {getattr(each, "name", "") for each in node.body}
            if isinstance(node, ast.arg) and node.arg in ("tx", "cg"):
                assert node.annotation is None or ast.unparse(node.annotation) != "Any", f"{path}:{node.lineno}"


def test_ignored_types_are_few_and_say_why():
    lines = [f"{path}: {line}" for path in FILES for line in path.read_text().splitlines() if "# type: ignore" in line]
    assert [line for line in lines if not re.search(r"# type: ignore\[[a-z-]+\]  # \w", line)] == []
    assert len(lines) < 60
