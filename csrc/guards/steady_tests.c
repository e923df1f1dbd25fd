/* What takes more than looking at plain values is left open: the guards as Python text tell then. */
#include "guards/steady_tests.h"

enum { DEEPEST_CONSTANT = 20 };

static Outcome
outcome_of(int holds)
{
    return holds ? HOLDS : FAILS;
}

/* ---- plain constants ---- */

static Outcome
same_float(PyObject *seen, PyObject *expected)
{
    double a = PyFloat_AS_DOUBLE(seen), b = PyFloat_AS_DOUBLE(expected);
    if (a != a && b != b) {
        return UNSURE;
    }
    return outcome_of(memcmp(&a, &b, sizeof(a)) == 0);
}

/* As same_constant() in tracer/guards/constants.py. */
static Outcome
same_constant(PyObject *seen, PyObject *expected, int depth)
{
    if (seen == expected) {
        return HOLDS;
    }
    if (!Py_IS_TYPE(seen, Py_TYPE(expected)) || PyBool_Check(seen)) {
        return FAILS;
    }
    if (PyUnicode_CheckExact(seen) || PyBytes_CheckExact(seen) || PyLong_CheckExact(seen)) {
        int same = PyObject_RichCompareBool(seen, expected, Py_EQ);
        PyErr_Clear();
        return same < 0 ? UNSURE : outcome_of(same);
    }
    if (PyFloat_CheckExact(seen)) {
        return same_float(seen, expected);
    }
    if (!PyTuple_CheckExact(seen) || depth == DEEPEST_CONSTANT) {
        return UNSURE;
    }
    Outcome outcome = outcome_of(PyTuple_GET_SIZE(seen) == PyTuple_GET_SIZE(expected));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected) && outcome == HOLDS; i++) {
        outcome = same_constant(PyTuple_GET_ITEM(seen, i), PyTuple_GET_ITEM(expected, i), depth + 1);
    }
    return outcome;
}

/* ---- containers ---- */

static int
take_referent(PyObject *object, void *place)
{
    *(PyObject **)place = object;
    return 0;
}

/* The mapping is the first thing that a proxy holds. */
PyObject *
unproxied(PyObject *container, PyObject ***place)
{
    *place = NULL;
    if (Py_IS_TYPE(container, &PyDictProxy_Type)) {
        PyObject *mapping = NULL;
        PyDictProxy_Type.tp_traverse(container, take_referent, &mapping);
        PyObject **first = (PyObject **)(container + 1);
        if (mapping != NULL && *first == mapping) {
            *place = first;
            return mapping;
        }
    }
    return container;
}

/* -1: that of something else. */
static Py_ssize_t
length_of(PyObject *value)
{
    PyObject **place;
    PyObject *container = unproxied(value, &place);
    if (PyDict_Check(container)) {
        return PyDict_GET_SIZE(container);
    }
    if (PyList_Check(container) || PyTuple_Check(container) || PyBytes_CheckExact(container)) {
        return Py_SIZE(container);
    }
    return PyUnicode_CheckExact(container) ? PyUnicode_GET_LENGTH(container) : -1;
}

static Outcome
same_object(PyObject *seen, PyObject *address)
{
    return outcome_of((uintptr_t)seen == (uintptr_t)PyLong_AsVoidPtr(address));
}

static Outcome
same_keys(PyObject *value, PyObject *keys, int by_address)
{
    PyObject **place, *key, *unused;
    PyObject *dict = unproxied(value, &place);
    if (!PyDict_Check(dict)) {
        return UNSURE;
    }
    Outcome outcome = outcome_of(PyDict_GET_SIZE(dict) == PyTuple_GET_SIZE(keys));
    for (Py_ssize_t at = 0, i = 0; outcome == HOLDS && PyDict_Next(dict, &at, &key, &unused); i++) {
        PyObject *expected = PyTuple_GET_ITEM(keys, i);
        outcome = by_address ? same_object(key, expected) : same_constant(key, expected, 0);
    }
    return outcome;
}

/* ---- tests ---- */

Outcome
test_holds(const Test *test, PyObject *const *values)
{
    PyObject *value = values[test->step];
    if (value == NULL) {
        return UNSURE;
    }
    int64_t number = test->expected.number;
    Py_ssize_t length = test->kind >= TEST_LENGTH && test->kind <= TEST_BELOW ? length_of(value) : 0;
    if (length < 0) {
        return UNSURE;
    }
    switch ((TestKind)test->kind) {
    case TEST_TYPE:
        return outcome_of((int64_t)(intptr_t)Py_TYPE(value) == number);
    case TEST_IS:
        return outcome_of((int64_t)(intptr_t)value == number);
    case TEST_IS_NOT:
        return outcome_of((int64_t)(intptr_t)value != number);
    case TEST_SAME:
        return outcome_of(values[number] == value);
    case TEST_LENGTH:
        return outcome_of(length == number);
    case TEST_REACHES:
        return outcome_of(length >= number);
    case TEST_BELOW:
        return outcome_of(length < number);
    case TEST_EQUAL:
        return same_constant(value, test->expected.constant, 0);
    case TEST_KEYS:
    case TEST_OBJECTS:
        return same_keys(value, test->expected.constant, test->kind == TEST_OBJECTS);
    case TEST_COUNT:
        break;
    }
    return UNSURE;
}

/* ---- parsing ---- */

int
test_has_constant(const Test *test)
{
    return test->kind == TEST_EQUAL || test->kind == TEST_KEYS || test->kind == TEST_OBJECTS;
}

static int
are_addresses(PyObject *tuple)
{
    int all = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple) && all; i++) {
        all = PyLong_CheckExact(PyTuple_GET_ITEM(tuple, i))
              && (PyLong_AsVoidPtr(PyTuple_GET_ITEM(tuple, i)), !PyErr_Occurred());
    }
    return all;
}

static int
parse_test(PyObject *item, int32_t after, Py_ssize_t step_count, Test *test)
{
    int kind;
    PyObject *expected;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "iiO", &test->step, &kind, &expected)) {
        return 0;
    }
    if (test->step < after || test->step >= step_count || kind < 0 || kind >= TEST_COUNT) {
        return 0;
    }
    test->kind = (uint8_t)kind;
    if (test_has_constant(test)) {
        test->expected.constant = expected;
        return kind == TEST_EQUAL || (PyTuple_CheckExact(expected) && (kind == TEST_KEYS || are_addresses(expected)));
    }
    test->expected.number = PyLong_AsLongLong(expected);
    return !PyErr_Occurred() && (kind != TEST_SAME || (test->expected.number >= 0 && test->expected.number <= test->step));
}

int
tests_parse(PyObject *tuple, Py_ssize_t step_count, Test *tests)
{
    int32_t after = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (!parse_test(item, after, step_count, &tests[i])) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_ValueError, "test %zd of a Steady is none: %R", i, item);
            }
            return -1;
        }
        after = tests[i].step;
    }
    return 0;
}
