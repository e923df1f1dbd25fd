"""`shapes` works, and is tested, where PyTorch is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCKED = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "tracer", "numpy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", BLOCKED + program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_an_env_decides_explains_and_proves() -> None:
    program = """
import dataclasses
from shapes import ConstraintViolationError, DimConstraint, DimPolicy, ShapeEnv

@dataclasses.dataclass(frozen=True)
class Place:
    name: str

env = ShapeEnv(where=lambda: "model.py:7")
a = env.create_size(8, Place("a.shape[0]"), DimPolicy.DYNAMIC, DimConstraint())
b = env.create_size(6, Place("b.shape[0]"))
assert env.evaluate_expr(2 * a >= 16) and env.evaluate_expr(a * b <= 100)
print([guard.readable for guard in env.produce_guards()])
env.evaluate_int(a)
try:
    env.check_constraints()
except ConstraintViolationError as error:
    print(error)
assert not {"torch", "tracer", "numpy"} & set(sys.modules)
"""
    told = run(program)
    assert "'8 <= a.shape[0]'" in told and "a.shape[0]*b.shape[0] <= 100" in told
    assert "a.shape[0] was marked dynamic, but the program forces a.shape[0] == 8" in told and "model.py:7" in told


def test_its_tests_pass() -> None:
    files = [f"tests/shapes/{name}.py" for name in ("test_env", "test_marks", "test_emission", "solver/test_prune")]
    told = run(f"import pytest\nsys.exit(pytest.main(['-q', '--noconftest', '-p', 'no:cacheprovider', *{files}]))")
    assert " passed" in told
