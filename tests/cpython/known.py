"""Tests of CPython's that are left out under the tracer, each with the reason. Names are parts of test ids."""

_TRACED = "the program switches on a trace function, which sees no line of generated code"
_CELL = "a local that a closure shares is a free variable of the resume function: another name in the same NameError"
_BUILTIN = "it replaces a function of `builtins` for everybody, the tracer among them"
_STACK = "it walks the stack at every allocation, those of the tracer too"

#: What cannot pass where frames are replaced.
KNOWN = {
    "test_funcattrs.FunctionPropertiesTest.test_set_cell": _CELL,
    "test_functools.TestLRUC.test_lru_reentrancy_with_len": _BUILTIN,
    "test_functools.TestLRUPy.test_lru_reentrancy_with_len": _BUILTIN,
    "test_generators.GeneratorTest.test_handle_frame_object_in_creation": _STACK,
    "test_patma.TestTracing": _TRACED,
}

#: Differences that are bugs of the tracer, not yet mended.
OPEN = {
    "test_exceptions.AttributeErrorTests.test_getattr_has_name_and_obj": "AttributeError of a traced read has no name and obj",
    "test_exceptions.ExceptionTests.testExceptionCleanupState": "an object is alive one step longer than in CPython",
    "test_exceptions.ExceptionTests.testSettingException": "frames of C API calls are named after the resume function",
}
