/* Other evaluation functions may live in the process (torch.compile's, a debugger's), installed before or after
 * ours, by any thread, in any order. The rules here:
 *   - ours goes on top of what is found, calls it, and on leaving puts it back, if ours is still on top;
 *   - what somebody put on top of ours is never removed. Once it is gone, ours finds itself called without a claim
 *     and removes itself then;
 *   - if ours goes on top a second time while it may also lie underneath, the evaluators form a ring. A frame that
 *     comes back to us while we wait for it is handed to CPython (frame_eval.c does that).
 * A single-phase extension lives in one interpreter, so one state serves. The GIL protects it. */
#include "hook/eval_chain.h"

static struct {
    _PyFrameEvalFunction ours;
    _PyFrameEvalFunction next;  /* what ours calls for a frame that it leaves alone */
    _PyFrameEvalFunction below; /* what was there when ours was first installed */
    Py_ssize_t claims;
    int linked; /* ours was installed and not taken out since: others may still call it */
} chain = {.next = _PyEval_EvalFrameDefault, .below = _PyEval_EvalFrameDefault};

void
eval_chain_init(_PyFrameEvalFunction ours)
{
    chain.ours = ours;
}

void
eval_chain_acquire(void)
{
    chain.claims++;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction found = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (found == chain.ours) {
        return;
    }
    chain.next = found;
    if (!chain.linked || found == _PyEval_EvalFrameDefault) { /* CPython's own calls nobody: ours is in no chain */
        chain.below = found;
        chain.linked = 1;
    }
    _PyInterpreterState_SetEvalFrameFunc(interpreter, chain.ours);
}

static int
is_unclaimed_on_top(PyInterpreterState *interpreter)
{
    return chain.claims == 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == chain.ours;
}

/* Ours is on top and nobody needs it. */
static void
replace_ours(PyInterpreterState *interpreter, _PyFrameEvalFunction instead)
{
    _PyInterpreterState_SetEvalFrameFunc(interpreter, instead);
    chain.linked = instead != chain.below;
    chain.next = chain.below;
}

void
eval_chain_release(void)
{
    chain.claims--;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (is_unclaimed_on_top(interpreter)) {
        replace_ours(interpreter, chain.next);
    }
}

void
eval_chain_remove_unclaimed(PyInterpreterState *interpreter)
{
    if (is_unclaimed_on_top(interpreter)) {
        replace_ours(interpreter, chain.below);
    }
}

_PyFrameEvalFunction
eval_chain_next(void)
{
    return chain.next;
}

int
eval_chain_is_shared(PyInterpreterState *interpreter)
{
    _PyFrameEvalFunction found = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    return (found == chain.ours ? chain.next : found) != _PyEval_EvalFrameDefault;
}

int
eval_chain_step_aside(PyInterpreterState *interpreter, _PyFrameEvalFunction *next)
{
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) != chain.ours) {
        return 0;
    }
    *next = chain.next;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
    return 1;
}

/* Whatever was installed meanwhile stays. */
void
eval_chain_step_back(PyInterpreterState *interpreter, _PyFrameEvalFunction next)
{
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault) {
        chain.next = next;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, chain.claims > 0 ? chain.ours : next);
    }
}

PyObject *
py_hook_count(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromSsize_t(chain.claims);
}
