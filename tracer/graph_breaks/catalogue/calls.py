"""Graph breaks at calls."""

from __future__ import annotations

from tracer.graph_breaks.reasons import register, topic

TOPIC = topic("calls", "Calls")
register(
    "unsupported-call",
    "Call of {value} cannot be traced",
    "The callable is neither Python code that can be traced through, nor a torch operation, nor modelled.",
    "move the call out of the traced function, mark it with tracer.allow_in_graph if it only computes tensors, "
    "or with tracer.assume_constant_result if it always gives the same.",
    topic=TOPIC,
)
register(
    "makes-a-class",
    "A class is made in a way that cannot be traced: {function}",
    "A new class is made at each call. The trace follows class statements, but not one that leads through code that it does not "
    "know: some decorators and metaclasses of the library, a metaclass with its own mro(), a descriptor written in C.",
    "define the class outside of the traced function.",
    topic=TOPIC,
)
register(
    "unsupported-builtin",
    "Builtin {function} cannot be traced with these arguments",
    "The builtin is implemented in C and has no model for arguments of these kinds.",
    "write it in Python, or move it out of the traced function.",
    topic=TOPIC,
)
register(
    "unsupported-method",
    "Method {name} of {value} cannot be traced",
    "The method is implemented in C and has no model.",
    "write it with methods that are modelled, or move it out of the traced function.",
    topic=TOPIC,
)
register(
    "side-effect-call",
    "{name} has an effect outside of the program ({value})",
    "Output, input, files, time and the like have to happen at each call, which a graph cannot do.",
    "drop it, guard it with `if not tracer.is_compiling():`, or let the graph break here.",
    topic=TOPIC,
)
register(
    "clock",
    "{name} reads the clock or waits",
    "The operations of a graph run together, not between the lines of the program: the clock would be read at another moment "
    "than the program asks for.",
    "measure outside of the traced function, or guard it with `if not tracer.is_compiling():`.",
    topic=TOPIC,
)
register(
    "lock",
    "The lock {value} is taken or released",
    "What the lock protects is to be read and changed while it is held, and the operations of a graph run together, not between "
    "the lines of the program.",
    "keep what needs the lock outside of the traced function, or behind its tensor operations.",
    topic=TOPIC,
)
register(
    "call-arguments",
    "The arguments do not fit the signature ({error})",
    "The call raises TypeError; CPython runs it, so that the error is the one you know.",
    "correct the call.",
    topic=TOPIC,
)
register(
    "inline-depth",
    "Calls are nested too deeply to be inlined into one graph",
    "Each Python call is traced through; a trace of a long recursion would not come to an end.",
    "write the recursion as a loop, or decorate the inner function on its own.",
    topic=TOPIC,
)
register(
    "skipped-function",
    "{function} is not traced through",
    "The function belongs to a module that is left to CPython (a library without tensor code, or one you disallowed).",
    "call it outside the traced function, or allow it with tracer.allow_in_graph.",
    topic=TOPIC,
)
register(
    "disabled-function",
    "{function} was marked with tracer.disable",
    "A disabled function is run by CPython.",
    "remove the mark, or call it outside the traced function.",
    topic=TOPIC,
)
register(
    "disallowed-in-graph",
    "{function} was marked with tracer.disallow_in_graph",
    "The mark asks for a graph break at each call.",
    "remove the mark, or call it outside the traced function.",
    topic=TOPIC,
)
register(
    "explicit-graph-break",
    "tracer.graph_break() was called",
    "The program asks for a break here.",
    "remove the call.",
    topic=TOPIC,
)
register(
    "kernel-launch",
    "Launch of the Triton kernel {kernel} is not captured: {why}",
    "A launch is one operation of the graph, which has to say all that the launch does. CPython launches this one.",
    "see the reason; most often a plain tuple or function as the grid, and tensors, numbers and constants as arguments will do.",
    topic=TOPIC,
)
