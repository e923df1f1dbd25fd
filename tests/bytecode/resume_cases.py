"""Small functions for the resume tests: `CASES` pairs each with a maker of fresh arguments.

Each takes a `log` list, if it has effects, so that these are compared too.
"""

import math
import sys
from contextlib import contextmanager, suppress

CASES = []


def case(*arguments, raises=False):
    """Register a function, with an expression (text, evaluated afresh for each run) for its arguments."""

    def register(function):
        CASES.extend((function, text) for text in arguments)
        return function

    return register


class Manager:
    """Logs its entry and exit; swallows exceptions of the given type."""

    def __init__(self, log, name, swallow=()):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self.name

    def __exit__(self, kind, value, traceback):
        self.log.append(f"exit {self.name} {kind and kind.__name__}")
        return kind is not None and issubclass(kind, self.swallow)


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y
        self.double = lambda value: value * 2

    def sum(self, scale=1, *, offset=0):
        return (self.x + self.y) * scale + offset

    def __repr__(self):
        return f"Point({self.x}, {self.y})"


@case("3, 4")
def arithmetic(a, b):
    c = a * b + a // b - (a % b) ** 2
    c += a
    c <<= 2
    return -c if c > 3 and not a == b or b < a < 10 else ~c


@case("[], [1, 2, 3]")
def for_loop(log, items):
    total = 0
    for i, item in enumerate(items):
        total += item * i
        log.append(total)
    else:
        log.append("else")
    return total


@case("[], 5")
def nested_loops(log, n):
    found = []
    for i in range(n):
        for j in range(i, n):
            if (i + j) % 3 == 0:
                continue
            if i * j > 6:
                break
            found.append((i, j))
        else:
            log.append(i)
    while n > 0:
        n -= 2
        if n == 1:
            break
    else:
        log.append("exhausted")
    return found


@case("[], 1", "[], 0", "[], 'x'")
def try_except_else_finally(log, x):
    try:
        log.append("try")
        y = 1 / x
    except ZeroDivisionError as error:
        log.append(str(error))
        log.append(repr(sys.exc_info()[1]))
        y = None
    except (TypeError, ValueError):
        log.append(sys.exc_info()[0].__name__)
        y = "wrong type"
    else:
        log.append("else")
    finally:
        log.append("finally")
        log.append(repr(sys.exc_info()[1]))
    log.append(repr(sys.exc_info()))
    return y


@case("[], 0", "[], 1", "[], 2", "[], 3")
def nested_handlers(log, n):
    try:
        try:
            if n == 0:
                raise KeyError("a")
            [][n - 1 : n + 1][n - 2]
        except KeyError as error:
            log.append(repr(error))
            try:
                log.append(repr(sys.exc_info()[1]))
                raise ValueError("second") from error
            except ValueError as second:
                log.append(repr(second.__cause__))
                log.append(repr(sys.exc_info()[1]))
            log.append(repr(sys.exc_info()[1]))
            raise
        finally:
            log.append("inner finally")
    except LookupError as error:
        log.append(repr(error))
        for i in range(2):
            try:
                raise RuntimeError(i)
            except RuntimeError as runtime:
                log.append(repr(runtime.__context__))
        return repr(error.__context__)
    finally:
        log.append(repr(sys.exc_info()[1]))
    return "no error"


@case("[], 0", "[], 2")
def returns_from_finally_and_handlers(log, n):
    for i in range(3):
        try:
            if i == n:
                return "from try", i
            try:
                raise ValueError(i)
            except ValueError as error:
                if i == 1:
                    return "from handler", str(error)
            finally:
                log.append(i)
        finally:
            log.append("outer")
    return None


@case("[]")
def finally_swallows(log):
    while True:
        try:
            raise ValueError
        finally:
            log.append(repr(sys.exc_info()[1]))
            break
    log.append(repr(sys.exc_info()[1]))
    return log


@case("[], 1", "[], 0", raises=True)
def leaves_with_an_exception(log, n):
    try:
        value = 10 // n
        log.append(value)
        return {}[value]
    except ZeroDivisionError:
        log.append("zero")
        raise
    finally:
        log.append("finally")


@case("[], None", "[], KeyError", "[], ValueError")
def with_blocks(log, error):
    with Manager(log, "a", KeyError) as a, Manager(log, "b") as b:
        log.append(a + b)
        if error is not None:
            raise error("inside")
        log.append("end")
    log.append(repr(sys.exc_info()[1]))
    return a


@case("[], 3")
def with_inside_loop(log, n):
    for i in range(n):
        with Manager(log, i, ZeroDivisionError):
            if i == 1:
                continue
            log.append(1 // i)
            if i == 2:
                return "left"
    return "never"


@contextmanager
def generated(log, name):
    log.append(f"enter {name}")
    try:
        yield name
    except KeyError:
        log.append("caught")
    finally:
        log.append(f"exit {name}")


@case("[], {'a': 1}", "[], {}")
def with_generated_manager(log, table):
    value = None
    with generated(log, "g"):
        value = table["a"]
    with suppress(KeyError):
        value = table["b"]
    return value


@case("[3, 1, 2], 2")
def comprehensions(items, k):
    squares = [x * x + k for x in items if x != k]
    table = {x: [y for y in range(x)] for x in items}
    unique = {x % k for x in items}
    total = sum(x + y for x in items for y in squares)
    return squares, table, unique, total, [[x * y for y in items] for x in items]


@case("5")
def closures(n):
    total = 0
    limit = n * 2

    def add(x):
        nonlocal total
        total += x
        return total < limit

    while add(n):
        n += 1
        limit += 1
    handlers = [lambda y, x=x: x + y + n for x in range(3)]
    return total, limit, n, [h(1) for h in handlers]


@case("[], 4")
def captured_argument(log, n):
    def bump():
        nonlocal n
        n += 1
        log.append(n)
        return n

    bump()
    n *= 2
    try:
        bump()
        del n
        log.append(n)
    except NameError:
        log.append("unbound")
    n = 0
    return bump()


@case("Point(1, 2)")
def calls(point):
    a = point.sum()
    b = point.sum(2, offset=a)
    c = point.double(b)
    d = math.floor(c / 2.5)
    e = max(*[a, b], key=lambda v: -v, **{"default": 1}) if False else max(a, b, key=lambda v: -v)
    f = dict(a=a, **{"b": b}, c="x".join(["1", "2"]))
    g = print is not None and sorted([c, b, a], reverse=True)
    method = point.sum
    return a, b, c, d, e, f, g, method(scale=3), "{:>4}".format(a), f"{a!r:>5}|{b:x}|{point}"


@case("Point(1, 0)", "[1, 2, 3]", "{'kind': 'a', 'rest': 1}", "(5, 'x')", "'text'", "{}")
def matching(value):
    match value:
        case Point(x, 0):
            result = ("point", x)
        case [first, *rest] if rest:
            result = ("sequence", first, rest)
        case {"kind": kind, **others}:
            result = ("mapping", kind, others)
        case str() | None:
            result = "text"
        case _:
            result = "other"
    return result


@case("[1, [2, 3], 4, 5]")
def unpacking(items):
    a, (b, c), *rest = items
    first, *middle, last = rest
    a, b = b, a
    d = [*items, *rest]
    e = (*rest, a)
    if (n := len(d)) > 3:
        d[1:3] = [n]
    d[0] += 1
    del d[-1]
    return a, b, c, middle, first, last, d, e, n


@case("[1]")
def deleted_and_unbound(log):
    x = 1
    del x
    try:
        log.append(x)  # noqa: F821
    except UnboundLocalError as error:
        log.append(str(error))
    for y in []:
        pass
    try:
        return y
    except UnboundLocalError as error:
        log.append(str(error))
    assert log, "never empty"
    return log


COUNTER = 0


@case("3")
def imports_and_globals(n):
    global COUNTER
    import os.path as path
    from collections import OrderedDict

    COUNTER = n
    table = OrderedDict()
    table["a"] = path.join("x", "y")
    COUNTER += len(table)
    return COUNTER, list(table.items())


@case("[], 1", "[], 2", "[], 0")
def exception_groups(log, n):
    try:
        if n:
            raise ExceptionGroup("group", [ValueError(1), TypeError(2), KeyError(3)][: n + 1])
        log.append("none")
    except* ValueError as group:
        log.append([str(e) for e in group.exceptions])
    except* TypeError as group:
        log.append([str(e) for e in group.exceptions])
        log.append(repr(sys.exc_info()[1]))
    except* KeyError:
        log.append("key")
    log.append(repr(sys.exc_info()[1]))
    return n


@case("1, 2, 3, z=4")
def all_kinds_of_arguments(a, b=5, *args, c=6, **kwargs):
    c += a
    for value in args:
        c += value
    kwargs["sum"] = c
    return a, b, args, c, kwargs


class Base:
    def __init__(self, n):
        self.n = n

    def scale(self, k):
        return self.n * k


class Derived(Base):
    def scale(self, k):
        extra = [super(Derived, self).scale(i) for i in range(2)]
        return extra, k + super().scale(k), super().scale(k + 1)

    def captured(self, k):
        def own():
            return self.n

        return own() + super().scale(k)

    def handled(self, k):
        try:
            return super().missing(k)
        except AttributeError:
            return super().scale(k) + 1

    @classmethod
    def make(cls, n):
        made = super().__new__(cls)
        made.n = n
        return made.n


case("Derived(3), 4")(Derived.scale)
case("Derived(3), 4")(Derived.captured)
case("Derived(3), 4")(Derived.handled)
case("Derived, 4")(Derived.make.__func__)


@case("[], 3")
def conditional_context(log, n):
    with Manager(log, "n") if n > 2 else Manager(log, "m"):
        values = [log.append(i) or i for i in range(n) if i or log]
    return [(a if a else b, a or b, a and b) for a, b in zip(values, reversed(values))]


def _long_function():
    """Hundreds of locals and constants, jumps over 255 code units: arguments with EXTENDED_ARG everywhere."""
    lines = ["def long_function(log, n):", "    for i in range(n):", "        try:"]
    lines += [f"            v{k} = i + {1000 + k}" for k in range(300)]
    lines += [f"            log.append((v{k}, '{k}'))" for k in range(0, 300, 60)]
    lines += ["            v7 // (i - 1)", "        except ZeroDivisionError:", "            log.append(v299)"]
    lines += ["    return v0 + v299"]
    namespace = {}
    exec("\n".join(lines), namespace)
    return namespace["long_function"]


long_function = _long_function()
