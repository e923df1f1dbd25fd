#include "guards/versions.h"

/* ---- dicts ---- */

#if PY_VERSION_HEX >= 0x030D0000
static int watcher = -1;

/* Called before the change. CPython numbers all other changes itself after this. */
static int
count_change(PyDict_WatchEvent Py_UNUSED(event), PyObject *dict, PyObject *Py_UNUSED(key), PyObject *Py_UNUSED(value))
{
    PyDictObject *changed = (PyDictObject *)dict;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    changed->ma_version_tag = DICT_NEXT_VERSION(PyInterpreterState_Get())
                              | (changed->ma_version_tag & DICT_WATCHER_AND_MODIFICATION_MASK);
#pragma GCC diagnostic pop
    return 0;
}

int
versions_init(void)
{
    watcher = PyDict_AddWatcher(count_change);
    return watcher < 0 ? -1 : 0;
}

const uint64_t *
version_of_dict_from_now(PyObject *dict)
{
    PyDict_Watch(watcher, dict); /* does not fail: it is a dict, and the watcher is there */
    return version_of_dict(dict);
}
#else
int
versions_init(void)
{
    return 0;
}

const uint64_t *
version_of_dict_from_now(PyObject *dict)
{
    return version_of_dict(dict);
}
#endif

/* ---- classes and functions ---- */

static void
assign_version(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyUnstable_Type_AssignVersionTag(type);
#else /* nothing does this alone: looking up a name does that the cache has not seen of this version */
    PyObject *name = PyUnicode_InternFromString("__tracer__");
    if (name != NULL) {
        (void)_PyType_Lookup(type, name);
    }
    PyErr_Clear();
    Py_XDECREF(name);
#endif
}

uint64_t
version_of_class_from_now(PyTypeObject *type)
{
    if (version_of_class(type) == 0) {
        assign_version(type);
    }
    return version_of_class(type);
}

uint64_t
version_of(PyObject *class_or_function)
{
    return PyFunction_Check(class_or_function) ? (uint64_t)(uintptr_t)((PyFunctionObject *)class_or_function)->func_code
                                               : version_of_class((PyTypeObject *)class_or_function);
}

uint64_t
version_from_now(PyObject *class_or_function)
{
    if (PyType_Check(class_or_function)) {
        version_of_class_from_now((PyTypeObject *)class_or_function);
    }
    return version_of(class_or_function);
}
