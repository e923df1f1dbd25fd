/* How much C stack this thread has left. While a frame hook is installed, CPython spends C stack on each Python call
 * (it stops inlining them), so that a program that recurses deeply, and may, would crash. */
#ifndef TRACER_C_STACK_H
#define TRACER_C_STACK_H

#include "compat.h"

typedef struct {
    const char *low;       /* below this address: hook no more frames */
    const char *exhausted; /* below this address: RecursionError */
} CStackLimits;

const CStackLimits *c_stack_limits(void);

static inline int
c_stack_is_low(void)
{
    return (const char *)__builtin_frame_address(0) < c_stack_limits()->low;
}

/* 0, or -1 with RecursionError. */
int c_stack_check(void);

#endif
