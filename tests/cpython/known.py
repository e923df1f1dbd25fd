"""Tests of CPython's that are left out under the tracer, each with the reason. Names are parts of test ids."""

_TRACED = "the program switches on a trace function, which sees no line of generated code"
_CELL = "a local that a closure shares is a free variable of the resume function: another name in the same NameError"
_BUILTIN = "it replaces a function of `builtins` for everybody, the tracer among them"
_STACK = "it walks the stack at every allocation, those of the tracer too"
_REUSED = "it counts on CPython using a tuple again that nobody else holds, which a break keeps alive"
_SIZE = "it asks for the size of a dict in memory: one that generated code fills shares no keys"
_DEPTH = "it measures how deep the stack is in a loop, where each break puts a resume function on it"
_LEVELS = "a warning counts frames to its caller (stacklevel), and a resume function is a frame more"
_LONGER = "an object is alive one step longer than in CPython"
_WITH_A_DICT = "reading a partial gives it a dict: one of it is not flattened"

#: What cannot pass where frames are replaced.
KNOWN = {
    "test_descr.ClassPropertiesAndMethods.test_slots": "it counts the objects of the process, those of the tracer too",
    "test_descr.MiscTests.test_type_lookup_mro_reference": "a key that is no text changes the class it stands in",
    "test_descr.SharedKeyTests.test_subclasses": _SIZE,
    "test_dict.DictTest.test_splittable_popitem": _SIZE,
    "test_dict.DictTest.test_str_nonstr": "it tells equal texts apart by their identity",
    "test_exceptions.ExceptionTests.test_recursion_in_except_handler": _DEPTH,
    "test_exceptions.ExceptionTests.testSettingException": "it asks a frame for its caller, which was inlined",
    "test_funcattrs.FunctionPropertiesTest.test_set_cell": _CELL,
    "test_functools.TestLRUC.test_lru_reentrancy_with_len": _BUILTIN,
    "test_functools.TestLRUPy.test_lru_reentrancy_with_len": _BUILTIN,
    "test_generators.GeneratorTest.test_handle_frame_object_in_creation": _STACK,
    "test_itertools.TestBasicOps.test_combinations_tuple_reuse": _REUSED,
    "test_itertools.TestBasicOps.test_combinations_with_replacement_tuple_reuse": _REUSED,
    "test_itertools.TestBasicOps.test_permutations_tuple_reuse": _REUSED,
    "test_itertools.TestBasicOps.test_product_tuple_reuse": _REUSED,
    "test_patma.TestTracing": _TRACED,
    "test_re.ReTests.test_possible_set_operations": _LEVELS,
    "test_re.ReTests.test_search_anchor_at_beginning": "it measures seconds, of the trace too",
}

#: What passes, and takes minutes.
SLOW = {
    "test_contextlib.TestExitStack.test_excessive_nesting": "each trace looks at all of the ten thousand callbacks that are left",
}

#: Differences that are bugs of the tracer, not yet mended.
OPEN = {
    "test_descr.ClassPropertiesAndMethods.test_wrong_class_slot_wrapper": "a slot wrapper of str on an instance of an int class",
    "test_descr.MroTest.test_tp_subclasses_cycle_error_return_path": "an mro() that changes the bases of its own class",
    "test_dict.DictTest.test_merge_and_mutate": "a dict that a comparison empties while another takes its items over",
    "test_dict.DictTest.test_oob_indexing_dictiter_iternextitem": _LONGER,
    "test_exceptions.ExceptionTests.testExceptionCleanupState": _LONGER,
    "test_exceptions.ExceptionTests.test_memory_error_cleanup": _LONGER,
    "test_generators.GeneratorDeallocTest.test_frame_outlives_generator": "the frame of a generator that is gone shows no locals",
    "test_generators.GeneratorTest.test_close_clears_frame": "a generator that is closed before it runs keeps its argument alive",
    "test_weakref.MappingTestCase.test_weak_keyed_cascading_deletes": "a weak key is not compared with itself, as CPython does",
    "test_descr.ClassPropertiesAndMethods.test_method_get_meth_method_invalid_type": "a C method's __get__ takes what is no type",
    "test_functools.TestLRUC.test_get_annotations": "annotations of a cache made in traced code, from CPython 3.14 on",
    "test_functools.TestPartialC.test_nested_optimization": _WITH_A_DICT,
    "test_functools.TestPartialCSubclass.test_placeholders_optimization": _WITH_A_DICT,
}
