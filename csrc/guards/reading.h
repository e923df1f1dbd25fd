/* Values that the arguments of a call lead to, and words of 64 bits that tell such values apart; read without running user
 * code. */
#ifndef TRACER_READING_H
#define TRACER_READING_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include "word.h"

/* tracer/guards/reading.py makes them. */
typedef enum {
    READ_SLOT,    /* an argument slot, by index; the closure stands behind them */
    READ_CONST,   /* the key itself */
    READ_ATTR,    /* as raw_attr() */
    READ_ITEM,    /* of a dict, list or tuple */
    READ_CELL,    /* what a cell holds */
    READ_NO_ITEM, /* None, of a dict without the key; of another there is nothing to read */
    READ_KIND_COUNT,
} ReadKind;

typedef struct {
    ReadKind kind;
    Py_ssize_t base; /* the read that it starts from */
    PyObject *key;   /* borrowed from the tuple that the reads were parsed from */
    Py_ssize_t number;
} Read;

/* From a tuple of (kind, base, key); NULL with an exception. To be freed with PyMem_Free(). */
Read *reads_parse(PyObject *tuple);

/* A borrowed reference. */
ReadResult read_value(const Read *reads, Py_ssize_t index, PyObject *const *slots, Py_ssize_t slot_count, PyObject **value);

/* One step, from the value that it starts from. */
ReadResult read_step(const Read *read, PyObject *base, PyObject **value);

/* `dim` is for sizes and strides. READ_ABSENT: of a value that cannot have one. */
ReadResult read_word(PyObject *value, WordKind kind, int64_t dim, int64_t *word);

#endif
