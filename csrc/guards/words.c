#include "guards/reading.h"
#include "tensors/tensor_checks.h"

/* Of what does not fit, nothing is said. */
static ReadResult
int_word(PyObject *value, int wanted, int64_t *word)
{
    if (!PyLong_CheckExact(value)) {
        return wanted ? READ_ABSENT : READ_UNKNOWN;
    }
    int overflow;
    *word = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow ? READ_UNKNOWN : READ_FOUND;
}

static ReadResult
length_word(PyObject *value, int64_t *word)
{
    if (PyDict_Check(value)) {
        *word = PyDict_GET_SIZE(value);
        return READ_FOUND;
    }
    if (PyList_Check(value) || PyTuple_Check(value)) {
        *word = Py_SIZE(value);
        return READ_FOUND;
    }
    return READ_UNKNOWN;
}

ReadResult
read_word(PyObject *value, WordKind kind, int64_t dim, int64_t *word)
{
    switch (kind) {
    case WORD_TYPE:
        *word = (int64_t)(intptr_t)Py_TYPE(value);
        return READ_FOUND;
    case WORD_ADDRESS:
        *word = (int64_t)(intptr_t)value;
        return READ_FOUND;
    case WORD_INT:
        return int_word(value, dim != 0, word);
    case WORD_FLOAT:
        if (!PyFloat_CheckExact(value)) {
            return READ_ABSENT;
        }
        memcpy(word, &((PyFloatObject *)value)->ob_fval, sizeof(*word));
        return READ_FOUND;
    case WORD_HASH:
        if (!PyUnicode_CheckExact(value)) {
            return READ_ABSENT;
        }
        *word = PyObject_Hash(value);
        return READ_FOUND;
    case WORD_LENGTH:
        return length_word(value, word);
    default:
        return tensor_word(value, kind, dim, word);
    }
}
