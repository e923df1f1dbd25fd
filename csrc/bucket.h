/* Bucket: the entries of one code object under one globals. */
#ifndef TRACER_BUCKET_H
#define TRACER_BUCKET_H

#include "compat.h"
#include "entry.h"

/* `entries` is never changed, only replaced: a reader that holds the tuple
 * is safe whatever a check_fn lets other threads do meanwhile. */
typedef struct Bucket {
    PyObject_HEAD
    PyObject *entries; /* tuple of Entry, the last hit first */
    PyObject *globals;
    const PyCodeObject *code; /* an address to compare with; not to be used while detached */
    struct Bucket *next;      /* strong: another globals of the same code */
    int detached;             /* no longer the region's: look it up anew */
} Bucket;

extern PyTypeObject Bucket_Type;

Bucket *bucket_new(PyCodeObject *code, PyObject *globals);

/* Puts `front` before the valid entries (again, if it is one of them). -1 with an exception. */
int bucket_publish(Bucket *bucket, Entry *front);

/* After a hit at `index` of `seen`: that entry to the front, and what is invalid dropped. An optimisation: nothing
 * happens if the entries were replaced meanwhile. */
void bucket_tidy(Bucket *bucket, PyObject *seen, Py_ssize_t index);

#endif
