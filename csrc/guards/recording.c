#include "guards/recording.h"

int
recording_init(Recording *recording, Py_ssize_t steps, Py_ssize_t roots, Py_ssize_t held)
{
    size_t count = (size_t)steps + 1;
    *recording = (Recording){
        memo_new(steps, roots, held), PyMem_New(PyObject *, count), PyMem_New(Py_ssize_t, count),
        PyMem_New(Py_ssize_t, count), PyMem_New(Py_ssize_t, count), PyMem_New(char, count),
    };
    return recording->memo && recording->values && recording->instance && recording->content && recording->fact
           && recording->typed;
}

void
recording_clear(Recording *recording)
{
    PyMem_Free(recording->values);
    PyMem_Free(recording->instance);
    PyMem_Free(recording->content);
    PyMem_Free(recording->fact);
    PyMem_Free(recording->typed);
}

void
record_value(Recording *recording, Py_ssize_t step, PyObject *value, Py_ssize_t facts_before)
{
    recording->values[step] = value;
    recording->instance[step] = recording->content[step] = -1;
    recording->fact[step] = recording->memo->fact_count > facts_before ? facts_before : -1;
    recording->typed[step] = 0;
}

void
record_word(Recording *recording, const void *place)
{
    memo_add_word(recording->memo, place);
}

/* ---- types ---- */

/* Whether `__class__` of the type's objects cannot be assigned. */
static int
stays_of_type(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && !PyType_IsSubtype(type, &PyModule_Type);
}

void
record_type(Recording *recording, Py_ssize_t step)
{
    PyObject *value = recording->values[step];
    if (recording->typed[step]) {
        return;
    }
    recording->typed[step] = 1;
    if (recording->fact[step] >= 0 && stays_of_type(Py_TYPE(value))) {
        recording->memo->facts[recording->fact[step]].type = Py_TYPE(value);
    }
    else {
        memo_add_word(recording->memo, &value->ob_type);
    }
}

int
record_class(Recording *recording, PyTypeObject *type)
{
    return memo_watch_type(recording->memo, type);
}

/* ---- dicts ---- */

/* The watch of the dict that is the value of a step. */
static Py_ssize_t
content_of(Recording *recording, Py_ssize_t step, PyObject *dict)
{
    if (recording->content[step] < 0) {
        recording->content[step] = memo_watch_dict(recording->memo, dict);
    }
    return recording->content[step];
}

PyObject *
record_instance(Recording *recording, Py_ssize_t step)
{
    PyObject *object = recording->values[step];
    if (recording->instance[step] < 0) {
        PyObject **place = dict_place(object);
        if (place != NULL && *place == NULL) {
            PyObject *made = PyObject_GenericGetDict(object, NULL);
            Py_XDECREF(made);
            place = made != NULL && *place == made ? place : NULL;
        }
        if (place == NULL) {
            PyErr_Clear();
            return NULL;
        }
        memo_add_word(recording->memo, place);
        recording->instance[step] = memo_watch_dict(recording->memo, *place);
    }
    return recording->memo->dicts[recording->instance[step]].dict;
}

void
record_attribute(Recording *recording, Py_ssize_t step, PyObject *key, PyObject *value)
{
    memo_add_fact(recording->memo, recording->instance[step], key, value);
}

void
record_item(Recording *recording, Py_ssize_t step, PyObject *dict, PyObject *key, PyObject *value)
{
    memo_add_fact(recording->memo, content_of(recording, step, dict), key, value);
}

void
record_keys(Recording *recording, Py_ssize_t step, PyObject *dict)
{
    recording->memo->dicts[content_of(recording, step, dict)].whole = 1;
}

/* ---- sequences and constants ---- */

PyObject **
record_items(Recording *recording, PyObject *sequence)
{
    memo_add_word(recording->memo, &((PyVarObject *)sequence)->ob_size);
    if (PyTuple_Check(sequence)) {
        return ((PyTupleObject *)sequence)->ob_item;
    }
    memo_add_word(recording->memo, &((PyListObject *)sequence)->ob_item);
    return ((PyListObject *)sequence)->ob_item;
}

void
record_constant(Recording *recording, PyObject *value)
{
    recording->memo->kept[recording->memo->kept_count++] = Py_NewRef(value);
}
