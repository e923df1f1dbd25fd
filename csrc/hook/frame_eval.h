/* The frame evaluation function (PEP 523): offers frames of a thread with an active region to that region. */
#ifndef TRACER_FRAME_EVAL_H
#define TRACER_FRAME_EVAL_H

#include "compat.h"
#include "hook/thread_context.h"

int frame_eval_init(PyObject *module);

/* Each claim is one thread with an active region; the function is installed while there is any. Never fails. */
void frame_eval_acquire(void);
void frame_eval_release(void);

/* Whether frames go through somebody else's evaluation function too. Between begin and end, ours hands the frames of this
 * thread to CPython instead: torch.compile would trace the tracer, and what the tracer has made. */
int frame_eval_is_shared(const ThreadContext *context);
void frame_eval_begin_quiet(ThreadContext *context);
void frame_eval_end_quiet(ThreadContext *context);

/* Code that no region is ever asked about: what this tracer has generated itself. */
int never_trace(PyCodeObject *code); /* -1 with an exception */

/* Generator, coroutine, module and class body frames are CPython's alone. */
static inline int
code_can_be_cached(PyCodeObject *code)
{
    const int whole = CO_OPTIMIZED | CO_NEWLOCALS;
    const int resumed = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    return (code->co_flags & (whole | resumed)) == whole;
}

/* Python: never_trace(code, *, callees=False), hook_count() */
PyObject *py_never_trace(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *py_hook_count(PyObject *module, PyObject *unused);

#endif
