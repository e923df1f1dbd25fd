/* What Python code cannot do to a function that is being made. */
#ifndef TRACER_ANNOTATIONS_H
#define TRACER_ANNOTATIONS_H

#include "compat.h"

/* Python: remember_annotations(function, annotations): as a function does that has been asked for its annotations. A store
 * to `__annotations__` also takes away the function that gives them (Python 3.14). */
PyObject *py_remember_annotations(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
