/* Functions that a check_fn calls to read values without running user code. */
#ifndef TRACER_GUARD_CHECKS_H
#define TRACER_GUARD_CHECKS_H

#include "compat.h"

/* Whether no object stands there twice; -1, without an exception, if there is no memory. */
int all_distinct(PyObject *const *objects, Py_ssize_t count);

extern PyMethodDef guard_check_methods[];

#endif
