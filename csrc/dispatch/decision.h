/* Decision: which of many entries may hold for the arguments of a call, told by a few words read of them. */
#ifndef TRACER_DECISION_H
#define TRACER_DECISION_H

#include "compat.h"

extern PyTypeObject Decision_Type;
#define Decision_Check(object) Py_IS_TYPE((object), &Decision_Type)

/* The tuple that it was made for, borrowed. */
PyObject *decision_entries(PyObject *decision);

/* Indices into the entries that it was made for: all of them that may hold, in their order. Runs no user code. */
const Py_ssize_t *decision_candidates(PyObject *decision, PyObject *const *slots, Py_ssize_t slot_count, Py_ssize_t *count);

#endif
