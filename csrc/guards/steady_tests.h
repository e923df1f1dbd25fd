/* Tests: what the guards of a group demand of the values that its steps lead to. */
#ifndef TRACER_STEADY_TESTS_H
#define TRACER_STEADY_TESTS_H

#include "compat.h"

typedef enum { UNSURE = -1, FAILS = 0, HOLDS = 1 } Outcome;

/* tracer/guards/steady.py makes them. */
typedef enum {
    TEST_TYPE, /* exactly of the type at this address */
    TEST_IS,   /* the object at this address */
    TEST_IS_NOT,
    TEST_SAME,    /* the value of another step */
    TEST_LENGTH,  /* of a list, tuple, dict, str or bytes */
    TEST_REACHES, /* at least of this length */
    TEST_BELOW,   /* of less than this length */
    TEST_EQUAL,   /* to a plain constant, of the same type */
    TEST_KEYS,    /* a dict with just these keys, plain constants, in this order */
    TEST_OBJECTS, /* a dict with just the keys at these addresses, in this order */
    TEST_COUNT,
} TestKind;

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
