"""The numbers of the steps and tests of `_C.Steady`, as in csrc/guards/steady.h and csrc/guards/steady_tests.h. A step is
(kind, the step it starts from or -1, key), a test (step, kind, the expected value)."""

# kinds
(ROOT, CONST, ATTR, NO_ATTR, DICT, ITEM, NO_ITEM, WHOLE, EXACT, TYPE, TYPE_ITEM, TYPE_LOOKUP, NO_TYPE_LOOKUP, KEEP,
 SLOT) = range(15)  # fmt: skip

# keys of a SLOT
(CODE, DEFAULTS, KWDEFAULTS, CLOSURE, GLOBALS, CELL_CONTENTS, METHOD_SELF, METHOD_FUNC, PROPERTY_GETTER,
 MRO) = range(10)  # fmt: skip

# kinds of tests; the first three expect an address, the last one addresses
(OF_TYPE, IS, IS_NOT, SAME, LENGTH, REACHES, BELOW, EQUAL, KEYS, OBJECTS) = range(10)
