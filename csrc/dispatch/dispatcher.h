/* Dispatcher: the decorated function itself, a C callable that finds an entry on the argument vector of its call. */
#ifndef TRACER_DISPATCHER_H
#define TRACER_DISPATCHER_H

#include "compat.h"

extern PyTypeObject Dispatcher_Type;

#endif
