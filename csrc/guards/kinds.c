#include "guards/kinds.h"

#include "guards/reading.h"
#include "guards/steady_tests.h"

typedef struct {
    const char *name;
    int number;
} Kind;

#define STEP_ROW(name) {#name, STEP_##name},
#define WORD_ROW(name) {#name, WORD_##name},
#define TEST_ROW(name) {#name, TEST_##name},
static const Kind steps[] = {STEPS(STEP_ROW){NULL}};
static const Kind words[] = {WORDS(WORD_ROW){NULL}};
static const Kind tests[] = {TESTS(TEST_ROW){NULL}};

/* types.SimpleNamespace(**numbers) */
static PyObject *
namespace_of(PyObject *numbers)
{
    PyObject *types = PyImport_ImportModule("types"), *none = PyTuple_New(0);
    PyObject *cls = types == NULL ? NULL : PyObject_GetAttrString(types, "SimpleNamespace");
    PyObject *made = cls == NULL || none == NULL ? NULL : PyObject_Call(cls, none, numbers);
    Py_XDECREF(types);
    Py_XDECREF(none);
    Py_XDECREF(cls);
    return made;
}

static int
add_kinds(PyObject *module, const char *name, const Kind *kinds)
{
    PyObject *numbers = PyDict_New();
    for (const Kind *kind = kinds; numbers != NULL && kind->name != NULL; kind++) {
        PyObject *number = PyLong_FromLong(kind->number);
        if (number == NULL || PyDict_SetItemString(numbers, kind->name, number) < 0) {
            Py_CLEAR(numbers);
        }
        Py_XDECREF(number);
    }
    PyObject *made = numbers == NULL ? NULL : namespace_of(numbers);
    Py_XDECREF(numbers);
    int added = made == NULL ? -1 : PyModule_AddObjectRef(module, name, made);
    Py_XDECREF(made);
    return added;
}

int
kinds_init(PyObject *module)
{
    return add_kinds(module, "STEP", steps) < 0 || add_kinds(module, "WORD", words) < 0 ? -1
                                                                                        : add_kinds(module, "TEST", tests);
}
