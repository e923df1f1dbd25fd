"""Bytecode as data: decoding code objects, flow facts about them, assembling new ones, resume functions.

Knows nothing of tracing. Everything that depends on the Python version asks `dialect.DIALECT`.
"""

from tracer.bytecode.assembler import Assembler, AssemblyError, Label
from tracer.bytecode.dialect import DIALECT, Dialect, OpcodeReport, dialect_of, opcode_report
from tracer.bytecode.instructions import ExceptionEntry, Instruction, Program, docstring_of, program
from tracer.bytecode.liveness import live_names, overwritten_names
from tracer.bytecode.loops import loop_resumed_in, outermost_loops
from tracer.bytecode.raising import raising_code
from tracer.bytecode.resume import (
    ResumeError,
    StackEntry,
    callee_kinds,
    function_name,
    is_resume_code,
    is_resume_name,
    is_stack_argument,
    original_position,
    resume_code,
    resumes_at,
    suspended_generator,
)
from tracer.bytecode.stack_shape import StackShape, stack_shape

__all__ = [
    "DIALECT",
    "Assembler",
    "AssemblyError",
    "Dialect",
    "ExceptionEntry",
    "Instruction",
    "Label",
    "OpcodeReport",
    "Program",
    "ResumeError",
    "StackEntry",
    "StackShape",
    "callee_kinds",
    "dialect_of",
    "docstring_of",
    "live_names",
    "loop_resumed_in",
    "outermost_loops",
    "overwritten_names",
    "opcode_report",
    "original_position",
    "program",
    "raising_code",
    "is_resume_code",
    "function_name",
    "is_resume_name",
    "is_stack_argument",
    "resume_code",
    "resumes_at",
    "stack_shape",
    "suspended_generator",
]
