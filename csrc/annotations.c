#include "annotations.h"

PyObject *
py_remember_annotations(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyFunction_Check(args[0]) || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "remember_annotations: a function, and a dict");
        return NULL;
    }
    Py_XSETREF(((PyFunctionObject *)args[0])->func_annotations, Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

PyObject *
py_known_annotations(PyObject *Py_UNUSED(module), PyObject *function)
{
    if (!PyFunction_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "known_annotations: a function");
        return NULL;
    }
    PyObject *found = ((PyFunctionObject *)function)->func_annotations;
    return Py_NewRef(found == NULL ? Py_None : found);
}
