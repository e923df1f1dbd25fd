/* Other evaluation functions may live in the process (torch.compile's, a debugger's), installed before or after
 * ours, by any thread, in any order. The rules here:
 *   - ours goes on top of what is found, calls it, and on leaving puts it back, if ours is still on top;
 *   - what somebody put on top of ours is never removed. Once it is gone, ours finds itself called without a claim
 *     and removes itself then;
 *   - if ours goes on top a second time while it may also lie underneath, the evaluators form a ring. A frame that
 *     comes back to us while we wait for it is handed to CPython.
 * A single-phase extension lives in one interpreter, so one state serves. */
#include "hook/frame_eval.h"

#include "hook/c_stack.h"
#include "dispatch/cache_lookup.h"
#include "dispatch/region.h"
#include "hook/thread_context.h"

static struct {
    Py_ssize_t claims;          /* threads with an active region */
    _PyFrameEvalFunction next;  /* what ours calls for a frame that it leaves alone */
    _PyFrameEvalFunction below; /* what was there when ours was first installed */
    int linked;                 /* ours was installed and not taken out since: others may still call it */
    Py_ssize_t never_trace_index;
} hook = {.next = _PyEval_EvalFrameDefault, .below = _PyEval_EvalFrameDefault};

static _Thread_local Frame *handed_over = NULL; /* the innermost frame of this thread that hook.next works on */

static PyObject *hook_evaluate(PyThreadState *thread, Frame *frame, int throwflag);

void
frame_eval_acquire(void)
{
    hook.claims++;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction found = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (found == hook_evaluate) {
        return;
    }
    hook.next = found;
    if (!hook.linked || found == _PyEval_EvalFrameDefault) { /* CPython's own calls nobody: ours is in no chain */
        hook.below = found;
        hook.linked = 1;
    }
    _PyInterpreterState_SetEvalFrameFunc(interpreter, hook_evaluate);
}

/* Ours is on top and nobody needs it. */
static void
take_out(PyInterpreterState *interpreter, _PyFrameEvalFunction instead)
{
    _PyInterpreterState_SetEvalFrameFunc(interpreter, instead);
    hook.linked = instead != hook.below;
    hook.next = hook.below;
}

void
frame_eval_release(void)
{
    hook.claims--;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (hook.claims == 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == hook_evaluate) {
        take_out(interpreter, hook.next);
    }
}

int
frame_eval_is_shared(const ThreadContext *context)
{
    _PyFrameEvalFunction found = _PyInterpreterState_GetEvalFrameFunc(context->thread->interp);
    return (found == hook_evaluate ? hook.next : found) != _PyEval_EvalFrameDefault;
}

void
frame_eval_begin_quiet(ThreadContext *context)
{
    context->quiet++;
    frame_eval_acquire();
}

void
frame_eval_end_quiet(ThreadContext *context)
{
    context->quiet--;
    frame_eval_release();
}

/* Somebody who had been on top of ours is gone and has put ours back. */
static void
take_out_if_forgotten(PyInterpreterState *interpreter)
{
    if (hook.claims == 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == hook_evaluate) {
        take_out(interpreter, hook.below);
    }
}

static int
is_quiet(PyThreadState *thread)
{
    ThreadContext *context = thread_context_peek(thread);
    return context != NULL && context->quiet > 0;
}

static PyObject *
evaluate_below(PyThreadState *thread, Frame *frame, int throwflag)
{
    _PyFrameEvalFunction next = hook.next;
    if (next == _PyEval_EvalFrameDefault || is_quiet(thread)) {
        return _PyEval_EvalFrameDefault(thread, frame, throwflag);
    }
    Frame *outer = handed_over;
    handed_over = frame;
    PyObject *result = next(thread, frame, throwflag);
    handed_over = outer;
    return result;
}

/* With little C stack left, ours steps aside while this frame runs: CPython inlines the calls below it again. Frames of
 * other threads are not offered meanwhile; they run as they are. */
static PyObject *
evaluate_deep(PyThreadState *thread, Frame *frame, int throwflag)
{
    if (code_can_be_cached(frame_code(frame)) && c_stack_check() < 0) { /* a generator must be resumed once begun */
        frame_leave_unevaluated(thread, frame);
        return NULL;
    }
    PyInterpreterState *interpreter = thread->interp;
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) != hook_evaluate) {
        return evaluate_below(thread, frame, throwflag);
    }
    _PyFrameEvalFunction next = hook.next;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, throwflag);
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault) {
        hook.next = next;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, hook.claims > 0 ? hook_evaluate : next);
    }
    return result;
}

/* What is known of code, whatever the region: whether it may be traced, and whether what it calls may. */
typedef enum { MARK_NONE, MARK_NEVER, MARK_NEVER_WITH_CALLEES } Mark;

static Mark
mark_of(PyCodeObject *code)
{
    void *mark = NULL;
    return code_extra_get(code, hook.never_trace_index, &mark) < 0 ? MARK_NONE : (Mark)(intptr_t)mark;
}

/* Runs the frame itself, whose code has this mark. */
static PyObject *
evaluate_original(ThreadContext *context, PyThreadState *thread, Frame *frame, Mark mark)
{
    if (mark != MARK_NEVER_WITH_CALLEES) {
        return evaluate_below(thread, frame, 0);
    }
    Region *muted = thread_context_mute(context);
    PyObject *result = evaluate_below(thread, frame, 0);
    thread_context_unmute(context, muted);
    return result;
}

/* Runs what the region has for this frame, or the frame itself. */
static PyObject *
offer(ThreadContext *context, PyThreadState *thread, Frame *frame)
{
    CallSite site;
    int readable = call_site_from_frame(&site, context->active, frame);
    if (readable <= 0) {
        return readable < 0 ? NULL : evaluate_below(thread, frame, 0);
    }
    site.region->offered++;
    PyObject *result = NULL;
    Entry *entry = NULL;
    switch (cache_lookup(context, &site, NULL, &entry)) {
    case LOOKUP_ORIGINAL:
        call_site_clear(&site);
        return evaluate_original(context, thread, frame, mark_of(frame_code(frame))); /* the callback may have set it */
    case LOOKUP_ENTRY:
        site.region->served++;
        result = run_entry(context, &site, entry, 0);
        Py_DECREF(entry);
        break;
    case LOOKUP_FAILED:
        break;
    }
    call_site_clear(&site);
    frame_leave_unevaluated(thread, frame);
    return result;
}

static PyObject *
hook_evaluate(PyThreadState *thread, Frame *frame, int throwflag)
{
    if (handed_over == frame) {
        return _PyEval_EvalFrameDefault(thread, frame, throwflag);
    }
    if (c_stack_is_low()) {
        return evaluate_deep(thread, frame, throwflag);
    }
    ThreadContext *context = thread_context_peek(thread);
    if (context == NULL || context->active == NULL) {
        take_out_if_forgotten(thread->interp);
        return evaluate_below(thread, frame, throwflag);
    }
    PyCodeObject *code = frame_code(frame);
    if (throwflag || context->stance == STANCE_DISABLED || !code_can_be_cached(code) || frame_locals_mapping(frame) != NULL
        || !frame_is_new(frame) || thread_in_trace_function(thread)) {
        return evaluate_below(thread, frame, throwflag);
    }
    Mark mark = mark_of(code);
    if (mark != MARK_NONE) {
        return evaluate_original(context, thread, frame, mark);
    }
    if (context->passing == frame_function(frame)) {
        context->passing = NULL;
        if (thread_context_let_go(context) < 0) {
            frame_leave_unevaluated(thread, frame);
            return NULL;
        }
        return evaluate_below(thread, frame, throwflag);
    }
    return offer(context, thread, frame);
}

static int
set_mark(PyCodeObject *code, Mark mark)
{
    return code_extra_set(code, hook.never_trace_index, (void *)(intptr_t)mark); /* no reference */
}

int
never_trace(PyCodeObject *code)
{
    return set_mark(code, MARK_NEVER);
}

PyObject *
py_never_trace(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"", "callees", NULL};
    PyObject *code;
    int callees = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$p:never_trace", keywords, &PyCode_Type, &code, &callees)) {
        return NULL;
    }
    return set_mark((PyCodeObject *)code, callees ? MARK_NEVER_WITH_CALLEES : MARK_NEVER) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *
py_hook_count(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyLong_FromSsize_t(hook.claims);
}

int
frame_eval_init(PyObject *Py_UNUSED(module))
{
    hook.never_trace_index = code_extra_request(NULL);
    if (hook.never_trace_index < 0) {
        PyErr_SetString(PyExc_ImportError, "tracer._C: no co_extra index is left in this process");
        return -1;
    }
    return 0;
}
