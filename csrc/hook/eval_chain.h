/* Which function evaluates the frames of this process (PEP 523), and where ours stands among those that others install. */
#ifndef TRACER_EVAL_CHAIN_H
#define TRACER_EVAL_CHAIN_H

#include "compat.h"

/* Names our evaluation function, before anything else here is called. */
void eval_chain_init(_PyFrameEvalFunction ours);

/* A claim says that somebody needs our function: a thread with an active region, for one. Ours is installed while there is
 * any claim. Neither call fails. */
void eval_chain_acquire(void);
void eval_chain_release(void);

/* Removes our function if it is on top and nobody claims it: whoever was above it is gone and has put it back. */
void eval_chain_remove_unclaimed(PyInterpreterState *interpreter);

/* What our function calls for a frame that it leaves alone. */
_PyFrameEvalFunction eval_chain_next(void);

/* Whether frames go through somebody else's evaluation function too. */
int eval_chain_is_shared(PyInterpreterState *interpreter);

/* Between the two CPython evaluates all frames, as if no function were installed. eval_chain_step_aside() gives 0, and has done
 * nothing, where ours is not on top; else *next is what eval_chain_step_back() takes. */
int eval_chain_step_aside(PyInterpreterState *interpreter, _PyFrameEvalFunction *next);
void eval_chain_step_back(PyInterpreterState *interpreter, _PyFrameEvalFunction next);

/* Python: hook_count() */
PyObject *py_hook_count(PyObject *module, PyObject *unused);

#endif
