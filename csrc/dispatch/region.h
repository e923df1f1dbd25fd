/* Region: owns the entries of one decorated object, by code object and globals, and the callback asked on a miss. */
#ifndef TRACER_REGION_H
#define TRACER_REGION_H

#include "compat.h"
#include "dispatch/bucket.h"
#include "dispatch/entry.h"
#include "pointer_map.h"

struct Region {
    PyObject_HEAD
    PyObject *callback;
    PyObject *decide;   /* makes the Decision over several entries, called with their tuple; NULL: none is made */
    PointerMap records; /* code object -> CodeRecord */
    PyObject *agree;    /* NULL, or asked by agree(region, function, hit) whether a hit is to be one */
    PyObject *on_death; /* called when one of the code objects dies; made at the first */
    PyObject *weakrefs;
    Py_ssize_t offered; /* frames that the hook brought here */
    Py_ssize_t served;  /* those of them that ran from an entry */
};

extern PyTypeObject Region_Type;
#define Region_Check(object) Py_IS_TYPE((object), &Region_Type)

/* That of the compiler that holds now. Borrowed; NULL without an exception if there is none. */
Bucket *region_find_bucket(Region *region, PyCodeObject *code, PyObject *globals);
/* Borrowed; made if there is none. `compiler`: as in Bucket. NULL with an exception. */
Bucket *region_get_bucket(Region *region, PyCodeObject *code, PyObject *globals, PyObject *compiler);

/* Installs an entry, to be tried first where its compiler holds. `ready`: the decision over the entries is made before any call sees the new one. -1 with an
 * exception. */
int region_install(Region *region, PyCodeObject *code, PyObject *globals, Entry *entry, int ready);
/* Notes that the callback is never to be asked about this code again. -1 with an exception. */
int region_skip(Region *region, PyCodeObject *code);
int region_is_skipped(Region *region, PyCodeObject *code);

/* What the callback answers for "leave this code alone for good". */
extern PyObject *region_skip_sentinel;
int region_init(PyObject *module);

#endif
