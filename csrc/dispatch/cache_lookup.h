/* From the arguments of a call to what runs: an entry that holds, one that the callback makes, or the original.
 * Of the entries that a Decision leaves, the last hit is tried first. */
#ifndef TRACER_CACHE_LOOKUP_H
#define TRACER_CACHE_LOOKUP_H

#include "compat.h"
#include "dispatch/entry.h"
#include "dispatch/region.h"
#include "hook/thread_context.h"

typedef enum {
    LOOKUP_FAILED = -1, /* an exception */
    LOOKUP_ORIGINAL,    /* CPython runs the original, with the region active */
    LOOKUP_ENTRY,       /* *entry is set, a new reference; it has code */
} LookupResult;

/* `bucket` is that of the site's code and globals if the caller knows it, else NULL. check_fn and the callback run
 * with no region active on this thread. */
LookupResult cache_lookup(ThreadContext *context, CallSite *site, Bucket *bucket, Entry **entry);

/* The search alone: CHECK_HIT sets *entry, a new reference, which may have no code; nobody is asked about a miss. */
CheckResult cache_find(ThreadContext *context, CallSite *site, Bucket *bucket, Entry **entry);

/* Runs the code of an entry, with the region active if the entry needs the hook, and none if not. */
PyObject *run_entry(ThreadContext *context, const CallSite *site, Entry *entry, int keep);

#endif
