/* Whether a profiler of torch may be recording: a flag in the namespace of the module in Python that starts it. A call looks at one
 * word, the version of that dict, and asks torch itself only if the flag is set. */
#ifndef TRACER_PROFILER_FLAG_H
#define TRACER_PROFILER_FLAG_H

#include "compat.h"

typedef struct {
    PyObject *namespace_, *name; /* NULL: no flag is known, and torch is always asked */
    const uint64_t *version;     /* of the namespace */
    uint64_t at_rest;            /* what it was when the flag was last seen to be off */
} ProfilerFlag;

extern ProfilerFlag profiler_flag __attribute__((visibility("hidden")));

/* Looks at the flag itself. An exception that is set stays set. */
int profiler_flag_is_set(void);

static inline int
profiler_may_record(void)
{
    return (profiler_flag.version == NULL || *profiler_flag.version != profiler_flag.at_rest) && profiler_flag_is_set();
}

/* Python: watch_profiler_flag(namespace, name) */
PyObject *py_watch_profiler_flag(PyObject *module, PyObject *args);

#endif
