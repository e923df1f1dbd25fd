#include "guards/versions.h"

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
