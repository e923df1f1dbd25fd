/* Tests: what the guards of a group demand of the values that its steps lead to. */
#ifndef TRACER_STEADY_TESTS_H
#define TRACER_STEADY_TESTS_H

#include "compat.h"

typedef enum { UNSURE = -1, FAILS = 0, HOLDS = 1 } Outcome;

/* What a test expects of a value. Python knows these names as `_C.TEST`. */
#define TESTS(X)                                                                 \
    X(TYPE) /* exactly of the type at this address */                            \
    X(IS)   /* the object at this address */                                     \
    X(IS_NOT)                                                                    \
    X(SAME)    /* the value of another step */                                   \
    X(LENGTH)  /* of a list, tuple, dict, str or bytes */                        \
    X(REACHES) /* at least of this length */                                     \
    X(BELOW)   /* of less than this length */                                    \
    X(EQUAL)   /* to a plain constant, of the same type */                       \
    X(KEYS)    /* a dict with just these keys, plain constants, in this order */ \
    X(OBJECTS) /* a dict with just the keys at these addresses, in this order */

#define TEST_ENUMERATOR(name) TEST_##name,
typedef enum { TESTS(TEST_ENUMERATOR) TEST_COUNT } TestKind;
#undef TEST_ENUMERATOR

typedef struct {
    union {
        int64_t number;
        PyObject *constant; /* borrowed from the tuple that the tests were parsed from */
    } expected;
    int32_t step;
    uint8_t kind;
} Test;

/* Of a tuple of (step, kind, expected), those of earlier steps first; -1 with an exception where one makes no sense. */
int tests_parse(PyObject *tuple, Py_ssize_t step_count, Test *tests);
int test_has_constant(const Test *test);
/* `values` are those of all steps up to that of the test; NULL where nothing is there. Runs no user code. */
Outcome test_holds(const Test *test, PyObject *const *values);

/* The mapping behind a mappingproxy, anything else as it is. `place` is where the proxy holds it, or NULL. */
PyObject *unproxied(PyObject *container, PyObject ***place);

#endif
