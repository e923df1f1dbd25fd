"""Builds tracer._C from csrc/ against the installed torch, and says which packages there are. Everything else: pyproject.toml.

With TRACER_SANITIZE=1 in the environment it is built for gcc's address and undefined-behaviour sanitizers; tools/sanitize.py
says how such a build is run.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
KNOWN_PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))  # whose frames csrc/compat.h knows
FIRST_TORCH, TORCH_VERSION = (2, 13), "2.13.0"  # the oldest that it is written for, and the one to install where there is none
SOURCES = sorted(str(path.relative_to(ROOT)) for pattern in ("*.c", "*.cpp") for path in ROOT.glob(f"csrc/**/{pattern}"))
HEADERS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("csrc/**/*.h"))
C_FLAGS = ["-std=c11", "-Wextra", "-Wno-missing-field-initializers", "-Wno-cast-function-type"]
CXX_FLAGS = ["-std=c++20"]
SANITIZE = os.environ.get("TRACER_SANITIZE") == "1"
FAST = ["-O2", "-g0", "-flto=auto"]  # LTO: a lookup goes through small functions of several files
NO_LTO = {"csrc/tensors/meta_kernels.cpp"}  # no part of a lookup; among its many templates, LTO makes one a tenth slower
# torch keeps the type information to itself that would say whether an object is of the class it is used as.
SANITIZED = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize=vptr"]


def fail(what: str, hint: str) -> None:
    """Ends the build with a message that says what to do."""
    raise SystemExit(f"\nshapetracer cannot be built: {what}\n  {hint}\n")


def check_python() -> None:
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in KNOWN_PYTHONS:
        found = f"{sys.implementation.name} {sys.version.split()[0]}"
        names = ", ".join(".".join(map(str, version)) for version in KNOWN_PYTHONS)
        fail(f"this is {found}; frames are known of CPython {names} only.", "Use one of these to build and run it.")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-dev"
        fail(f"{header} is missing.", f"Install the headers of this Python (on Debian and Ubuntu: {package}).")


def torch_paths() -> tuple[list[str], list[str], int]:
    """Include folders, library folders and the C++ ABI of the installed torch."""
    try:
        import torch
        from torch.utils import cpp_extension
    except ImportError as error:
        fail(f"torch cannot be imported here ({error}).", f"Install it first: pip install torch=={TORCH_VERSION}")
        raise
    if tuple(map(int, torch.__version__.split(".")[:2])) < FIRST_TORCH:
        fail(
            f"torch is {torch.__version__}; the extension is written for {'.'.join(map(str, FIRST_TORCH))} and later.",
            f"pip install torch=={TORCH_VERSION}",
        )
    return cpp_extension.include_paths(), cpp_extension.library_paths(), int(torch.compiled_with_cxx11_abi())


def newest(source: Path) -> float:
    """When a source, or one of our headers that it includes, was written last."""
    todo, seen = [source], {source}
    while todo:
        for name in re.findall(r'^#include "([\w/]+\.h)"', todo.pop().read_text(), re.MULTILINE):
            header = ROOT / "csrc" / name
            if header not in seen:
                seen.add(header)
                todo.append(header)
    return max(path.stat().st_mtime for path in [*seen, ROOT / "setup.py"])


class BuildExtension(build_ext):
    """Gives each source the flags of its language, and compiles only what changed (torch's headers take their time)."""

    def finalize_options(self) -> None:
        super().finalize_options()
        # One place for the objects, whether built in the tree or by pip (which has throw-away folders).
        kind = "-sanitized" if SANITIZE else ""
        torch_version = importlib.metadata.version("torch")
        self.build_temp = str(ROOT / "build" / f"{sys.implementation.cache_tag}-torch-{torch_version}{kind}")

    def build_extensions(self) -> None:
        executable = getattr(self.compiler, "compiler_cxx", None) or ["c++"]
        if shutil.which(executable[0]) is None:
            fail(
                f"there is no C++ compiler ({executable[0]!r} is not found).",
                "Install one (on Debian and Ubuntu: apt install g++), or name yours in CC and CXX.",
            )
        compile_one = self.compiler._compile

        def compile_if_changed(
            obj: str, src: str, ext: str, cc_args: list[str], extra_postargs: list[str], pp_opts: list[str]
        ) -> None:
            made = Path(obj)
            if made.exists() and made.stat().st_mtime > newest(ROOT / src) and not self.force:
                return
            flags = [*(C_FLAGS if ext == ".c" else CXX_FLAGS), *(["-fno-lto"] if src in NO_LTO else [])]
            compile_one(obj, src, ext, cc_args, [*extra_postargs, *flags], pp_opts)

        # The compiler of setuptools has no public place for flags of one language.
        compiler: Any = self.compiler
        compiler._compile = compile_if_changed
        try:
            super().build_extensions()
        except Exception as error:
            if type(error).__name__ in ("CompileError", "CCompilerError", "DistutilsExecError"):
                fail(
                    f"the compiler gave up ({error}).",
                    "Its message is above; gcc 11 or clang 14 is needed, or newer.",
                )
            raise


def extension() -> Extension:
    check_python()
    include_dirs, library_dirs, abi = torch_paths()
    mode = SANITIZED if SANITIZE else FAST
    return Extension(
        "tracer._C",
        SOURCES,
        depends=[*HEADERS, "setup.py"],
        include_dirs=["csrc"],
        library_dirs=library_dirs,
        libraries=["c10", "torch_cpu", "torch", "torch_python"],
        define_macros=[("_GLIBCXX_USE_CXX11_ABI", str(abi))],
        extra_compile_args=[
            *mode,
            *(["-fno-plt"] if sys.platform == "linux" else []),  # calls find little of their code in the cache
            "-fvisibility=hidden",
            *(flag for path in include_dirs for flag in ("-isystem", path)),  # their warnings are not ours
        ],
        # `import torch` has loaded these libraries already; the path serves who imports tracer._C first.
        extra_link_args=[*mode, "-Wl,-rpath,$ORIGIN/../torch/lib"] if sys.platform == "linux" else [],
        language="c++",
    )


# What torch loads at its import is a package of its own: the tracer and torch are imported only where it asks for them.
PACKAGES = {"shapetracer_autoload": "tracer/drop_in/autoload"}

setup(
    packages=[*find_packages(include=["tracer*", "shapes*"], exclude=["tracer.drop_in.autoload"]), *PACKAGES],
    package_dir=PACKAGES,
    ext_modules=[extension()],
    cmdclass={"build_ext": BuildExtension},
)
