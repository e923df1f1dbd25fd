"""Generator functions that tests share."""

from __future__ import annotations


def numbers(count):
    for number in range(count):
        yield number
    return "returned"


def echo():
    received = []
    try:
        while True:
            received.append((yield len(received)))
    except ValueError as error:
        yield str(error), received
    finally:
        received.append("finally")
