"""Files that are written whole or not at all, so that nobody reads half of one."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from tracer.errors import UserError


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file in place of what is there. Until it is complete it has a name that nobody can guess, beside it, and only its
    owner may read it; then it has the mode of the file that it replaces, or that of any new file. What is no regular file (a
    terminal, a pipe) is written to as it is. Raises UserError, with the path, for one that cannot be written."""
    try:
        target = Path(os.path.realpath(path))  # a link stays one
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except (OSError, ValueError) as error:  # ValueError: a name with a null in it
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{os.fspath(path)} cannot be written: {reason}",
            hint="give the path of a file in a folder that is there and may be written.",
        ) from None


def _replace(target: Path, data: bytes) -> None:
    if target.is_dir():
        raise IsADirectoryError(0, "it is a folder")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".new")  # 0600
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # before the name says that it is whole, also if the machine stops
            os.replace(temporary, target)
            os.fchmod(file.fileno(), mode)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    """What new files lack. (`os.umask` can only be asked by setting it, for all threads.)"""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1], 8) for line in [*status, "Umask: 077"] if line.startswith("Umask:"))
    return 0o077
