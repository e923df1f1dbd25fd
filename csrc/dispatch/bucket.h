/* Bucket: the entries of one code object under one globals, made by one compiler. */
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
    PyObject *compiler;       /* NULL: the region's own; or the one that was forced when its entries were made */
    uint64_t deaths;          /* `entry_counts.deaths` when these entries were looked through for invalid ones */
    const PyCodeObject *code; /* an address to compare with; not to be used while detached */
    struct Bucket *next;      /* strong: another globals or compiler of the same code */
    int detached;             /* no longer the region's: look it up anew */
} Bucket;

extern PyTypeObject Bucket_Type;

/* What all regions compile by now, in place of their own compilers: any object, compared by identity; NULL: nothing is forced.
 * Lookups see the entries that were made by it. Strong. */
extern PyObject *forced_compiler __attribute__((visibility("hidden")));

/* Python: force_compiler(object or None) -> the one before */
PyObject *py_force_compiler(PyObject *module, PyObject *compiler);

Bucket *bucket_new(PyCodeObject *code, PyObject *globals, PyObject *compiler);

/* Puts `entry` before the other valid entries; it may be one of them already. With `decide`, the Decision over them is made
 * before a lookup sees them; with NULL, by the next lookup that needs it. -1 with an exception. */
int bucket_publish(Bucket *bucket, Entry *entry, PyObject *decide);

/* Drops the entries that have become invalid; leaves them if memory is short. */
void bucket_tidy(Bucket *bucket);

/* A new reference to the Decision over `entries`, which are two or more that the bucket has or had. It is made by calling
 * `decide` with them. Where `decide` is NULL, fails, or is at work in another thread, the Decision given leaves them all.
 * NULL with an exception. */
PyObject *bucket_decision(Bucket *bucket, PyObject *entries, PyObject *decide);

#endif
