/* Ranges with a label in a profile of torch's profiler. Where none is recording, a range is NULL and costs one question. */
#ifndef TRACER_PROFILED_H
#define TRACER_PROFILED_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { PROFILED_LOOKUP, PROFILED_RUN } ProfiledPart;
typedef struct ProfiledRange ProfiledRange;

/* `of`: the name of what the range is about, which goes behind the label; or NULL. An exception that is set stays set. */
ProfiledRange *profiled_begin(ProfiledPart part, PyObject *of);
void profiled_end(ProfiledRange *range);

int profiled_init(PyObject *module);

#ifdef __cplusplus
}
#endif

#endif
