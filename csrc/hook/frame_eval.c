/* Decides what becomes of each frame that CPython begins while our evaluation function is installed. In this order:
 *   - a frame that comes back to us while we wait for it is run by CPython (eval_chain.c says how that happens);
 *   - with little C stack left, our function steps aside;
 *   - a frame is left alone if its thread has no active region, if it has begun already, if it is no plain function's, or if
 *     its code is marked;
 *   - the frame of the function that a dispatcher is running uncached is left alone, once;
 *   - any other is offered to who serves the active region. That is told by a pointer: the hook knows nothing of regions.
 * Leaving alone means calling the next evaluation function, which is CPython's own unless others live in the process. */
#include "hook/frame_eval.h"

#include "hook/c_stack.h"
#include "hook/code_marks.h"
#include "hook/eval_chain.h"

static struct {
    FrameServer serve;
} hook;

/* The innermost frame of this thread that the next evaluation function works on for us. */
static _Thread_local Frame *awaited = NULL;

static PyObject *
evaluate_below(PyThreadState *thread, Frame *frame, int throwflag)
{
    _PyFrameEvalFunction next = eval_chain_next();
    if (next == _PyEval_EvalFrameDefault || thread_context_is_quiet(thread)) {
        return _PyEval_EvalFrameDefault(thread, frame, throwflag);
    }
    Frame *outer = awaited;
    awaited = frame;
    PyObject *result = next(thread, frame, throwflag);
    awaited = outer;
    return result;
}

/* With little C stack left, ours steps aside while this frame runs: CPython inlines the calls below it again. Frames of
 * other threads are not offered meanwhile; they run as they are. */
static PyObject *
evaluate_deep(PyThreadState *thread, Frame *frame, int throwflag)
{
    PyCodeObject *code = frame_code(frame);
    if (code_can_be_cached(code) && frame_can_be_left(code)
        && c_stack_check_of_evaluation() < 0) { /* a generator must be resumed once begun */
        frame_leave_unevaluated(thread, frame);
        return NULL;
    }
    _PyFrameEvalFunction next;
    if (!eval_chain_step_aside(thread->interp, &next)) {
        return evaluate_below(thread, frame, throwflag);
    }
    PyObject *result = _PyEval_EvalFrameDefault(thread, frame, throwflag);
    eval_chain_step_back(thread->interp, next);
    return result;
}

/* Runs the frame itself, whose code has this mark. */
static PyObject *
evaluate_marked(ThreadContext *context, PyThreadState *thread, Frame *frame, CodeMark mark)
{
    if (mark != MARK_NEVER_WITH_CALLEES) {
        return evaluate_below(thread, frame, 0);
    }
    Region *muted = thread_context_mute(context);
    PyObject *result = evaluate_below(thread, frame, 0);
    thread_context_unmute(context, muted);
    return result;
}

/* Runs what the active region has for this frame, or the frame itself. */
static PyObject *
offer(ThreadContext *context, PyThreadState *thread, Frame *frame)
{
    PyObject *result;
    if (!hook.serve(context, frame, &result)) {
        return evaluate_marked(context, thread, frame, code_mark(frame_code(frame))); /* it may have been marked meanwhile */
    }
    frame_leave_unevaluated(thread, frame);
    return result;
}

static PyObject *
hook_evaluate(PyThreadState *thread, Frame *frame, int throwflag)
{
    if (awaited == frame) {
        return _PyEval_EvalFrameDefault(thread, frame, throwflag);
    }
    if (c_stack_is_low() || c_calls_are_low(thread)) {
        return evaluate_deep(thread, frame, throwflag);
    }
    ThreadContext *context = thread_context_peek(thread);
    if (context == NULL || context->active == NULL) {
        eval_chain_remove_unclaimed(thread->interp);
        return evaluate_below(thread, frame, throwflag);
    }
    PyCodeObject *code = frame_code(frame);
    if (throwflag || thread_context_is_disabled(context) || !code_can_be_cached(code) || !frame_can_be_left(code)
        || frame_locals_mapping(frame) != NULL || !frame_is_new(frame) || thread_in_trace_function(thread)) {
        return evaluate_below(thread, frame, throwflag);
    }
    CodeMark mark = code_mark(code);
    if (mark != MARK_NONE) {
        return evaluate_marked(context, thread, frame, mark);
    }
    if (context->unoffered == frame_function(frame)) {
        context->unoffered = NULL;
        if (thread_context_release_arguments(context) < 0) {
            frame_leave_unevaluated(thread, frame);
            return NULL;
        }
        return evaluate_below(thread, frame, throwflag);
    }
    return offer(context, thread, frame);
}

void
frame_eval_init(FrameServer serve)
{
    hook.serve = serve;
    eval_chain_init(hook_evaluate);
}
