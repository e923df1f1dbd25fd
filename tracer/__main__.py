"""`python -m tracer contract diff OLD NEW`. Exit status: 0 equivalent, 1 shapes lost or gained, 2 unknown, 3 no contracts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tracer.exc import UserError
from tracer.serving.contract import Contract, difference

_STATUS = {"equivalent": 0, "different": 1, "unknown": 2}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tracer")
    commands = parser.add_subparsers(required=True)
    contract = commands.add_parser("contract", help="shape contracts, which fn.contract().save(path) writes")
    diff = contract.add_subparsers(required=True).add_parser("diff", help="which shapes were lost and which were gained")
    diff.add_argument("old")
    diff.add_argument("new")
    names = parser.parse_args(arguments)
    try:
        found = difference(Contract.read(names.old), Contract.read(names.new))
    except UserError as error:
        print(error, file=sys.stderr)
        return 3
    print(found)
    return _STATUS[found.status]


if __name__ == "__main__":
    sys.exit(main())
