/* Steady: whether whatever a group of guards read on its way from some roots is what it was when they last held. */
#ifndef TRACER_STEADY_H
#define TRACER_STEADY_H

#include "guards/memo.h"
#include "guards/reading.h"
#include "guards/steady_tests.h"

/* The ways from the roots, and what is demanded of the values there. */
typedef struct {
    Py_ssize_t root_count, step_count, held_count, test_count;
    Step *steps;
    Py_ssize_t *held; /* steps */
    Test *tests;      /* NULL: what is demanded is not known here */
    int apart;        /* no object may be held twice */
} Plan;

/* How the values at the steps are now; NULL, without an exception, where that cannot be told by words alone, and where a test
 * fails. `outcome` is that of the tests; where it is NULL, they are left out. */
Memo *memo_record(const Plan *plan, PyObject *const *roots, Outcome *outcome);

/* Of a Steady: the values that it holds, borrowed, if nothing has moved since its guards held; NULL, without an exception, if
 * that is not known. `roots` are as many as steady_root_count(). Runs no user code. */
PyObject *const *steady_held(PyObject *steady, PyObject *const *roots);
/* Whether the guards hold, asked anew; if they do, steady_held() gives values again. Leaves no exception. Runs no user code. */
Outcome steady_ask(PyObject *steady, PyObject *const *roots);
Py_ssize_t steady_held_count(PyObject *steady);
Py_ssize_t steady_root_count(PyObject *steady);

extern PyTypeObject Steady_Type;

#endif
