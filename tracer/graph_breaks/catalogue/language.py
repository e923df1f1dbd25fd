"""Graph breaks at parts of the Python language."""

from __future__ import annotations

from tracer.graph_breaks.reasons import register, topic

TOPIC = topic("language", "The Python language")
register(
    "unsupported-opcode",
    "Bytecode {opcode} cannot be traced",
    "The interpreter has no handler for this instruction, or not for operands of these kinds.",
    "write the line in another way, or let the graph break here.",
    topic=TOPIC,
)
register(
    "generator",
    "A generator cannot be traced here ({value})",
    "The generator lives longer than the traced frame, or is driven from code that is not traced.",
    "collect it into a list inside the traced function.",
    topic=TOPIC,
)
register(
    "abandoned-generator",
    "A generator that has not ended, or an object with __del__, is dropped ({value})",
    "When the last reference goes, Python runs the generator's finally blocks or the object's __del__. The trace does not know "
    "when that is.",
    "run the generator to its end, or call its close().",
    topic=TOPIC,
)
register(
    "coroutine",
    "async code cannot be traced ({function})",
    "A coroutine is resumed by an event loop that the tracer does not see.",
    "decorate the synchronous function that it calls.",
    topic=TOPIC,
)
register(
    "with-block",
    "The context manager {value} cannot be traced",
    "Entering and leaving it has effects that a graph cannot hold.",
    "enter it outside the traced function.",
    topic=TOPIC,
)
register(
    "exception-in-trace",
    "An exception was raised that cannot be traced further ({error})",
    "The handler of the exception, or its traceback, is not known to the tracer; CPython raises it again.",
    "if the exception is expected, test for its cause instead.",
    topic=TOPIC,
)
register(
    "import-effect",
    "Importing {module} runs code for the first time",
    "The body of a module may do anything; it is run by CPython.",
    "import the module at the top of the file.",
    topic=TOPIC,
)
register(
    "unbound-name",
    "{name} is not bound here",
    "Reading it raises NameError or UnboundLocalError; CPython raises it, so that the error is the one you know.",
    "bind the name before this line.",
    topic=TOPIC,
)
register(
    "frame-introspection",
    "{function} looks at frames",
    "Frames of traced code do not exist; locals(), sys._getframe and inspect need real ones.",
    "move it out of the traced function.",
    topic=TOPIC,
)
register(
    "break-in-except",
    "The graph would break while {function} handles an exception",
    "The code after the break would not see the exception that is being handled.",
    "move the line out of the except block.",
    topic=TOPIC,
)
