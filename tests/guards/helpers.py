"""A frame of one local `x`, and the check of guards on it."""

from tracer.guards.manager import CheckFunctionManager
from tracer.sources.roots import LocalSource

X = LocalSource("x")


def frame(x):
    pass


def manager_of(*guards, code=frame.__code__, globals=globals()):
    return CheckFunctionManager(guards, code, globals)


def holds(guard, value, *more):
    """Whether the guards hold for this value; the explanation must agree with check_fn."""
    manager = manager_of(guard, *more)
    return agreed(manager, value)


def agreed(manager, *args, closure=None):
    result = run(manager, *args, closure=closure)
    failure = manager.explain(args, closure)
    assert (failure is None) is result, f"check_fn says {result}, the explanation says {failure}"
    return result


def run(manager, *args, closure=None):
    """What the cache does: anything but True is a miss, an exception too."""
    try:
        return manager.check_fn(*args, *([closure] if manager.code.co_freevars else [])) is True
    except Exception:
        return False
