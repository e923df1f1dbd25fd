#include "guards/counter.h"

#include <structmember.h>

static PyObject *
counter_note(Counter *self, PyObject *Py_UNUSED(unused))
{
    self->count++;
    Py_RETURN_NONE;
}

static PyMethodDef counter_methods[] = {
    {"note", (PyCFunction)counter_note, METH_NOARGS, "note(): it has happened once more"},
    {NULL},
};

static PyMemberDef counter_members[] = {
    {"count", T_LONGLONG, offsetof(Counter, count), READONLY, "How often."},
    {NULL},
};

PyTypeObject Counter_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Counter",
    .tp_doc = PyDoc_STR("Counter()\n--\n\nHow often something has happened."),
    .tp_basicsize = sizeof(Counter),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_methods = counter_methods,
    .tp_members = counter_members,
};
