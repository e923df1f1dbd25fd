/* Functions that a check_fn calls to read values without running user code. */
#ifndef TRACER_GUARD_CHECKS_H
#define TRACER_GUARD_CHECKS_H

#include "compat.h"

extern PyMethodDef guard_check_methods[];

#endif
