/* Value: the base of objects that are compared by what they hold. */
#ifndef TRACER_VALUE_H
#define TRACER_VALUE_H

#include "compat.h"

extern PyTypeObject Value_Type;

#endif
