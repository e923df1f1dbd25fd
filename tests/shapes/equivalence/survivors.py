"""Mutants that no check can notice, listed in survivors.txt with why they change nothing that matters."""

from pathlib import Path

LIST = Path(__file__).with_name("survivors.txt")


def listed() -> dict[str, str]:
    """Name to reason."""
    known = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition("  ## ")
            known[name] = reason
    return known
