/* Entry: a check function and the code to run in place of the original when it holds. */
#ifndef TRACER_ENTRY_H
#define TRACER_ENTRY_H

#include "compat.h"
#include "dispatch/call_site.h"
#include "dispatch/graph_call.h"
#include "dispatch/latencies.h"
#include "hook/thread_context.h"

typedef struct {
    PyObject_HEAD
    PyObject *check_fn;
    PyCodeObject *code; /* NULL: run the original */
    PyObject *globals;
    PyObject *extras; /* tuple of cells, after the calling function's own */
    PyObject *name;
    PyObject *qualname;
    PyObject *function; /* NULL, or made of `code` for the closure below */
    PyObject *closure;  /* the calling function's closure that `function` was made for; NULL if it has none */
    GraphCall direct;   /* what the code comes down to, if that is a call of the graph */
    PyObject *extra;
    PyObject *compiler; /* NULL: the region's own; or the one that was forced when it was made: it serves only under that */
    PyObject *dict;
    PyObject *weakrefs;
    Py_ssize_t hits;
    Latencies *latencies; /* NULL unless its runs are timed */
    uint64_t stamp;       /* when it was installed or held last, of a clock that all entries share */
    char needs_hook;
    char fetches; /* check_fn hands out a tuple, which the code takes after its arguments */
    char valid;
} Entry;

extern PyTypeObject Entry_Type;
#define Entry_Check(object) Py_IS_TYPE((object), &Entry_Type)

typedef enum {
    CHECK_ERROR = -1, /* an exception that is not the guard's to keep */
    CHECK_MISS = 0,
    CHECK_HIT = 1,
    CHECK_EXHAUSTED = 2, /* stack or memory ran out in the guard: that says nothing about the entry */
} CheckResult;

typedef struct {
    uint64_t clock;  /* goes on with each entry that is installed or hit */
    uint64_t deaths; /* how often an entry was made invalid */
} EntryCounts;

extern EntryCounts entry_counts; /* of all entries of the process */

/* Notes that the entry was installed or has held just now: it is tried before all others. */
void entry_stamp(Entry *entry);

/* A hit sets site->fetched where the entry fetches. */
CheckResult entry_check(Entry *entry, CallSite *site);

/* Runs the entry's code, which it has, on the arguments of the site. `keep`: the calling function lives as long as
 * the region, so that a function made for its closure may be kept. */
PyObject *entry_run(ThreadContext *context, Entry *entry, const CallSite *site, int keep);

#endif
