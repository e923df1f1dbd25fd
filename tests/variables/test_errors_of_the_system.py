"""OSError and its subclasses: the class that the number of an error asks for, and errors that leave the frame."""

from __future__ import annotations

import torch

from tests.support import captured, check

X = torch.arange(3.0)


class Missing(FileNotFoundError):
    pass


class Numbered(OSError):
    def __init__(self, number):
        super().__init__(number, "by number")


def test_errors_of_the_system_are_of_the_class_of_their_number():
    def fn(x):
        seen = []
        for args in (
            (2, "no"), (2, "no", "file"), (13, "no", None), (17, "there", "a", None, "b"), (99999, "odd"), ("x", "y"), (),
            ("one",), (2, "no", "file", 0, None), (1, 2, 3, 4, 5, 6), (None, None),
        ):  # fmt: skip
            try:
                raise OSError(*args)
            except FileNotFoundError as error:
                seen.append(("not found", error.filename, str(error)))
            except OSError as error:
                seen += [type(error), error.args, error.errno, error.strerror, error.filename, error.filename2]
                seen += [str(error), repr(error)]
        return x + 1, seen

    captured(fn, X)


def test_errors_of_the_system_that_leave_the_frame():
    def fn(x, which):
        errors = OSError(2, "no", "file"), Missing(3, "lost"), TimeoutError("late"), PermissionError(13, "no", "a", 0, "b")
        error = errors[which]
        error.note = which
        return x + 1, error, error.errno, str(error), [error.filename, error.filename2]

    for which in range(4):
        traced = captured(fn, X, which).result[1]
        plain = fn(X, which)[1]
        assert (type(traced), traced.args, str(traced), vars(traced)) == (type(plain), plain.args, str(plain), vars(plain))

    def raising(x):
        raise IsADirectoryError(21, "Is a directory", "here") from OSError(5, "io")

    check(raising, X)


def test_an_error_of_the_system_with_an_init_of_its_own():
    def fn(x):
        try:
            raise Numbered(2)
        except OSError as error:
            return x + 1, type(error), error.errno

    check(fn, X)
