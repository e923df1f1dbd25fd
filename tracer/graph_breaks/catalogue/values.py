"""Graph breaks at operations on values."""

from __future__ import annotations

from tracer.graph_breaks.reasons import register, topic

TOPIC = topic("values", "Values and their operations")
register(
    "unknown-type",
    "{value} is of a type that the tracer does not know",
    "Nothing is known about what its operations do.",
    "take it apart outside the traced function and pass its parts.",
    topic=TOPIC,
)
register(
    "unsupported-operator",
    "The operator cannot be traced: {left} {op} {right}",
    "The operator is implemented in C for these operands and has no model.",
    "write it in another way, or move it out of the traced function.",
    topic=TOPIC,
)
register(
    "unsupported-attribute",
    "Attribute {name} of {value} cannot be traced",
    "Reading it may run code that the tracer cannot follow, or gives a value that it does not know.",
    "read it outside the traced function and pass the value.",
    topic=TOPIC,
)
register(
    "unsupported-attribute-store",
    "Attribute {name} of {value} cannot be set in a trace",
    "Stores are made after the graph has run, and this one has effects that cannot wait until then.",
    "set it outside the traced function.",
    topic=TOPIC,
)
register(
    "unsupported-subscript",
    "{value} cannot be subscripted in a trace with {key}",
    "The subscript is implemented in C and has no model for this key.",
    "use an index or key of a plain type.",
    topic=TOPIC,
)
register(
    "unsupported-truth",
    "Whether {value} is true or false is not known while tracing",
    "bool() of it would run code that cannot be traced, or depends on tensor data.",
    "compare explicitly, such as `x is not None` or `len(x) > 0`.",
    topic=TOPIC,
)
register(
    "unsupported-iteration",
    "{value} cannot be iterated in a trace",
    "Its iterator is implemented in C and has no model, or its length depends on data.",
    "iterate over a list, a tuple or a range.",
    topic=TOPIC,
)
register(
    "unsupported-descriptor",
    "Attribute {name} is a {kind}, whose reading cannot be traced",
    "The attribute is answered by a descriptor implemented in C, or by one that has no value now.",
    "read it outside the traced function and pass the value.",
    topic=TOPIC,
)
register(
    "identity-of-a-value",
    "Whether {left} `is` {right} depends on how CPython shares equal values",
    "Equal numbers, strings and tuples may or may not be one object.",
    "compare with ==.",
    topic=TOPIC,
)
register(
    "identity-of-a-cached-result",
    "Whether {left}, which a cache keeps, is {right} is known only when the program runs",
    "functools.lru_cache gives the same object each time, and the trace makes a new one. CPython makes the call now, and the "
    "next trace takes the object from the cache.",
    "compare or return what is in the object, not the object itself.",
    topic=TOPIC,
)
register(
    "change-of-a-cached-result",
    "{value} is changed, and a cache keeps it",
    "Every later call of the cached function returns the changed object.",
    "copy what the cached function returns before you change it.",
    topic=TOPIC,
)
register(
    "not-a-constant",
    "{value} is not a constant",
    "Something here needs a plain Python value that is known while tracing.",
    "pass a number, a string or another plain value.",
    topic=TOPIC,
)
register(
    "not-a-graph-argument",
    "{value} cannot be an argument of an operation in the graph",
    "A graph holds tensors, numbers, strings, and lists, tuples, dicts and slices of those.",
    "take the tensor or number out of it first.",
    topic=TOPIC,
)
register(
    "constant-too-large",
    "A constant grew too large while tracing ({value})",
    "Computing it while tracing would take too much time or memory.",
    "compute it outside the traced function.",
    topic=TOPIC,
)
register(
    "format-of-runtime-value",
    "{value} would be turned into text",
    "The text of a tensor or of a symbolic number is known only when the graph runs.",
    "format it outside the traced function, or drop the message.",
    topic=TOPIC,
)
register(
    "unhashable-in-trace",
    "{value} cannot be a key of a dict or member of a set in a trace",
    "Its hash is not known while tracing.",
    "use a key of a plain type.",
    topic=TOPIC,
)
register(
    "set-order",
    "The order of {value} is not defined",
    "The order of a set may differ from run to run, so a graph must not depend on it.",
    "use sorted(...), or a dict or list.",
    topic=TOPIC,
)
register(
    "mutation-of-input",
    "{value} cannot be changed in a trace",
    "Changes are made after the graph has run. The program would see that this one comes later than it should.",
    "change it outside the traced function.",
    topic=TOPIC,
)
register(
    "change-before-failure",
    "An operation that may fail would leave {value} changed",
    "If a graph fails, its changes of inputs are undone and CPython runs the program again, so that the error comes from the "
    "line that causes it. A change that autograd has recorded cannot be undone.",
    "use an operation that makes a new tensor, not one that writes into its argument.",
    topic=TOPIC,
)
register(
    "raise-after-change",
    "Data decide whether the program raises, and the compiled graph may by then have changed what cannot be undone",
    "Where the program raises, CPython runs it again, so that the exception is its own. By then the graph must have changed "
    "nothing but small inputs, of which it has copies. A compiled graph does not keep the order of changes and tests.",
    "test the data outside of the function, or let the graph break here.",
    topic=TOPIC,
)
register(
    "cannot-reconstruct",
    "{value} cannot be rebuilt after the graph",
    "The program still needs the value where the graph ends, and the tracer has no way to make it again from what is there.",
    "keep it inside the traced function, or make it outside.",
    topic=TOPIC,
)
