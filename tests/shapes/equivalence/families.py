"""The registry of shape programs, by topic, each with the sizes of some traced calls; a pair of calls is one set of guards."""

FAMILIES: dict[str, list] = {}


def program(family, *calls):
    """Adds a program; each call is the tuple of its sizes."""

    def register(function):
        FAMILIES.setdefault(family, []).append((function, calls))
        return function

    return register
