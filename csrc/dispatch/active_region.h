/* Which region is active on this thread, as Python asks and says it. */
#ifndef TRACER_ACTIVE_REGION_H
#define TRACER_ACTIVE_REGION_H

#include "compat.h"

/* Python: swap_active(region_or_None), active_region() */
PyObject *py_swap_active(PyObject *module, PyObject *region);
PyObject *py_active_region(PyObject *module, PyObject *unused);

#endif
