/* SteadyCall: a callable that hands its calls on in C as long as nothing has moved that decides where to. */
#ifndef TRACER_STEADY_CALL_H
#define TRACER_STEADY_CALL_H

#include "compat.h"

extern PyTypeObject SteadyCall_Type;

#endif
