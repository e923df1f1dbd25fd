"""The steps that `_C.Steady` takes, as csrc/guards/steady.h numbers them: each is (kind, the step it starts from or -1, key).
And its tests, as csrc/guards/steady_tests.h does: each is (step, kind, what is expected of the value there)."""

# kinds
(ROOT, CONST, ATTR, NO_ATTR, DICT, ITEM, NO_ITEM, WHOLE, EXACT, TYPE, TYPE_ITEM, TYPE_LOOKUP, NO_TYPE_LOOKUP, KEEP,
 SLOT) = range(15)  # fmt: skip

# keys of a SLOT
(CODE, DEFAULTS, KWDEFAULTS, CLOSURE, GLOBALS, CELL_CONTENTS, METHOD_SELF, METHOD_FUNC, PROPERTY_GETTER,
 MRO) = range(10)  # fmt: skip

# kinds of tests; the first three expect an address, the last one addresses
(OF_TYPE, IS, IS_NOT, SAME, LENGTH, REACHES, BELOW, EQUAL, KEYS, OBJECTS) = range(10)
