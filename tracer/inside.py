"""Functions meant for the body of traced programs. Eagerly they do nothing; the tracer knows them by identity."""

from __future__ import annotations


def graph_break(msg: str = "") -> None:
    """Ends the graph here when traced, with `msg` in the log; an error under fullgraph=True. Eagerly: nothing.

    ```python
    @tracer.optimize()
    def fn(x):
        x = x + 1
        tracer.graph_break("two graphs from here")
        return x * 2

    assert torch.equal(fn(torch.ones(2)), torch.full((2,), 4.0))
    ```
    """


def is_compiling() -> bool:
    """True in code that is being traced, False when it runs eagerly.

    ```python
    def fn(x):
        return x + 1 if tracer.is_compiling() else x - 1

    assert tracer.compile(fn)(torch.zeros(1)) == 1 and fn(torch.zeros(1)) == -1
    ```
    """
    return False
