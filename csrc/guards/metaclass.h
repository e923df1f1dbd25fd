/* What Python code cannot do to a class that is being made. */
#ifndef TRACER_METACLASS_H
#define TRACER_METACLASS_H

#include "compat.h"

/* Python: drop_metaclass(cls): the metaclass of a class becomes the base of its present one, which must add nothing to
 * its instances. As an assignment to __class__ does, which CPython refuses where the base is `type`. */
PyObject *py_drop_metaclass(PyObject *module, PyObject *cls);

#endif
