/* Looking up texts, numbers, bytes and None in dicts. A dict asks a key of the program's for equality if it has the same hash as
 * the one that is looked for. */
#ifndef TRACER_PLAIN_KEYS_H
#define TRACER_PLAIN_KEYS_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

/* The value of a key, borrowed, or NULL; *known says whether that can be told without running user code. */
PyObject *find_plain_key(PyObject *dict, PyObject *key, int *known);

#endif
