/* Kinds: the numbers of steps, words and tests by name, for Python. */
#ifndef TRACER_KINDS_H
#define TRACER_KINDS_H

#include "compat.h"

/* Adds STEP, WORD and TEST. */
int kinds_init(PyObject *module);

#endif
