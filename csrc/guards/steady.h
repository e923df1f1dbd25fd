/* Steady: whether whatever a group of guards read on its way from some roots is what it was when they last held. */
#ifndef TRACER_STEADY_H
#define TRACER_STEADY_H

#include "guards/memo.h"
#include "guards/steady_tests.h"

/* What a step does with the value of the step before it on the path. tracer/guards/steady.py makes them. */
typedef enum {
    STEP_ROOT,        /* an argument of the call, by index */
    STEP_CONST,       /* an object that check_fn holds */
    STEP_ATTR,        /* as raw_attr() */
    STEP_NO_ATTR,     /* raw_attr() finds nothing */
    STEP_DICT,        /* as instance_dict() */
    STEP_ITEM,        /* of a dict, list or tuple */
    STEP_NO_ITEM,     /* a dict has no such key */
    STEP_WHOLE,       /* the length of a list; the keys of a dict, in order */
    STEP_EXACT,       /* nothing is read; the type is that of now */
    STEP_TYPE,        /* type(value) */
    STEP_TYPE_ITEM,   /* of a class, in its own namespace */
    STEP_TYPE_LOOKUP, /* of a class, along its MRO */
    STEP_NO_TYPE_LOOKUP,
    STEP_KEEP, /* a constant: a reference is held, so that no other object is ever found at its address */
    STEP_SLOT, /* a member of a function, cell, method, property or class, by `Slot` */
    STEP_COUNT,
} StepKind;

typedef enum {
    SLOT_CODE,
    SLOT_DEFAULTS,
    SLOT_KWDEFAULTS,
    SLOT_CLOSURE,
    SLOT_GLOBALS,
    SLOT_CELL_CONTENTS,
    SLOT_METHOD_SELF,
    SLOT_METHOD_FUNC,
    SLOT_PROPERTY_GETTER,
    SLOT_MRO,
} Slot;

typedef struct {
    PyObject *key; /* borrowed from the keys */
    int32_t base;  /* the step that it starts from */
    int32_t number;
    uint8_t kind;
} Step;

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
