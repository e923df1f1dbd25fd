/* Bucket: the entries of one code object under one globals. */
#ifndef TRACER_BUCKET_H
#define TRACER_BUCKET_H

#include "compat.h"
#include "dispatch/entry.h"

/* `entries` and `decision` are never changed, only replaced: a reader that holds them
 * is safe whatever a check_fn lets other threads do meanwhile. */
typedef struct Bucket {
    PyObject_HEAD
    PyObject *entries;  /* tuple of Entry; the order in which they are tried is that of their stamps */
    PyObject *decision; /* a Decision over these entries, or NULL: none was made yet */
    PyObject *deciding; /* borrowed: entries for which a thread is making one, to be compared with */
    PyObject *globals;
    uint64_t deaths;          /* `entry_deaths` when these entries were looked through for invalid ones */
    const PyCodeObject *code; /* an address to compare with; not to be used while detached */
    struct Bucket *next;      /* strong: another globals of the same code */
    int detached;             /* no longer the region's: look it up anew */
} Bucket;

extern PyTypeObject Bucket_Type;

Bucket *bucket_new(PyCodeObject *code, PyObject *globals);

/* Puts `entry` before the valid ones (again, if it is one of them). With `decide`, the Decision over them is made before they are
 * put in place; with NULL, by the next who asks. -1 with an exception. */
int bucket_publish(Bucket *bucket, Entry *entry, PyObject *decide);

/* Drops what has become invalid; does without if memory is short. */
void bucket_tidy(Bucket *bucket);

/* The Decision over `entries`, several, which the bucket has or had: a new reference. `decide`, called with them, makes it; where
 * that is NULL, or fails, or a thread is at it, they are not told apart. NULL with an exception. */
PyObject *bucket_decision(Bucket *bucket, PyObject *entries, PyObject *decide);

#endif
