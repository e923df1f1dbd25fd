/* Unchanged: whether classes and functions are as they were, by what CPython counts for itself. */
#ifndef TRACER_UNCHANGED_H
#define TRACER_UNCHANGED_H

#include "compat.h"

extern PyTypeObject Unchanged_Type;

#endif
