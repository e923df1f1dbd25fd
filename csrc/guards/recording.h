/* Recording: notes, while a path is walked, each word of memory that has to stay as it is for the path to lead to the same
 * values. Runs no user code. */
#ifndef TRACER_RECORDING_H
#define TRACER_RECORDING_H

#include "guards/memo.h"

typedef struct Recording {
    Memo *memo;
    PyObject **values;    /* of each step, borrowed */
    Py_ssize_t *instance; /* for each step, the DictWatch of its value's instance dict, or -1 */
    Py_ssize_t *content;  /* the DictWatch of its value, a dict */
    Py_ssize_t *fact;     /* the Fact that its value is, or -1 */
    char *typed;          /* its value's type was noted */
} Recording;

/* Makes room for as many steps; 0, without an exception, if there is no memory. To be cleared in either case; the memo is the
 * caller's. */
int recording_init(Recording *recording, Py_ssize_t steps, Py_ssize_t roots, Py_ssize_t held);
void recording_clear(Recording *recording);

/* The value of a step has been read; the memo had so many facts before. */
void record_value(Recording *recording, Py_ssize_t step, PyObject *value, Py_ssize_t facts_before);

/* A word of memory. */
void record_word(Recording *recording, const void *place);
/* The type of the value at a step. */
void record_type(Recording *recording, Py_ssize_t step);
/* That nothing is assigned to a class, nor to those that it derives from; 0 where CPython cannot tell. */
int record_class(Recording *recording, PyTypeObject *type);
/* The instance dict of the value at a step, which is made if 3.11 has kept the attributes without one; NULL, without an
 * exception, if it has none. */
PyObject *record_instance(Recording *recording, Py_ssize_t step);
/* What is under a key of that dict, or of the dict that the value at a step is, `dict`. */
void record_attribute(Recording *recording, Py_ssize_t step, PyObject *key, PyObject *value);
void record_item(Recording *recording, Py_ssize_t step, PyObject *dict, PyObject *key, PyObject *value);
/* All keys of such a dict. */
void record_keys(Recording *recording, Py_ssize_t step, PyObject *dict);
/* The size of a list or tuple; gives where its items are. */
PyObject **record_items(Recording *recording, PyObject *sequence);
/* A constant, which is kept. */
void record_constant(Recording *recording, PyObject *value);

#endif
