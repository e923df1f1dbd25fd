/* Counter: how often something has happened in this process, which C reads in one step. */
#ifndef TRACER_COUNTER_H
#define TRACER_COUNTER_H

#include "compat.h"

typedef struct {
    PyObject_HEAD
    long long count;
} Counter;

extern PyTypeObject Counter_Type;

#endif
