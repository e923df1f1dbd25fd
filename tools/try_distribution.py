"""Installs each distribution of a folder in a fresh environment and runs a program: python -m tools.try_distribution build/dist.

The environments see the packages of the running one (torch is large), but not its shapetracer, and are thrown away.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROGRAM = Path(__file__).with_name("smoke_program.py")


def fresh_environment(folder: Path) -> Path:
    """A virtual environment that sees the running one's packages; returns its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    query = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = Path(subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip())
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    # A folder that a .pth file names is searched, but the .pth files in it are not read: no editable install is seen.
    (own / "packages_of_the_builder.pth").write_text("\n".join(packages) + "\n")
    return python


def try_distribution(distribution: Path) -> None:
    """Raises CalledProcessError where the distribution cannot be installed, or the program fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRACER_"))}
    with tempfile.TemporaryDirectory() as folder:
        python = fresh_environment(Path(folder, "environment"))
        install = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed", "--no-cache-dir"]
        pip = [sys.executable, "-m", "pip", "--python", python, "install", *install, distribution.resolve()]
        # The build imports torch, which would load the editable install of the builder: its entry point is seen, its code is not.
        building = environment | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        subprocess.run(pip, check=True, cwd=folder, env=building)
        program = Path(folder, "program.py")
        program.write_text(PROGRAM.read_text())
        subprocess.run([python, program, Path(folder, "environment").resolve()], check=True, cwd=folder, env=environment)
        subprocess.run([python, "-m", "tracer", "--help"], check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    print(f"{distribution.name}: installed in a fresh environment, and runs")


def main(folder: str) -> None:
    found = sorted([*Path(folder).glob("*.whl"), *Path(folder).glob("*.tar.gz")])
    if {path.suffix for path in found} != {".whl", ".gz"}:
        raise SystemExit(f"{folder} does not hold a wheel and an sdist: {[path.name for path in found]}")
    for distribution in found:
        try_distribution(distribution)


if __name__ == "__main__":
    main(sys.argv[1])
