/* Checklist: a check_fn that reads and compares in C what most guards are about, and asks Python for the rest. */
#ifndef TRACER_CHECKLIST_H
#define TRACER_CHECKLIST_H

#include "compat.h"
#include "guards/counter.h"
#include "guards/feature.h"
#include "guards/steady_tests.h"

/* A feature of the values has to lie in an interval. */
typedef struct {
    Py_ssize_t feature;
    int64_t low, high;
} Range;

/* A value has to be this text, or a dict with these keys in this order. */
typedef struct {
    Py_ssize_t value;
    PyObject *expected; /* borrowed from the plan */
} Equal;

/* Guards that are not asked again while nothing has moved, and the tensors that they lead to. */
typedef struct {
    PyObject *steady, *match; /* borrowed from the plan; `match` may be NULL */
    Py_ssize_t root;          /* a slot; -1: none; below that, -2 for the first value that is read, and so on */
    Py_ssize_t first, count;  /* where its tensors stand among the values */
} SteadyGroup;

/* Indices of values. */
typedef struct {
    Py_ssize_t *items;
    Py_ssize_t count;
} Indices;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *plan;                      /* what all the borrowed references lie in */
    PyObject *state, *unchanged, *match; /* borrowed; may be NULL */
    const Counter *counter; /* borrowed, or NULL; while it stands at `count`, guards that only it may fail hold */
    long long count;
    PyObject *rest;  /* called with the slots: the guards that are not on the list; NULL: none */
    PyObject *whole; /* called with the slots: all guards */
    Step *steps;
    FeatureTable features;
    Range *ranges;
    Equal *equals;
    SteadyGroup *groups;
    Py_ssize_t step_count, value_count, range_count, equal_count, group_count, slot_count;
    Indices tensors, apart, fetched;
    Py_ssize_t known_apart; /* the group whose tensors are known to differ from each other, or -1; not in `apart` */
    int fetches, has_rest;
    PyObject *weakrefs;
} Checklist;

/* `values` has room for all of them; they are borrowed. */
Outcome checklist_holds(const Checklist *self, PyObject *const *slots, PyObject **values);

extern PyTypeObject Checklist_Type;
#define Checklist_Check(object) Py_IS_TYPE((object), &Checklist_Type)

enum { CHECKLIST_FEW_VALUES = 256 };

/* Which of its values the list hands out; NULL where a function has to be asked besides. */
const Indices *checklist_fetched(PyObject *checklist);
/* Room for its values: `few`, which has CHECKLIST_FEW_VALUES, or more, to be given back; NULL, without an exception. */
PyObject **checklist_take_room(PyObject *checklist, PyObject **few);
void checklist_give_back(PyObject **room, PyObject **few);
/* Whether it holds; then `values` are what it has read, borrowed. Leaves no exception. */
Outcome checklist_look(PyObject *checklist, PyObject *const *slots, PyObject **values);

#endif
