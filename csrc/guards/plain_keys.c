#include "guards/plain_keys.h"

#include "compat.h"

/* Exact types only: a subclass of str may define __eq__ and __hash__. Nothing derives from bool. */
static int
is_plain_number(PyObject *key)
{
    return PyLong_CheckExact(key) || PyBool_Check(key) || PyFloat_CheckExact(key);
}

static int
is_plain_key(PyObject *key)
{
    return PyUnicode_CheckExact(key) || PyBytes_CheckExact(key) || is_plain_number(key) || key == Py_None;
}

/* Whether two keys with the same hash are equal; -1 if asking them could run user code. */
static int
same_key(PyObject *seen, PyObject *key)
{
    if (seen == key) {
        return 1;
    }
    if (!is_plain_key(seen)) {
        return -1;
    }
    int comparable = Py_IS_TYPE(seen, Py_TYPE(key)) || (is_plain_number(seen) && is_plain_number(key));
    return comparable ? PyObject_RichCompareBool(seen, key, Py_EQ) : 0;
}

/* Looks at every key of a dict that may hold keys of any type. A dict compares only keys with the same hash. It may meet them in
 * any order, so a key of the program's with that hash makes the answer unknown even where an equal plain key was found. */
static PyObject *
find_among_all_keys(PyObject *dict, PyObject *key, int *known)
{
    Py_hash_t hash = PyObject_Hash(key), seen_hash; /* of a plain key this cannot fail */
    PyObject *seen, *value, *found = NULL;
    for (Py_ssize_t at = 0; *known && _PyDict_Next(dict, &at, &seen, &value, &seen_hash);) {
        int same = seen_hash == hash ? same_key(seen, key) : 0;
        *known = same >= 0;
        found = same > 0 ? value : found;
    }
    return *known ? found : NULL;
}

PyObject *
find_plain_key(PyObject *dict, PyObject *key, int *known)
{
    PyObject *value = NULL;
    *known = is_plain_key(key);
    if (*known && PyUnicode_CheckExact(key) && dict_has_only_str_keys(dict)) {
        value = PyDict_GetItemWithError(dict, key);
        *known = value != NULL || !PyErr_Occurred();
    }
    else if (*known) {
        value = find_among_all_keys(dict, key, known);
    }
    if (!*known) {
        PyErr_Clear();
    }
    return value;
}
