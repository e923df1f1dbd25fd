"""Stops a running CPython frame before every instruction, and carries on in a resume function.

A trace function sees each opcode; the frame's value stack, which Python hides, is read with ctypes.
"""

import ctypes
import re
import sys
import threading
import types
from dataclasses import dataclass

from tracer.bytecode import live_names, program, resume_code, stack_shape

POINTER = ctypes.sizeof(ctypes.c_void_p)


class _FrameObject(ctypes.Structure):
    """Head of PyFrameObject (Include/internal/pycore_frame.h)."""

    _fields_ = [
        ("refcount", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("f_back", ctypes.c_void_p),
        ("f_frame", ctypes.c_void_p),
    ]


_NEWER_FIELDS = [
    *(
        (name, ctypes.c_void_p)
        for name in ("f_code", "previous", "f_funcobj", "f_globals", "f_builtins", "f_locals", "frame_obj", "prev_instr")
    ),
    ("stacktop", ctypes.c_int),
    ("return_offset", ctypes.c_uint16),
    ("owner", ctypes.c_char),
]


if sys.version_info >= (3, 14):
    _NEWER_FIELDS[8] = ("stackpointer", ctypes.c_void_p)
    _NEWER_FIELDS.append(("visited", ctypes.c_uint8))


class _InterpreterFrame(ctypes.Structure):
    """_PyInterpreterFrame; `localsplus` follows."""

    _fields_ = (
        _NEWER_FIELDS
        if sys.version_info >= (3, 12)
        else [
            ("f_func", ctypes.c_void_p),
            ("f_globals", ctypes.c_void_p),
            ("f_builtins", ctypes.c_void_p),
            ("f_locals", ctypes.c_void_p),
            ("f_code", ctypes.c_void_p),
            ("frame_obj", ctypes.c_void_p),
            ("previous", ctypes.c_void_p),
            ("prev_instr", ctypes.c_void_p),
            ("stacktop", ctypes.c_int),
            ("is_entry", ctypes.c_bool),
            ("owner", ctypes.c_char),
        ]
    )


NULL = type("NULL", (), {"__repr__": lambda self: "NULL"})()


def _value(slot):
    """What a slot holds. From Python 3.14 on its low bits tell a reference that is not counted, and a number."""
    if slot & 3 == 3:
        return slot >> 2
    return ctypes.cast(slot & ~1, ctypes.py_object).value if slot & ~1 else NULL


def frame_values(frame):
    """(locals, cells and free variables by name, stack) of a frame that a trace function looks at."""
    address = _FrameObject.from_address(id(frame)).f_frame
    inner = _InterpreterFrame.from_address(address)
    decoded = program(frame.f_code)
    names = decoded.localsplus
    used = getattr(inner, "stacktop", -1)
    if used < 0:  # Python 3.12 does not write it down before it calls a trace function
        used = len(names) + stack_shape(decoded, decoded.index_at(frame.f_lasti)).depth
    slots = (ctypes.c_void_p * used).from_address(address + ctypes.sizeof(_InterpreterFrame))
    values = [_value(slot or 0) for slot in slots]
    return dict(zip(names, values)), values[len(names) :]


@dataclass
class Stop:
    """A frame before instruction `index`: `activation` counts the frames of traced code objects."""

    code: types.CodeType
    activation: int
    index: int
    globals: dict
    localsplus: dict
    stack: list
    exception: BaseException | None
    #: The arguments of the outermost call, and what the resumed run made of them.
    roots: tuple
    final_arguments: str = ""

    def arguments(self, only_live):
        """What the resume function takes: its stack pattern, names of locals, handled slots, values, closure."""
        decoded = program(self.code)
        shape = stack_shape(decoded, self.index)
        assert shape is not None and shape.depth == len(self.stack), (decoded[self.index], shape, self.stack)
        values = list(self.stack)
        # Each saved slot holds the exception handled further out; its argument is the one handled there.
        for slot, inner in zip(shape.saved, (*(self.stack[i] for i in shape.saved[1:]), self.exception)):
            values[slot] = inner
        pattern = tuple("null" if value is NULL else "value" for value in values)
        cells = (*self.code.co_cellvars, *self.code.co_freevars)
        wanted = live_names(decoded, self.index) if only_live else self.localsplus
        names = tuple(n for n, v in self.localsplus.items() if n in wanted and n not in cells and v is not NULL)
        arguments = [value for value in values if value is not NULL] + [self.localsplus[name] for name in names]
        # Before MAKE_CELL has run, a cell's slot is empty or holds the argument.
        closure = tuple(
            value if isinstance(value := self.localsplus[name], types.CellType) else new_cell(value) for name in cells
        )
        return pattern, names, shape.saved, arguments, closure

    def resume(self, only_live=True, cache=None):
        """Outcome of the rest of the frame, run in a thread of its own (whose exception state is empty)."""
        pattern, names, handled, arguments, closure = self.arguments(only_live)
        key = (id(self.code), self.index, pattern, names)
        code = None if cache is None else cache.get(key)
        if code is None:
            code = resume_code(self.code, self.index, pattern, names, exc_handled=handled)
            if cache is not None:
                cache[key] = code
        function = types.FunctionType(code, self.globals, code.co_name, None, closure)
        result = []
        thread = threading.Thread(target=lambda: result.append(outcome(function, arguments)))
        thread.start()
        thread.join()
        self.final_arguments = shown(self.roots)
        return result[0]


def shown(value):
    """Text of a value as it is now, addresses of objects left out."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def new_cell(value):
    return types.CellType() if value is NULL else types.CellType(value)


def outcome(function, arguments):
    """("returned", its text) or ("raised", type, text, line it was raised on)."""
    try:
        return ("returned", shown(function(*arguments)))
    except BaseException as error:
        tb = error.__traceback__
        while tb.tb_next is not None:
            tb = tb.tb_next
        context = type(error.__context__).__name__, type(error.__cause__).__name__
        return ("raised", type(error).__name__, str(error), tb.tb_lineno, context)


class Stepper:
    """Traces the opcodes of a function and of the functions nested in it (those that are no generators)."""

    def __init__(self, function):
        self.codes = set()
        pending = [function.__code__]
        while pending:
            code = pending.pop()
            if not program(code).is_generator and code.co_flags & 1:
                self.codes.add(code)
            pending.extend(c for c in code.co_consts if isinstance(c, types.CodeType))

    def run(self, function, arguments, at=None, on_stop=None):
        """Run, calling `on_stop(Stop)` at the `at`-th opcode.

        Returns (outcome, for each opcode that ran its activation, code and offset, result of each activation).
        """
        activations, results, seen = {}, {}, []

        def stop_here(frame, number):
            localsplus, stack = frame_values(frame)
            index = program(frame.f_code).index_at(frame.f_lasti)
            handled = sys.exc_info()[1]
            on_stop(Stop(frame.f_code, number, index, frame.f_globals, localsplus, stack, handled, arguments))

        if sys.version_info >= (3, 13):  # whose trace functions miss opcodes of code that is not told of yet
            return self._monitor(function, arguments, at, stop_here, activations, results, seen), seen, results

        def trace(frame, event, argument):
            if frame.f_code not in self.codes:
                return None
            number = activations.setdefault(frame, len(activations))
            if event == "call":
                frame.f_trace_opcodes = True
                frame.f_trace_lines = False
            elif event == "return":
                results[number] = shown(argument)
            elif event == "opcode":
                seen.append((number, frame.f_code, frame.f_lasti))
                if at == len(seen) - 1:
                    sys.settrace(None)
                    frame.f_trace = None
                    stop_here(frame, number)
                    return None
            return trace

        previous = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 looks whether any frame asks for them when tracing begins
        sys.settrace(trace)
        try:
            final = outcome(function, arguments)
        finally:
            sys.settrace(previous)
        return final, seen, results

    def _monitor(self, function, arguments, at, stop_here, activations, results, seen):
        """`run` by sys.monitoring: the outcome."""
        monitoring, tool = sys.monitoring, 4
        events = monitoring.events

        def watch(wanted):
            for code in self.codes:
                monitoring.set_local_events(tool, code, wanted)

        def instruction(code, offset):
            frame = sys._getframe(1)
            number = activations.setdefault(frame, len(activations))
            seen.append((number, code, offset))
            if at == len(seen) - 1:
                watch(events.NO_EVENTS)
                stop_here(frame, number)

        def returned(code, offset, value):
            results[activations[sys._getframe(1)]] = shown(value)

        monitoring.use_tool_id(tool, "stepping")
        try:
            monitoring.register_callback(tool, events.INSTRUCTION, instruction)
            monitoring.register_callback(tool, events.PY_RETURN, returned)
            watch(events.INSTRUCTION | events.PY_RETURN)
            return outcome(function, arguments)
        finally:
            watch(events.NO_EVENTS)
            monitoring.free_tool_id(tool)


def choose_stops(seen, at_most):
    """Indices into `seen`: all, or few of them, first those that stand at different instructions."""
    if at_most is None or len(seen) <= at_most:
        return range(len(seen))
    visits = {}
    for at, (_, code, offset) in enumerate(seen):
        visits.setdefault((code, offset), []).append(at)
    ranked = []
    for turn, places in enumerate(visits.values()):
        # The middle visit of one instruction, the last of the next: states differ between rounds of a loop.
        ranked.append((places[(len(places) - 1) * (turn % 3) // 2], turn))
    step = max(1, len(ranked) // at_most)
    return sorted(at for at, _ in ranked)[::step]


def check_every_stop(function, make_arguments, *, only_live=True, at_most=None):
    """Resuming before each opcode that runs gives the result, and the arguments, that the whole function gives.

    `at_most` limits the stops to so many, spread over the instructions that run and over their repetitions.
    Returns the opcode names stopped at.
    """
    stepper = Stepper(function)
    arguments = make_arguments()
    expected, seen, results = stepper.run(function, arguments)
    final_arguments = shown(arguments)
    assert expected == outcome(function, make_arguments()), "tracing changed the outcome"
    cache, names = {}, set()

    for at in choose_stops(seen, at_most):
        activation, *_ = seen[at]
        arguments = make_arguments()
        stops = []

        def resume(stop):
            try:
                stops.append((stop, stop.resume(only_live, cache)))
            except Exception as error:  # would be lost in the frame that is traced
                stops.append((stop, error))

        stepper.run(function, arguments, at, resume)
        assert stops, f"stop {at} was not reached again"
        ((stop, got),) = stops
        instruction = program(stop.code)[stop.index]
        where = f"stop {at} in {stop.code.co_qualname} at {instruction}, line {instruction.line}"
        names.add(instruction.opname)
        if isinstance(got, Exception):
            raise AssertionError(f"{where}: {got!r}") from got
        if activation == 0:
            assert got == expected, f"{where}: {got} is not {expected}"
            assert stop.final_arguments == final_arguments, f"{where}: {stop.final_arguments} is not {final_arguments}"
        elif got[0] == "returned":
            assert got[1] == results[activation], f"{where}: {got[1]} is not {results[activation]}"
    return names
