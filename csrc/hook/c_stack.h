/* How much C stack this thread has left. While a frame hook is installed, CPython spends C stack on each Python call
 * (it stops inlining them), so that a program that recurses deeply, and may, would crash. */
#ifndef TRACER_C_STACK_H
#define TRACER_C_STACK_H

#include "compat.h"

typedef struct {
    const char *low;       /* below this address: hook no more frames */
    const char *exhausted; /* below this address: RecursionError */
} CStackLimits;

/* Those of this thread; before they are asked for, every address is below them. */
extern _Thread_local CStackLimits c_stack_limits __attribute__((visibility("hidden")));

/* What to do below a limit: asks for the limits, if that was not done yet. */
int c_stack_is_low_here(const char *here);
int c_stack_check_here(const char *here);

static inline int
c_stack_is_low(void)
{
    const char *here = (const char *)__builtin_frame_address(0);
    return here < c_stack_limits.low && c_stack_is_low_here(here);
}

/* 3.12 and 3.13 also count nested evaluations of frames, and let far fewer of them be nested than Python calls. 3.14 looks at the C
 * stack itself, and at less of it than is low here. */
static inline int
c_calls_are_low(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030E0000
    (void)thread;
    return 0;
#elif PY_VERSION_HEX >= 0x030D0000
    return thread->c_recursion_remaining < Py_C_RECURSION_LIMIT / 2;
#elif PY_VERSION_HEX >= 0x030C0000
    return thread->c_recursion_remaining < C_RECURSION_LIMIT / 2;
#else
    (void)thread;
    return 0;
#endif
}

/* 0, or -1 with RecursionError. */
static inline int
c_stack_check(void)
{
    const char *here = (const char *)__builtin_frame_address(0);
    return here < c_stack_limits.exhausted ? c_stack_check_here(here) : 0;
}

/* The same for a frame that CPython evaluates at once. The evaluation of 3.14 checks the C stack itself, and later. */
static inline int
c_stack_check_of_evaluation(void)
{
#if PY_VERSION_HEX >= 0x030E0000
    return 0;
#else
    return c_stack_check();
#endif
}

#endif
