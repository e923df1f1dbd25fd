"""Code that Inductor generated, with its compiled kernels, as data: another process runs it without Inductor and a C++ compiler.

The generated module compiles or finds its kernels when it is executed, under paths that depend on the machine. Here these calls
are replaced by the shared libraries themselves, and imports of Inductor by the functions of torch that were found through them.
"""

from __future__ import annotations

import ast
import hashlib
import tempfile
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch._inductor.codecache import CppPythonBindingsCodeCache, PyCodeCache
from torch._inductor.output_code import CompiledFxGraph, OutputCode
from torch._inductor.triton_bundler import TritonBundler

from tracer.saving.fingerprints import Refused

_KERNEL, _NAMES = "_tracer_kernel", "_tracer_names"
_COMPILER = "async_compile"
_UNUSED = ("get_args", "benchmark_compiled_module")  # functions of the generated module for people who try it alone
_TEXTS = ("runnable_graph_str", "inductor_post_grad_graph_str", "inductor_provenance_mapping_str",
          "inductor_provenance_stack_traces_str")  # for logs; they have paths of the checkout  # fmt: skip


class BundledCode(OutputCode):
    """What Inductor made of one graph: the source of the module, and the shared libraries of its kernels.

    `graph`: torch's own record of the graph, which says how to call it.
    """

    def __init__(self, graph: CompiledFxGraph, source: str, libraries: tuple[bytes, ...]) -> None:
        self.graph, self.source, self.libraries = graph, source, libraries
        self._boxed_call = True  # read from the object's own dict

    def __call__(self, inputs: Any) -> Any:
        """As a call of the graph, without what that notes for the compiler, whose modules are not there."""
        return self.graph.current_callable(inputs)

    def prepare_for_serialization(self) -> None:
        raise NotImplementedError("it is data already")

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        raise NotImplementedError("it is compiled already")

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Called by AOTAutograd's result when it is loaded: makes the graph callable."""
        graph = self.graph
        if graph._triton_bundle:
            TritonBundler.read_and_emit(graph._triton_bundle)
        module = _executed(self.source, self.libraries, constants.unwrap(graph))
        graph.current_callable = module.call
        graph.recursively_apply_fns = getattr(module, "recursively_apply_fns", None)
        graph.compiled_fn_runner = getattr(module, "runner", None)
        graph.post_compile(example_inputs, constants, graph_kwargs)


def bundled(graph: CompiledFxGraph) -> BundledCode:
    """The generated code of a graph that was compiled in this process, as data. Raises Refused for code that has parts which are
    not known here."""
    module = next((each for each in reversed(PyCodeCache.modules) if each.key == graph.cache_key), None)
    if module is None:
        raise Refused("torch no longer has the code that Inductor generated for it")
    if graph.frozen_param_names:
        raise Refused("its parameters are frozen into the compiled graph")
    source, libraries = _without_compiler(ast.parse(graph.source_code), vars(module))
    kept = CompiledFxGraph.__new__(CompiledFxGraph)
    kept.__dict__.update(vars(graph))
    kept.prepare_for_serialization()
    kept.source_code = source
    kept.cache_linemap = []
    kept.fx_kwargs = {name: value for name, value in graph.fx_kwargs.items() if name != "get_decomp_fn"}
    for name in _TEXTS:
        setattr(kept, name, "")
    return BundledCode(kept, source, libraries)


# -- the source ---------------------------------------------------------------------------------------------------


def _without_compiler(tree: ast.Module, values: dict[str, Any]) -> tuple[str, tuple[bytes, ...]]:
    """The source with kernels and names in place of the calls and imports that make and find them; and the libraries.
    `values`: the globals of the module that was executed from it."""
    libraries: list[bytes] = []
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.If) or getattr(statement, "name", "") in _UNUSED:
            continue  # `if __name__ == "__main__"`
        if isinstance(statement, ast.Assign) and _is_kernel(statement.value):
            (target,) = statement.targets
            libraries.append(_library(values[target.id]))  # type: ignore[attr-defined]  # kernels are assigned to names
            statement.value = _call(_KERNEL, ast.Constant(len(libraries) - 1))
        body.append(statement)
    without = [each for each in body if not _is_of_compiler(each)]
    if _COMPILER not in _names_read(without):
        body = without
    used = _names_read(body)
    body = [found for each in body if (found := _import(each, used, values, body)) is not None]
    return ast.unparse(ast.Module(body, [])), tuple(libraries)


def _is_kernel(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == f"{_COMPILER}.cpp_pybinding"


def _is_of_compiler(statement: ast.stmt) -> bool:
    """Whether a statement makes the object that compiles kernels, waits for it, or deletes it."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name())):
            return name == _COMPILER
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="wait"))):
            return name == _COMPILER
        case ast.Delete(targets=[ast.Name(id=name)]):
            return name == _COMPILER
    return False


def _library(kernel: Any) -> bytes:
    """The shared library of a kernel."""
    path = getattr(getattr(kernel, "__self__", None), "__file__", None)
    if not isinstance(kernel, types.BuiltinFunctionType) or path is None:
        raise Refused("one of its kernels is not in a library of its own")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Refused(f"the library of a kernel cannot be read: {error}") from None


def _import(statement: ast.stmt, used: set[str], values: dict[str, Any], body: list[ast.stmt]) -> ast.stmt | None:
    """An import with only the names that are used; None if that is none. What is imported from Inductor to reach functions of
    torch (`extern_kernels.addmm`) is replaced by these functions: Inductor takes a second to import."""
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return statement
    statement.names = [name for name in statement.names if (name.asname or name.name.partition(".")[0]) in used]
    if not statement.names:
        return None
    is_of_inductor = isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("torch._inductor")
    if is_of_inductor and len(statement.names) == 1:
        name = statement.names[0].asname or statement.names[0].name
        functions = _functions_of_torch(name, values[name], body)
        if functions is not None:
            pairs = ast.parse(repr(functions), mode="eval").body
            return ast.Assign([ast.Name(name, ast.Store())], _call(_NAMES, pairs), lineno=0)
    return statement


def _functions_of_torch(name: str, value: Any, body: list[ast.stmt]) -> dict[str, str] | None:
    """What is read of an object -> the name of the function of torch that is there. None if the object is used otherwise, or one
    of these is no such function."""
    found: dict[str, str] = {}
    nodes = [node for statement in body for node in ast.walk(statement)]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and _is_name(node.value, name)]
    if len(attributes) != sum(_is_name(node, name) for node in nodes):
        return None
    for node in attributes:
        function: Any = getattr(value, node.attr, torch)
        known = str(getattr(function, "__name__", ""))
        if type(function) is not types.BuiltinFunctionType or getattr(torch, known, None) is not function:
            return None
        found[node.attr] = known
    return found


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _names_read(statements: Iterable[ast.stmt]) -> set[str]:
    return {node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _call(name: str, argument: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [argument], [])


# -- running it ---------------------------------------------------------------------------------------------------


def _executed(source: str, libraries: tuple[bytes, ...], constants: dict[str, Any]) -> types.ModuleType:
    name = f"tracer_generated_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    module = types.ModuleType(name)
    vars(module)[_KERNEL] = lambda index: _kernel(libraries[index])
    vars(module)[_NAMES] = lambda pairs: types.SimpleNamespace(**{key: getattr(torch, value) for key, value in pairs.items()})
    exec(compile(source, f"<{name}>", "exec"), vars(module))
    vars(module).update(constants)
    return module


def _kernel(library: bytes) -> Callable[..., Any]:
    """The function `kernel` of a shared library, which is loaded once in a process."""
    name = f"tracer_{hashlib.sha256(library).hexdigest()[:32]}"
    with tempfile.TemporaryDirectory(prefix="tracer_kernel_") as folder:  # which others may not enter
        path = Path(folder, "kernel.so")
        path.write_bytes(library)
        loaded = CppPythonBindingsCodeCache._load_library(str(path), name)
    kernel: Callable[..., Any] = loaded.kernel
    return kernel
