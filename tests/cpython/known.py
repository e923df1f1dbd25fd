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
    "test_collections.TestCounter.test_basics": "equality of a Counter and a dict",
    "test_collections.TestNamedTuple.test_non_generic_subscript": "a named tuple's class that was made twice",
    "test_descr.ClassPropertiesAndMethods.test_altmro": "an mro() of the program's, traced",
    "test_descr.ClassPropertiesAndMethods.test_basic_inheritance": "equality of an int of a subclass",
    "test_descr.ClassPropertiesAndMethods.test_mutable_bases_with_failing_mro": "an mro() of the program's, traced",
    "test_descr.ClassPropertiesAndMethods.test_slots": "an object is alive one step longer than in CPython",
    "test_descr.ClassPropertiesAndMethods.test_special_method_lookup": "__getattr__ and descriptors of special methods",
    "test_descr.ClassPropertiesAndMethods.test_supers": "super() of a class reads a property",
    "test_descr.ClassPropertiesAndMethods.test_vicious_descriptor_nonsense": "keys of a class's dict that are no text",
    "test_descr.ClassPropertiesAndMethods.test_wrong_class_slot_wrapper": "a slot wrapper on an object of another class",
    "test_descr.DictProxyTests": "views of a mappingproxy that are built anew",
    "test_descr.MiscTests.test_type_lookup_mro_reference": "keys of a class's dict that are no text",
    "test_descr.MroTest": "an mro() of the program's, traced",
    "test_descr.PicklingTests.test_issue24097": "__reduce_ex__ of an object with slots",
    "test_generators.GeneratorStackTraceTest": "frames of a generator that another draws from",
    "test_re.DebugTests": "what re prints while it compiles",
    "test_re.ImplementationTest": "classes that cannot be made or changed",
    "test_weakref.FinalizeTestCase": "an object is alive one step longer than in CPython",
    "test_weakref.MappingTestCase.test_remove_closure": "a closure that a class keeps",
    "test_exceptions.AttributeErrorTests.test_getattr_has_name_and_obj": "AttributeError of a traced read has no name and obj",
    "test_exceptions.ExceptionTests.testExceptionCleanupState": "an object is alive one step longer than in CPython",
    "test_exceptions.ExceptionTests.testSettingException": "frames of C API calls are named after the resume function",
}
