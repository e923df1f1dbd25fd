/* Value: the base of small objects that never change and are compared by class and fields (sources and guards). They are
 * keys of dicts throughout a trace: the hash is worked out once, and most comparisons end at the identity or the hash. */
#include "value.h"

static struct {
    PyObject *fields; /* "_fields" */
} interned;

typedef struct {
    PyObject_HEAD
    Py_hash_t hash; /* 0: not asked for yet */
} Value;

/* The fields by name, as dataclasses list them. Subclasses may give others. */
static PyObject *
value_fields(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *names = PyObject_GetAttrString((PyObject *)Py_TYPE(self), "__match_args__");
    if (names == NULL) {
        return NULL;
    }
    if (!PyTuple_CheckExact(names)) {
        PyErr_SetString(PyExc_TypeError, "__match_args__ has to be a tuple");
        Py_DECREF(names);
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    PyObject *fields = PyTuple_New(count);
    for (Py_ssize_t i = 0; fields != NULL && i < count; i++) {
        PyObject *field = PyObject_GetAttr(self, PyTuple_GET_ITEM(names, i));
        if (field == NULL) {
            Py_CLEAR(fields);
            break;
        }
        PyTuple_SET_ITEM(fields, i, field);
    }
    Py_DECREF(names);
    return fields;
}

static PyObject *
fields_of(PyObject *self)
{
    if (interned.fields == NULL && (interned.fields = PyUnicode_InternFromString("_fields")) == NULL) {
        return NULL;
    }
    return PyObject_CallMethodNoArgs(self, interned.fields);
}

static Py_hash_t
value_hash(PyObject *self)
{
    Value *value = (Value *)self;
    if (value->hash != 0) {
        return value->hash;
    }
    PyObject *fields = fields_of(self);
    if (fields == NULL) {
        return -1;
    }
    Py_hash_t hash = PyObject_Hash(fields);
    Py_DECREF(fields);
    if (hash == -1) {
        return -1;
    }
    hash ^= (Py_hash_t)((size_t)Py_TYPE(self) >> 4);
    if (hash == 0 || hash == -1) {
        hash = 1;
    }
    value->hash = hash;
    return hash;
}

/* 1 if they are equal, 0 if not, -1 with an exception. */
static int
equal(PyObject *self, PyObject *other)
{
    if (self == other) {
        return 1;
    }
    if (Py_TYPE(self) != Py_TYPE(other)) {
        return 0;
    }
    Py_hash_t one = value_hash(self), two = one == -1 ? -1 : value_hash(other);
    if (one == -1 || two == -1) {
        return -1;
    }
    if (one != two) {
        return 0;
    }
    PyObject *left = fields_of(self), *right = left == NULL ? NULL : fields_of(other);
    int same = right == NULL ? -1 : PyObject_RichCompareBool(left, right, Py_EQ);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return same;
}

static PyObject *
value_compare(PyObject *self, PyObject *other, int op)
{
    if ((op != Py_EQ && op != Py_NE) || !PyObject_TypeCheck(other, &Value_Type)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    int same = equal(self, other);
    return same < 0 ? NULL : PyBool_FromLong(same == (op == Py_EQ));
}

static PyMethodDef value_methods[] = {
    {"_fields", value_fields, METH_NOARGS, "_fields() -> what it is compared by, its class apart"},
    {NULL},
};

PyTypeObject Value_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Value",
    .tp_doc = PyDoc_STR("Base of objects that never change and are compared by class and fields."),
    .tp_basicsize = sizeof(Value),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_hash = value_hash,
    .tp_richcompare = value_compare,
    .tp_methods = value_methods,
};
