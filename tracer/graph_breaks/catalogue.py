"""Every reason for a graph break, by topic. A new one is one `register` call under its topic.

An id is stable: users search for it and tests name it. The summary's `{fields}` are the details that the code raising
it gives.
"""

from __future__ import annotations

from tracer.graph_breaks.reasons import register, topic

# --------------------------------------------------------------------------------------------- data

_DATA = topic("data", "Values that are known only when the graph runs")

register(
    "data-dependent-branch",
    "Branch on the value of a tensor ({value})",
    "The way that the program takes depends on numbers that exist only when the graph runs.",
    "use torch.where or torch.cond, paste the assumption if one is printed and holds for all calls, move the test out of the "
    "traced function, or let the graph break here.",
    topic=_DATA,
)
register(
    "data-dependent-value",
    "A Python number is needed that depends on tensor data ({value})",
    "A size or a number taken from tensor data has no value while tracing, and something here needs one.",
    "say what is known with torch._check, keep the value in a tensor, or use torch.where.",
    topic=_DATA,
)
register(
    "data-dependent-operator",
    "{operator} gives a result whose shape or value depends on data",
    "The size or value of the result is known only when the operator runs.",
    "set config.capture_scalar_outputs (item, tolist) or config.capture_dynamic_output_shape_ops (nonzero, masks), "
    "or use an operator whose result has a fixed shape, such as torch.where.",
    topic=_DATA,
)
register(
    "tensor-item",
    "{value}.item() reads a number out of a tensor",
    "The number is known only when the graph runs.",
    "keep it in a tensor, or set config.capture_scalar_outputs to carry it as an unbacked symbol.",
    topic=_DATA,
)
register(
    "symbolic-arithmetic",
    "An operation on a symbolic number failed while tracing",
    "The operation is not defined for a number that stands for many values.",
    "mark the dim static with mark_static, or convert the number with int() to specialise on it.",
    topic=_DATA,
)

register(
    "data-dependent-method",
    "Method {name} of {value} hands tensor data to Python",
    "tolist(), numpy(), int(), float() and the like need the data itself, which exists only when the graph runs.",
    "do it outside the traced function, or stay with tensor operations.",
    topic=_DATA,
)

# --------------------------------------------------------------------------------------------- calls

_CALLS = topic("calls", "Calls")

register(
    "unsupported-call",
    "Call of {value} cannot be traced",
    "The callable is neither Python code that can be traced through, nor a torch operation, nor modelled.",
    "move the call out of the traced function, mark it with tracer.allow_in_graph if it only computes tensors, "
    "or with tracer.assume_constant_result if it always gives the same.",
    topic=_CALLS,
)
register(
    "makes-a-class",
    "{function} makes a class",
    "A new class is made at each call. The trace follows class statements, but not one that leads through code that it does not "
    "know: some decorators and metaclasses of the library, a metaclass with its own mro(), a descriptor written in C.",
    "define the class outside of the traced function.",
    topic=_CALLS,
)
register(
    "unsupported-builtin",
    "Builtin {function} cannot be traced with these arguments",
    "The builtin is implemented in C and has no model for arguments of these kinds.",
    "write it in Python, or move it out of the traced function.",
    topic=_CALLS,
)
register(
    "unsupported-method",
    "Method {name} of {value} cannot be traced",
    "The method is implemented in C and has no model.",
    "write it with methods that are modelled, or move it out of the traced function.",
    topic=_CALLS,
)
register(
    "side-effect-call",
    "{name} has an effect outside of the program ({value})",
    "Output, input, files, time and the like have to happen at each call, which a graph cannot do.",
    "drop it, guard it with `if not tracer.is_compiling():`, or let the graph break here.",
    topic=_CALLS,
)
register(
    "clock",
    "{name} reads the clock or waits",
    "A graph runs as a whole, apart from the lines around it: read before or behind it, the clock would tell another time than "
    "the one that the program asks for.",
    "measure outside of the traced function, or guard it with `if not tracer.is_compiling():`.",
    topic=_CALLS,
)
register(
    "call-arguments",
    "The arguments do not fit the signature ({error})",
    "The call raises TypeError; CPython runs it, so that the error is the one you know.",
    "correct the call.",
    topic=_CALLS,
)
register(
    "inline-depth",
    "Calls are nested too deeply to be inlined into one graph",
    "Each Python call is traced through; recursion that goes on for long would never end the trace.",
    "write the recursion as a loop, or decorate the inner function on its own.",
    topic=_CALLS,
)
register(
    "skipped-function",
    "{function} is not traced through",
    "The function belongs to a module that is left to CPython (a library without tensor code, or one you disallowed).",
    "call it outside the traced function, or allow it with tracer.allow_in_graph.",
    topic=_CALLS,
)
register(
    "disabled-function",
    "{function} was marked with tracer.disable",
    "A disabled function is run by CPython.",
    "remove the mark, or call it outside the traced function.",
    topic=_CALLS,
)
register(
    "disallowed-in-graph",
    "{function} was marked with tracer.disallow_in_graph",
    "The mark asks for a graph break at each call.",
    "remove the mark, or call it outside the traced function.",
    topic=_CALLS,
)
register(
    "explicit-graph-break",
    "tracer.graph_break() was called",
    "The program asks for a break here.",
    "remove the call.",
    topic=_CALLS,
)

# --------------------------------------------------------------------------------------------- language

_LANGUAGE = topic("language", "The Python language")

register(
    "unsupported-opcode",
    "Bytecode {opcode} cannot be traced",
    "The interpreter has no handler for this instruction, or not for operands of these kinds.",
    "write the line in another way, or let the graph break here.",
    topic=_LANGUAGE,
)
register(
    "generator",
    "A generator cannot be traced here ({value})",
    "The generator lives longer than the traced frame, or is driven from code that is not traced.",
    "collect it into a list inside the traced function.",
    topic=_LANGUAGE,
)
register(
    "abandoned-generator",
    "A generator, or an object with __del__, is given up ({value})",
    "When the last reference goes, Python runs its finally blocks or __del__: at a moment that a trace does not know.",
    "run it to its end, or call close().",
    topic=_LANGUAGE,
)
register(
    "coroutine",
    "async code cannot be traced ({function})",
    "A coroutine is resumed by an event loop that the tracer does not see.",
    "decorate the synchronous function that it calls.",
    topic=_LANGUAGE,
)
register(
    "with-block",
    "The context manager {value} cannot be traced",
    "Entering and leaving it has effects that a graph cannot hold.",
    "enter it outside the traced function.",
    topic=_LANGUAGE,
)
register(
    "exception-in-trace",
    "An exception was raised that tracing cannot carry on ({error})",
    "The handler of the exception, or its traceback, is not known to the tracer; CPython raises it again.",
    "if the exception is expected, test for its cause instead.",
    topic=_LANGUAGE,
)
register(
    "import-effect",
    "Importing {module} runs code for the first time",
    "The body of a module may do anything; it is run by CPython.",
    "import the module at the top of the file.",
    topic=_LANGUAGE,
)
register(
    "unbound-name",
    "{name} is not bound here",
    "Reading it raises NameError or UnboundLocalError; CPython raises it, so that the error is the one you know.",
    "bind the name before this line.",
    topic=_LANGUAGE,
)
register(
    "frame-introspection",
    "{function} looks at frames",
    "Frames of traced code do not exist; locals(), sys._getframe and inspect need real ones.",
    "move it out of the traced function.",
    topic=_LANGUAGE,
)

register(
    "break-in-except",
    "The graph would break while {function} handles an exception",
    "The code after the break would not see the exception that is being handled.",
    "move the line out of the except block.",
    topic=_LANGUAGE,
)

# --------------------------------------------------------------------------------------------- values

_VALUES = topic("values", "Values and their operations")

register(
    "unknown-type",
    "{value} is of a type that the tracer does not know",
    "Nothing is known about what its operations do.",
    "take it apart outside the traced function and pass its parts.",
    topic=_VALUES,
)
register(
    "unsupported-operator",
    "Operator is not traced: {left} {op} {right}",
    "The operator is implemented in C for these operands and has no model.",
    "write it in another way, or move it out of the traced function.",
    topic=_VALUES,
)
register(
    "unsupported-attribute",
    "Attribute {name} of {value} cannot be traced",
    "Reading it may run code that the tracer cannot follow, or gives a value that it does not know.",
    "read it outside the traced function and pass the value.",
    topic=_VALUES,
)
register(
    "unsupported-attribute-store",
    "Attribute {name} of {value} cannot be set in a trace",
    "The store has effects that cannot be put off until the graph has run.",
    "set it outside the traced function.",
    topic=_VALUES,
)
register(
    "unsupported-subscript",
    "{value} cannot be subscripted in a trace with {key}",
    "The subscript is implemented in C and has no model for this key.",
    "use an index or key of a plain type.",
    topic=_VALUES,
)
register(
    "unsupported-truth",
    "The truth of {value} is not known while tracing",
    "bool() of it would run code that cannot be followed, or needs data.",
    "compare explicitly, such as `x is not None` or `len(x) > 0`.",
    topic=_VALUES,
)
register(
    "unsupported-iteration",
    "{value} cannot be iterated in a trace",
    "Its iterator is implemented in C and has no model, or its length depends on data.",
    "iterate over a list, a tuple or a range.",
    topic=_VALUES,
)
register(
    "unsupported-descriptor",
    "Attribute {name} is a {kind}, whose reading cannot be traced",
    "The attribute is answered by a descriptor implemented in C, or by one that has no value now.",
    "read it outside the traced function and pass the value.",
    topic=_VALUES,
)
register(
    "identity-of-a-value",
    "Whether {left} `is` {right} depends on how CPython shares equal values",
    "Equal numbers, strings and tuples may or may not be one object.",
    "compare with ==.",
    topic=_VALUES,
)
register(
    "identity-of-a-cached-result",
    "Whether {left}, which a cache keeps, is {right} shows only when the program runs",
    "functools.lru_cache gives the same object each time, and the trace makes it anew. CPython makes the call now; the next "
    "trace takes the object from the cache.",
    "compare, or return, what the object holds.",
    topic=_VALUES,
)
register(
    "change-of-a-cached-result",
    "{value}, which a cache keeps, is changed",
    "Every later call of the cached function gets the changed object.",
    "copy what functools.lru_cache gives before changing it.",
    topic=_VALUES,
)
register(
    "not-a-constant",
    "{value} is not a constant",
    "Something here needs a plain Python value that is known while tracing.",
    "pass a number, a string or another plain value.",
    topic=_VALUES,
)
register(
    "not-a-graph-argument",
    "{value} cannot be an argument of an operation in the graph",
    "A graph holds tensors, numbers, strings, and lists, tuples, dicts and slices of those.",
    "take the tensor or number out of it first.",
    topic=_VALUES,
)
register(
    "constant-too-large",
    "A constant grew too large while tracing ({value})",
    "Folding it into the program would take too much time or memory.",
    "compute it outside the traced function.",
    topic=_VALUES,
)
register(
    "format-of-runtime-value",
    "{value} would be turned into text",
    "The text of a tensor or of a symbolic number is known only when the graph runs.",
    "format it outside the traced function, or drop the message.",
    topic=_VALUES,
)
register(
    "unhashable-in-trace",
    "{value} cannot be a key of a dict or member of a set in a trace",
    "Its hash is not known while tracing.",
    "use a key of a plain type.",
    topic=_VALUES,
)
register(
    "set-order",
    "The order of {value} is not defined",
    "The order of a set may differ from run to run, so a graph must not depend on it.",
    "use sorted(...), or a dict or list.",
    topic=_VALUES,
)
register(
    "mutation-of-input",
    "{value} cannot be changed in a trace",
    "The change cannot be put off until the graph has run without somebody seeing the difference.",
    "change it outside the traced function.",
    topic=_VALUES,
)
register(
    "change-before-failure",
    "An operation may fail, and {value} has been changed",
    "A graph that fails is run again by CPython, which stops at the very line. What it has changed is put back before, but the "
    "history of a tensor in autograd's graph cannot be.",
    "use an operation that makes a new tensor, in place of one that writes.",
    topic=_VALUES,
)
register(
    "cannot-reconstruct",
    "{value} cannot be rebuilt after the graph",
    "The value is alive where the graph ends, and there is no bytecode that would make it again.",
    "keep it inside the traced function, or make it outside.",
    topic=_VALUES,
)

# --------------------------------------------------------------------------------------------- torch

_TORCH = topic("torch", "torch and backends")

register(
    "operator-failed-in-trace",
    "{operator} failed while its result was worked out",
    "The operation was tried on fake tensors and raised; with real ones it most likely raises the same.",
    "look at the error below; run eagerly to see it with real tensors.",
    topic=_TORCH,
)
register(
    "offset-in-storage",
    "{operator} counts from the beginning of a storage that its input does not begin with",
    "Inductor counts a storage offset from where the input begins, and so finds other elements; `eager` runs the graph as it is.",
    "clone the input first, or leave storage_offset out to begin where the input does.",
    topic=_TORCH,
)
register(
    "operator-not-compliant",
    "Operator {operator} is not PT2 compliant",
    "config.only_allow_pt2_compliant_ops is set, and the operator's author did not tag it `torch.Tag.pt2_compliant_tag`.",
    "test the operator with torch.library.opcheck and tag it, or leave that setting off.",
    topic=_TORCH,
)
register(
    "operator-result",
    "{operator} gave a {cls}, which a graph cannot hold",
    "Only tensors, numbers and containers of those can come out of an operation of the graph.",
    "call it outside the traced function.",
    topic=_TORCH,
)
register(
    "layout-of-out",
    "{operator} gives the tensor in `out` other sizes, and a layout that is not known",
    "A tensor that is resized lies as a new result would: in the order of the operands, where these are not contiguous.",
    "use the result of the call without `out`, or pass an `out` that has the sizes of the result.",
    topic=_TORCH,
)
register(
    "unsupported-tensor",
    "{value} is a tensor of a kind that cannot be traced",
    "Sparse, quantised, nested and some wrapper tensors have no faithful fake.",
    "convert it to a plain tensor, or keep it out of the traced function.",
    topic=_TORCH,
)
register(
    "tensor-subclass",
    "The tensor subclass {cls} cannot be traced ({source})",
    "A __torch_function__ that is a class method is traced through, and so is the __torch_dispatch__ of a wrapper (made by "
    "_make_wrapper_subclass) where the backend runs graphs as they are written. Tensors that are not strided, data of their own "
    "beside a __torch_dispatch__, torch's operators overridden there, __getattr__ and the like on a subclass are not.",
    "pass a plain tensor, or override __torch_function__ alone.",
    topic=_TORCH,
)
register(
    "effect-in-subgraph",
    "{name} cannot be a part of the graph: {value}",
    "The function becomes a graph of its own inside the graph, which may run later, or not at all.",
    "return what it computes instead of storing it.",
    topic=_TORCH,
)
register(
    "autograd-in-trace",
    "{name} drives autograd inside the traced function",
    "Backward passes are operations of the graph where all that they do is known: gradients of leaves, without hooks.",
    "call it outside the traced function, or make what it leads to leaves without hooks.",
    topic=_TORCH,
)
register(
    "unsupported-module",
    "The module {value} cannot be traced through",
    "Its call runs hooks or wrappers implemented in a way that cannot be followed.",
    "decorate the modules inside it instead.",
    topic=_TORCH,
)
register(
    "random-state",
    "{name} reads or sets the state of a random number generator",
    "Random state is kept as in an eager run; a graph cannot save or restore it.",
    "seed outside the traced function.",
    topic=_TORCH,
)
register(
    "distributed",
    "{name} communicates between processes",
    "Only the functional collectives can be part of a graph.",
    "use torch.distributed._functional_collectives, or let the graph break here.",
    topic=_TORCH,
)
register(
    "backend-failed",
    "The backend {name} could not compile the graph",
    "The error of the backend is given below; the frame runs in CPython.",
    "try backend='eager' to see whether the graph itself runs.",
    topic=_TORCH,
)

# --------------------------------------------------------------------------------------------- guards

_GUARDS = topic("guards", "Guards and frames")

register(
    "unguardable",
    "{value} cannot be guarded",
    "An entry for it could not tell, without running user code, whether it is still valid.",
    "pass a value of a plain type, or make it a global that does not change.",
    topic=_GUARDS,
)
register(
    "trace-too-long",
    "The trace grew past {value} instructions",
    "A Python loop is unrolled; this one seems not to end.",
    "write the loop with tensor operations, or decorate its body.",
    topic=_GUARDS,
)
register(
    "internal-error",
    "A bug of the tracer: {error}",
    "The frame runs in CPython, as if it had not been decorated.",
    "please report it with the program that shows it.",
    topic=_GUARDS,
)
