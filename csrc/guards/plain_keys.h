/* Looks up a key in a dict without running user code. Plain keys are str, bytes, int, bool, float and None, of exactly these
 * types. A dict of the program may also hold other keys; it calls __eq__ of one that has the same hash as the key that is
 * looked for. Used by the reader of paths (reading.c), by steady groups (steady.c) and for `key in dict` (guard_checks.c). */
#ifndef TRACER_PLAIN_KEYS_H
#define TRACER_PLAIN_KEYS_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

/* The value of `key` in `dict`, borrowed, or NULL where the dict does not have it. *known is 0, and the result NULL, where the
 * key is not plain, or where telling could run user code. Never leaves an exception set. Fast for a str among str keys;
 * otherwise it reads all keys. */
PyObject *find_plain_key(PyObject *dict, PyObject *key, int *known);

#endif
