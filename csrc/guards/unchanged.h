/* Unchanged: whether classes and functions are as they were, by what CPython counts for itself. */
#ifndef TRACER_UNCHANGED_H
#define TRACER_UNCHANGED_H

#include "compat.h"

/* Whether no word of an Unchanged has moved; 0 says nothing. */
int unchanged_holds(PyObject *unchanged);

extern PyTypeObject Unchanged_Type;

#endif
