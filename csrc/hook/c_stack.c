/* The system is asked for the bounds of a thread's stack once per thread, for that takes long. Until then the limits are above
 * every address, so that the first check of a thread comes here. Where the system does not say, nothing is limited. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getattr_np */
#endif

#include "hook/c_stack.h"

#include <pthread.h>

_Thread_local CStackLimits c_stack_limits = {(const char *)UINTPTR_MAX, (const char *)UINTPTR_MAX};

/* The lowest address and the size of this thread's stack; size 0 if the system does not say. */
static void
stack_bounds(const char **lowest, size_t *size)
{
    *lowest = NULL;
    *size = 0;
#if defined(__linux__)
    pthread_attr_t attributes;
    void *address;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &address, size) == 0) {
            *lowest = address;
        }
        pthread_attr_destroy(&attributes);
    }
#elif defined(__APPLE__)
    *size = pthread_get_stacksize_np(pthread_self());
    *lowest = (const char *)pthread_get_stackaddr_np(pthread_self()) - *size;
#endif
}

static void
find_limits(void)
{
    if (c_stack_limits.low == (const char *)UINTPTR_MAX) {
        const size_t megabyte = 1 << 20;
        const char *lowest;
        size_t size;
        stack_bounds(&lowest, &size);
        c_stack_limits.low = lowest + Py_MIN(size / 3, 2 * megabyte);
        c_stack_limits.exhausted = lowest + Py_MIN(size / 6, megabyte);
    }
}

int
c_stack_is_low_here(const char *here)
{
    find_limits();
    return here < c_stack_limits.low;
}

int
c_stack_check_here(const char *here)
{
    find_limits();
    if (here < c_stack_limits.exhausted) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up by nested "
                                              "calls of traced functions");
        return -1;
    }
    return 0;
}
