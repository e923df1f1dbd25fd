/* What is known of a code object whatever the region: whether its frames may be traced, and whether what they call may. */
#ifndef TRACER_CODE_MARKS_H
#define TRACER_CODE_MARKS_H

#include "compat.h"

typedef enum {
    MARK_NONE,
    MARK_NEVER,              /* no region is ever asked about it */
    MARK_NEVER_WITH_CALLEES, /* nor about what its frames call */
} CodeMark;

CodeMark code_mark(PyCodeObject *code);

/* Marks code that no region is to be asked about, such as what this tracer has generated itself. -1 with an exception. */
int never_trace(PyCodeObject *code);

/* Frames of generators, coroutines, modules and class bodies are always run by CPython. */
static inline int
code_can_be_cached(PyCodeObject *code)
{
    const int whole = CO_OPTIMIZED | CO_NEWLOCALS;
    const int resumed = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    return (code->co_flags & (whole | resumed)) == whole;
}

int code_marks_init(void);

/* Python: never_trace(code, *, callees=False) */
PyObject *py_never_trace(PyObject *module, PyObject *args, PyObject *kwargs);

#endif
