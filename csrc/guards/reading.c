#include "guards/reading.h"

#include <structmember.h>

#include "compat.h"
#include "guards/plain_keys.h"
#include "tensors/tensor_checks.h"

/* ---- values ---- */

/* A slot of the instance, or the entry of its own dict. Where 3.11 keeps attributes beside the instance without a dict, the
 * generic lookup finds them: it looks into the type first, where nothing may have that name. */
static ReadResult
read_attribute(PyObject *object, PyObject *name, PyObject **value)
{
    PyObject *in_type = _PyType_Lookup(Py_TYPE(object), name);
    if (in_type != NULL && Py_IS_TYPE(in_type, &PyMemberDescr_Type)) {
        const struct PyMemberDef *member = ((PyMemberDescrObject *)in_type)->d_member;
        if (member->type != T_OBJECT_EX || !PyObject_TypeCheck(object, PyDescr_TYPE(in_type))) {
            return READ_UNKNOWN;
        }
        *value = *(PyObject **)((char *)object + member->offset);
        return *value == NULL ? READ_ABSENT : READ_FOUND;
    }
    PyObject **place = _PyObject_GetDictPtr(object);
    if (place == NULL || (*place == NULL && in_type != NULL) || (*place != NULL && !dict_has_plain_keys(*place))) {
        return READ_UNKNOWN;
    }
    if (*place != NULL) {
        *value = PyDict_GetItemWithError(*place, name);
    }
    else {
        *value = _PyObject_GenericGetAttrWithDict(object, name, NULL, 1);
        Py_XDECREF(*value); /* the instance holds it */
    }
    return *value == NULL ? READ_ABSENT : READ_FOUND;
}

static ReadResult
read_sequence_item(PyObject *sequence, Py_ssize_t index, PyObject **value)
{
    Py_ssize_t size = Py_SIZE(sequence);
    index += index < 0 ? size : 0;
    if (index < 0 || index >= size) {
        return READ_ABSENT;
    }
    *value = PyList_Check(sequence) ? PyList_GET_ITEM(sequence, index) : PyTuple_GET_ITEM(sequence, index);
    return READ_FOUND;
}

static ReadResult
read_item(const Read *read, PyObject *container, PyObject **value)
{
    if (PyDict_Check(container)) {
        int known;
        *value = find_plain_key(container, read->key, &known);
        return !known ? READ_UNKNOWN : *value == NULL ? READ_ABSENT : READ_FOUND;
    }
    if (PyLong_CheckExact(read->key) && (PyList_Check(container) || PyTuple_Check(container))) {
        return read_sequence_item(container, read->number, value);
    }
    return READ_UNKNOWN;
}

static ReadResult
read_no_item(const Read *read, PyObject *container, PyObject **value)
{
    ReadResult found = read_item(read, container, value);
    *value = Py_None;
    return found == READ_UNKNOWN ? READ_UNKNOWN : found == READ_FOUND ? READ_ABSENT : READ_FOUND;
}

ReadResult
read_step(const Read *read, PyObject *base, PyObject **value)
{
    switch (read->kind) {
    case READ_ATTR:
        return read_attribute(base, read->key, value);
    case READ_ITEM:
        return read_item(read, base, value);
    case READ_NO_ITEM:
        return read_no_item(read, base, value);
    case READ_CELL:
        *value = PyCell_Check(base) ? PyCell_GET(base) : NULL;
        return *value == NULL ? READ_ABSENT : READ_FOUND;
    default:
        return READ_UNKNOWN;
    }
}

ReadResult
read_value(const Read *reads, Py_ssize_t index, PyObject *const *slots, Py_ssize_t slot_count, PyObject **value)
{
    const Read *read = &reads[index];
    if (read->kind == READ_SLOT) {
        *value = read->number < slot_count ? slots[read->number] : NULL;
        return *value == NULL ? READ_UNKNOWN : READ_FOUND;
    }
    if (read->kind == READ_CONST) {
        *value = read->key;
        return READ_FOUND;
    }
    PyObject *base;
    ReadResult found = read_value(reads, read->base, slots, slot_count, &base);
    return found == READ_FOUND ? read_step(read, base, value) : found;
}

static int
parse_read(PyObject *item, Py_ssize_t index, Read *read)
{
    int kind;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "inO", &kind, &read->base, &read->key)) {
        PyErr_SetString(PyExc_TypeError, "a read is (kind, base, key)");
        return -1;
    }
    read->kind = (ReadKind)kind;
    read->number = 0;
    if (PyLong_CheckExact(read->key)) {
        read->number = PyLong_AsSsize_t(read->key);
        PyErr_Clear();
    }
    int starts = kind == READ_SLOT || kind == READ_CONST;
    if (kind < 0 || kind >= READ_KIND_COUNT || read->base >= index || (read->base < 0) != starts
        || (kind == READ_SLOT && read->number < 0) || (kind == READ_ATTR && !PyUnicode_CheckExact(read->key))) {
        PyErr_Format(PyExc_ValueError, "read %zd is none: %R", index, item);
        return -1;
    }
    return 0;
}

Read *
reads_parse(PyObject *tuple)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    Read *reads = PyMem_New(Read, count + 1);
    if (reads == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (parse_read(PyTuple_GET_ITEM(tuple, i), i, &reads[i]) < 0) {
            PyMem_Free(reads);
            return NULL;
        }
    }
    return reads;
}

/* ---- words ---- */

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
