/* The argument slots of a function: read from a frame that has not started, or bound from the arguments of a call. */
#ifndef TRACER_CALL_SITE_H
#define TRACER_CALL_SITE_H

#include "compat.h"
#include "hook/thread_context.h"

#define CALL_SITE_INLINE_SLOTS 16

/* One call of `function` under `region`. Slots stand in the order of localsplus: positional, keyword-only, *args,
 * **kwargs. Behind them, if the code has free variables, the closure tuple for check_fn. Slots are borrowed from the
 * frame or the caller, or owned where binding has put them together: a check_fn may let another thread replace the
 * function's code or defaults. The struct must not move: slots may point into it. */
typedef struct {
    Region *region;
    PyFunctionObject *function;
    PyCodeObject *code; /* strong: the function's code when it was called */
    PyObject *const *slots;
    Py_ssize_t argument_count;
    Py_ssize_t check_count;  /* argument_count, and one more if there is a closure */
    Py_ssize_t owned;        /* how many slots, from the first, are strong references */
    PyObject *fetched;       /* NULL, or what the check_fn that holds has handed out; strong */
    PyObject *argument_list; /* borrowed: NULL, or the list that the slots are the items of, to be emptied */
    PyObject **heap;         /* NULL, or the slots if they do not fit inline */
    PyObject *searched[2];   /* strong: what the entry was found in, so that nothing dies between finding and running it */
    PyObject **inputs;       /* NULL, or what the graph is to be called with, borrowed; there is room for one before them */
    PyObject *inline_slots[CALL_SITE_INLINE_SLOTS];
    PyObject *inline_inputs[CALL_SITE_INLINE_SLOTS];
} CallSite;

static inline Py_ssize_t
code_slot_count(PyCodeObject *code)
{
    return (Py_ssize_t)code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0)
           + ((code->co_flags & CO_VARKEYWORDS) != 0);
}

/* 1: filled, to be cleared with call_site_clear(). 0: not possible, nothing to clear, no exception: CPython itself
 * must make this call (it raises the right TypeError, for one). -1: an exception. */
int call_site_from_frame(CallSite *site, Region *region, Frame *frame);
int call_site_from_call(CallSite *site, Region *region, PyFunctionObject *function, PyObject *const *arguments,
                        Py_ssize_t positional, PyObject *keyword_names);
void call_site_clear(CallSite *site);

/* Makes room for this many inputs of a graph, site->inputs; NULL with MemoryError. */
PyObject **call_site_reserve_inputs(CallSite *site, Py_ssize_t count);
/* Drops what a check_fn has handed out and the inputs of a graph. */
void call_site_drop_found(CallSite *site);

#endif
