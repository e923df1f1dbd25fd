#include "guards/metaclass.h"

PyObject *
py_drop_metaclass(PyObject *Py_UNUSED(module), PyObject *cls)
{
    PyTypeObject *present = Py_TYPE(cls), *base = present->tp_base;
    if (!PyType_Check(cls) || !PyType_HasFeature(present, Py_TPFLAGS_HEAPTYPE) || !PyType_IsSubtype(base, &PyType_Type)
        || present->tp_basicsize != base->tp_basicsize || present->tp_itemsize != base->tp_itemsize) {
        PyErr_SetString(PyExc_TypeError, "drop_metaclass: a class whose metaclass only adds methods to its base");
        return NULL;
    }
    if (PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)) { /* only such are held by what is of them */
        Py_INCREF(base);
    }
    Py_SET_TYPE(cls, base);
    PyType_Modified((PyTypeObject *)cls);
    Py_DECREF(present);
    Py_RETURN_NONE;
}
