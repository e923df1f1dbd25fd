#include "dispatch/latencies.h"

#include <math.h>
#include <time.h>

uint64_t
latencies_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The whole part of the logarithm says the doubling, the two bits below the highest one say the part of it. */
static int
range_of(uint64_t nanoseconds)
{
    if (nanoseconds < (UINT64_C(1) << LATENCY_SHORTEST)) {
        return 0;
    }
    int doubling = 63 - __builtin_clzll(nanoseconds);
    if (doubling >= LATENCY_LONGEST) {
        return LATENCY_COUNT - 1;
    }
    int part = (int)((nanoseconds >> (doubling - 2)) & (LATENCY_PARTS - 1));
    return (doubling - LATENCY_SHORTEST) * LATENCY_PARTS + part;
}

static double
upper_bound(int range)
{
    int doubling = LATENCY_SHORTEST + range / LATENCY_PARTS, part = range % LATENCY_PARTS;
    return range == LATENCY_COUNT - 1 ? Py_HUGE_VAL : 1e-9 * ldexp(1.0 + (part + 1.0) / LATENCY_PARTS, doubling);
}

void
latencies_note(Latencies *latencies, uint64_t start)
{
    uint64_t taken = latencies_now() - start;
    latencies->counts[range_of(taken)]++;
    latencies->nanoseconds += taken;
}

PyObject *
latencies_told(const Latencies *latencies)
{
    PyObject *ranges = PyList_New(0);
    for (int range = 0; ranges != NULL && range < LATENCY_COUNT; range++) {
        if (latencies->counts[range] == 0) {
            continue;
        }
        PyObject *pair = Py_BuildValue("dK", upper_bound(range), (unsigned long long)latencies->counts[range]);
        if (pair == NULL || PyList_Append(ranges, pair) < 0) {
            Py_CLEAR(ranges);
        }
        Py_XDECREF(pair);
    }
    PyObject *told = NULL;
    if (ranges != NULL) {
        PyObject *fixed = PyList_AsTuple(ranges);
        told = fixed == NULL ? NULL : Py_BuildValue("dN", 1e-9 * (double)latencies->nanoseconds, fixed);
        Py_DECREF(ranges);
    }
    return told;
}
