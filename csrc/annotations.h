/* What Python code cannot do to a function that is being made. */
#ifndef TRACER_ANNOTATIONS_H
#define TRACER_ANNOTATIONS_H

#include "compat.h"

/* Python: remember_annotations(function, annotations): as a function does that has been asked for its annotations. A store
 * to `__annotations__` also takes away the function that gives them (Python 3.14). */
PyObject *py_remember_annotations(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* Python: known_annotations(function) -> the dict, or the tuple of names and values, that it holds. None if it has no
 * annotations, or was not asked for them yet (Python 3.14): reading them runs no code of the program. */
PyObject *py_known_annotations(PyObject *module, PyObject *function);

#endif
