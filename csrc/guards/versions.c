#include "guards/versions.h"

#include "guards/dict_words.h"

/* ---- dicts ---- */

static const uint64_t *
version_of_dict(PyObject *dict)
{
#if PY_VERSION_HEX >= 0x030E0000
    const uint64_t *word = dict_word(dict);
    if (word == NULL) {
        Py_FatalError("tracer: no memory to watch a dict");
    }
    return word;
#else
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* by 3.12, which still counts it */
    return &((PyDictObject *)dict)->ma_version_tag;
#pragma GCC diagnostic pop
#endif
}

/* From 3.13 on a dict may show the attributes that its instance keeps in itself (inline values). Assigning one of them does not
 * change the version of the dict, nor are watchers told (3.13.0). Removing an item makes the dict keep its items itself, for as long
 * as it lives; attributes are looked up in it from then on. */
#if PY_VERSION_HEX >= 0x030D0000
static int
shows_inline_values(PyObject *dict)
{
    const PyDictValues *values = ((PyDictObject *)dict)->ma_values;
    return values != NULL && values->embedded;
}

/* The last item is taken out, and put in again at the same place. 0 if there is no memory. */
static int
keep_items(PyObject *dict)
{
    PyObject *item = PyObject_CallMethod(dict, "popitem", NULL);
    int done = item != NULL && PyDict_SetItem(dict, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1)) == 0;
    Py_XDECREF(item);
    return done;
}

/* An empty one gets a key that no attribute has, for a moment. */
static int
keep_coming_items(PyObject *dict)
{
    int done = PyDict_SetItem(dict, Py_None, Py_None) == 0;
    PyDict_Clear(dict);
    return done;
}

const uint64_t *
version_of_dict_from_now(PyObject *dict)
{
    if (shows_inline_values(dict) && !(PyDict_GET_SIZE(dict) > 0 ? keep_items(dict) : keep_coming_items(dict))) {
        Py_FatalError("tracer: no memory to watch a dict");
    }
    return version_of_dict(dict);
}
#else
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

#if PY_VERSION_HEX >= 0x030D0000
/* The versions of dicts only grow, so that their sum tells every change of one of them. */
uint64_t
version_by_dicts(PyTypeObject *type)
{
    PyObject *mro = type->tp_mro;
    uint64_t sum = (uint64_t)(uintptr_t)mro << 16; /* another one where __bases__ was assigned */
    for (Py_ssize_t i = 0, count = mro == NULL ? 0 : PyTuple_GET_SIZE(mro); i < count; i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        if (PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)) { /* others do not change */
            sum += *version_of_dict(base->tp_dict);
        }
    }
    return sum | (UINT64_C(1) << 63);
}
#endif

uint64_t
version_of_class_from_now(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030D0000
    int has_none = type->tp_version_tag == 0;
#else
    int has_none = version_of_class(type) == 0;
#endif
    if (has_none) {
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
