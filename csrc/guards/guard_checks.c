#include "guards/guard_checks.h"

#include "guards/plain_keys.h"
#include "guards/versions.h"

/* The entry of the object's own dict: new reference, or NULL, with or without an exception. `in_type` is what its type
 * has by that name. If that is nothing, the generic lookup can only find the entry, and finds it without making a dict
 * of attributes that 3.11 keeps beside the instance. */
static PyObject *
own_entry(PyObject *object, PyObject *name, PyObject *in_type)
{
    if (PyType_Check(object)) {
        PyObject *dict = type_dict((PyTypeObject *)object);
        return dict == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(dict, name));
    }
    if (in_type == NULL) {
        return _PyObject_GenericGetAttrWithDict(object, name, NULL, 1);
    }
    PyObject **dict = dict_place(object);
    return dict == NULL || *dict == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(*dict, name));
}

/* Slots (__slots__, members of C types) come before the dict: they are data descriptors. */
static PyObject *
raw_attr(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyUnicode_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "raw_attr(obj, name) takes an object and a str");
        return NULL;
    }
    PyObject *object = args[0], *name = args[1], *value;
    PyObject *in_type = Py_XNewRef(_PyType_Lookup(Py_TYPE(object), name)); /* searches the dicts of the MRO */
    if (in_type != NULL && Py_IS_TYPE(in_type, &PyMemberDescr_Type)) {
        value = Py_TYPE(in_type)->tp_descr_get(in_type, object, (PyObject *)Py_TYPE(object));
    }
    else {
        value = own_entry(object, name, in_type);
    }
    Py_XDECREF(in_type);
    if (value == NULL && !PyErr_Occurred()) {
        PyErr_Format(PyExc_AttributeError, "this '%.100s' object has no '%U' of its own", Py_TYPE(object)->tp_name, name);
    }
    return value;
}

/* On 3.11 the attributes of an instance may lie beside it without a dict: then the dict is made, and stays. */
static PyObject *
instance_dict(PyObject *Py_UNUSED(module), PyObject *object)
{
    PyObject **dict = dict_place(object);
    if (dict == NULL && PyType_Check(object)) {
        return Py_XNewRef(type_dict((PyTypeObject *)object));
    }
    if (dict == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    return *dict == NULL ? PyObject_GenericGetDict(object, NULL) : Py_NewRef(*dict);
}

static PyObject *
is_generic_access(PyObject *Py_UNUSED(module), PyObject *hook)
{
    if (!Py_IS_TYPE(hook, &PyWrapperDescr_Type)) {
        Py_RETURN_FALSE;
    }
    void *wrapped = ((PyWrapperDescrObject *)hook)->d_wrapped;
    return PyBool_FromLong(wrapped == (void *)PyObject_GenericGetAttr || wrapped == (void *)PyObject_GenericSetAttr);
}

static PyObject *
proxy_target(PyObject *Py_UNUSED(module), PyObject *proxy)
{
    if (!PyWeakref_CheckProxy(proxy)) {
        PyErr_SetString(PyExc_TypeError, "expected a weak proxy");
        return NULL;
    }
    PyObject *target = weakref_target(proxy);
    if (target == Py_None) {
        PyErr_SetString(PyExc_ReferenceError, "weakly-referenced object no longer exists");
        return NULL;
    }
    return Py_NewRef(target);
}

static PyObject *
type_id(PyObject *Py_UNUSED(module), PyObject *object)
{
    return PyLong_FromVoidPtr(Py_TYPE(object));
}

static PyObject *
dict_version(PyObject *Py_UNUSED(module), PyObject *dict)
{
    if (!PyDict_Check(dict)) {
        PyErr_Format(PyExc_TypeError, "dict_version() takes a dict, not %.100s", Py_TYPE(dict)->tp_name);
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(*version_of_dict_from_now(dict));
}

static PyObject *
has_plain_key(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyDict_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "has_plain_key(dict, key) takes a dict and a key");
        return NULL;
    }
    int known;
    PyObject *value = find_plain_key(args[0], args[1], &known);
    if (!known) {
        PyErr_SetString(PyExc_ValueError, "has_plain_key(): to tell takes running code of the program");
        return NULL;
    }
    return PyBool_FromLong(value != NULL);
}

static PyObject *
find_in_mro(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyType_Check(args[0]) || !PyUnicode_Check(args[1]) || ((PyTypeObject *)args[0])->tp_mro == NULL) {
        PyErr_SetString(PyExc_TypeError, "find_in_mro(cls, name) takes a class, which is made, and a str");
        return NULL;
    }
    PyObject *mro = Py_NewRef(((PyTypeObject *)args[0])->tp_mro), *found = NULL;
    for (Py_ssize_t i = 0; found == NULL && !PyErr_Occurred() && i < PyTuple_GET_SIZE(mro); i++) {
        PyObject *base = PyTuple_GET_ITEM(mro, i);
        PyObject *value = PyDict_GetItemWithError(type_dict((PyTypeObject *)base), args[1]);
        found = value == NULL ? NULL : PyTuple_Pack(2, base, value);
    }
    Py_DECREF(mro);
    return found == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : found;
}

static int
compare_addresses(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)*(PyObject *const *)left, b = (uintptr_t)*(PyObject *const *)right;
    return (a > b) - (a < b);
}

static int
distinct_sorted(PyObject *const *args, Py_ssize_t count)
{
    PyObject **sorted = PyMem_New(PyObject *, count);
    if (sorted == NULL) {
        return -1;
    }
    memcpy(sorted, args, (size_t)count * sizeof(PyObject *));
    qsort(sorted, (size_t)count, sizeof(PyObject *), compare_addresses);
    int same = 0;
    for (Py_ssize_t i = 1; i < count && !same; i++) {
        same = sorted[i] == sorted[i - 1];
    }
    PyMem_Free(sorted);
    return !same;
}

int
all_distinct(PyObject *const *args, Py_ssize_t count)
{
    if (count > 32) {
        return distinct_sorted(args, count);
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        for (Py_ssize_t j = 0; j < i; j++) {
            if (args[i] == args[j]) {
                return 0;
            }
        }
    }
    return 1;
}

static PyObject *
distinct(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    int apart = all_distinct(args, count);
    return apart < 0 ? PyErr_NoMemory() : PyBool_FromLong(apart);
}

/* The objects of the tuple are distinct already. */
static PyObject *
distinct_from(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count < 1 || !PyTuple_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "distinct_from(tuple, *objects) takes a tuple first");
        return NULL;
    }
    PyObject *const *known = &PyTuple_GET_ITEM(args[0], 0);
    for (Py_ssize_t i = 0, size = PyTuple_GET_SIZE(args[0]); i < size; i++) {
        for (Py_ssize_t j = 1; j < count; j++) {
            if (known[i] == args[j]) {
                Py_RETURN_FALSE;
            }
        }
    }
    return distinct(module, args + 1, count - 1);
}

PyMethodDef guard_check_methods[] = {
    {"raw_attr", (PyCFunction)(void (*)(void))raw_attr, METH_FASTCALL,
     "raw_attr(obj, name): a slot's value or the instance dict's entry; AttributeError if there is none"},
    {"instance_dict", instance_dict, METH_O, "instance_dict(obj) -> its own dict, or None"},
    {"is_generic_access", is_generic_access, METH_O,
     "is_generic_access(hook) -> whether a class's __getattribute__, __setattr__ or __delattr__ does what object's does"},
    {"proxy_target", proxy_target, METH_O,
     "proxy_target(proxy) -> what a weak proxy stands for; ReferenceError if it is gone"},
    {"type_id", type_id, METH_O, "type_id(obj) -> id(type(obj))"},
    {"dict_version", dict_version, METH_O, "dict_version(d) -> a number that changes whenever d does"},
    {"has_plain_key", (PyCFunction)(void (*)(void))has_plain_key, METH_FASTCALL,
     "has_plain_key(dict, key) -> whether the dict has a key that is a str, number, bytes or None; ValueError where only\n"
     "running code of the program would tell"},
    {"find_in_mro", (PyCFunction)(void (*)(void))find_in_mro, METH_FASTCALL,
     "find_in_mro(cls, name) -> (the first class of the MRO that has the name in its own namespace, what it is there), or "
     "None"},
    {"distinct", (PyCFunction)(void (*)(void))distinct, METH_FASTCALL,
     "distinct(*objs) -> whether no object is given twice"},
    {"distinct_from", (PyCFunction)(void (*)(void))distinct_from, METH_FASTCALL,
     "distinct_from(known, *objs) -> whether no object is given twice, in a tuple of distinct ones or beside it"},
    {NULL},
};
