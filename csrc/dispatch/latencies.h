/* Latencies: how long the runs of an entry took, as counts by ranges of time. An entry has them only where somebody asked. */
#ifndef TRACER_LATENCIES_H
#define TRACER_LATENCIES_H

#include "compat.h"

/* Four ranges for each doubling, the upper bound of each 14 to 25 % above the lower one. 2^10 ns are 1 us, 2^38 ns 275 s. */
#define LATENCY_PARTS 4
#define LATENCY_SHORTEST 10
#define LATENCY_LONGEST 38
#define LATENCY_COUNT ((LATENCY_LONGEST - LATENCY_SHORTEST) * LATENCY_PARTS + 1)

typedef struct {
    uint64_t counts[LATENCY_COUNT]; /* the first also has what is shorter, the last what is longer */
    uint64_t nanoseconds;           /* the sum */
} Latencies;

/* Nanoseconds of a clock that never goes back. */
uint64_t latencies_now(void);

/* Counts a run that began at `start`. */
void latencies_note(Latencies *latencies, uint64_t start);

/* (sum in seconds, ((upper bound in seconds, count), ...)), of ranges that have any: a new reference. */
PyObject *latencies_told(const Latencies *latencies);

#endif
