"""Raises a clear ImportError for a version of Python or torch that the tracer does not support."""

from __future__ import annotations

import os
import sys
import warnings

SUPPORTED_PYTHON = ((3, 11), (3, 12), (3, 13), (3, 14))  # in pyproject.toml and setup.py, too
# Where it builds and runs, but not all tests have: accepted where TRACER_TRY_PYTHON=1 asks for it.
TRIED_PYTHON: tuple[tuple[int, int], ...] = ()
TESTED_TORCH = ((2, 13), (2, 14))  # likewise
_TESTED = " and ".join(".".join(map(str, version)) for version in TESTED_TORCH)


def python_problem(implementation: str, version: tuple[int, ...], tries: bool = False) -> str | None:
    """What is wrong with this interpreter, and what to do; None if nothing. `tries`: whether the user asks to try one for which
    not all tests have run."""
    names = [".".join(map(str, supported)) for supported in SUPPORTED_PYTHON]
    wanted = f"{', '.join(names[:-1])} or {names[-1]}"
    if implementation != "cpython":
        return f"shapetracer needs CPython {wanted} (it uses its frame evaluation hook); this is {implementation}."
    minor, seen = tuple(version[:2]), ".".join(map(str, version[:3]))
    if minor in SUPPORTED_PYTHON or (tries and minor in TRIED_PYTHON):
        return None
    problem = f"shapetracer needs CPython {wanted}; this is {seen}. Make an environment with python{names[-1]}."
    if minor in TRIED_PYTHON:
        problem += " Only a part of the tests has run on this version: to try it, set TRACER_TRY_PYTHON=1 in the environment."
    return problem


def torch_problem(version: str) -> str | None:
    """What is wrong with this torch, and what to do; None if nothing."""
    if _minor(version) < TESTED_TORCH[0]:
        newest = ".".join(map(str, TESTED_TORCH[-1]))
        return f"shapetracer needs torch {_TESTED}; this is torch {version}. Install: pip install 'torch=={newest}.*'"
    return None


def build_problem(version: str, built_for: str) -> str | None:
    """What is wrong with an extension that was compiled for torch `built_for`; None if nothing."""
    if _minor(version) == _minor(built_for):
        return None
    return f"the extension tracer._C was built for torch {built_for}; this is torch {version}. {_REBUILD}"


def is_tested(version: str) -> bool:
    """Whether the tracer was tested with a version of torch; others are probed at import."""
    return _minor(version) in TESTED_TORCH


def missing_problem(version: str, missing: list[str]) -> str | None:
    """What is wrong with a torch that lacks names which the tracer uses; None if nothing."""
    if not missing:
        return None
    newest = ".".join(map(str, TESTED_TORCH[-1]))
    return (
        f"torch {version} is newer than those that shapetracer was tested with ({_TESTED}), and lacks what it uses:"
        f" {', '.join(missing)}. Install: pip install 'torch=={newest}.*'"
    )


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split("+")[0].split(".")[:2]
    return int(major), int(minor)


_REBUILD = (
    "In a checkout run `make`; otherwise reinstall with `pip install --force-reinstall --no-deps --no-build-isolation"
    " shapetracer` in the environment that holds the torch you use."
)


def require_supported_platform() -> None:
    """Raises ImportError where this version cannot work; imports torch only once Python itself is right."""
    tries = os.environ.get("TRACER_TRY_PYTHON") == "1"
    _refuse(python_problem(sys.implementation.name, sys.version_info[:3], tries))
    try:
        import torch  # late: a torch for another Python fails with a less clear message
    except ModuleNotFoundError as error:
        raise ImportError(f"shapetracer needs torch {_TESTED}: pip install torch") from error
    _refuse(torch_problem(torch.__version__))
    try:
        import tracer._C  # noqa: F401  # late: it does not load beside another torch
    except ImportError as error:
        raise ImportError(f"the extension tracer._C cannot be loaded ({error}). {_REBUILD}") from error
    _refuse(build_problem(torch.__version__, sys.modules["tracer._C"].built_for_torch))
    if not is_tested(torch.__version__):
        from tracer.compat_torch import private_names  # late: looking for the names takes seconds

        _refuse(missing_problem(torch.__version__, private_names.missing()))
        warnings.warn(
            f"torch {torch.__version__} is newer than those that shapetracer was tested with ({_TESTED}). What it uses of"
            " torch is there, but may have changed: compare results with eager mode before you rely on it.",
            stacklevel=2,
        )


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise ImportError(problem)


require_supported_platform()
