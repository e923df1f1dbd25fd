"""Small programs that tests share."""


def double(x):
    return x * 2 + 1


def with_a_pointless_branch(x, n):
    """Two branches, of which the graphs show the second alone."""
    if x.shape[0] <= 8 and x.shape[1] <= 7:
        pass
    return (x * 2 if x.shape[0] < 30 else x + 1) * n
