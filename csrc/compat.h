/* What differs between CPython versions, and why. No other file asks for PY_VERSION_HEX. How a dict, a class or a function is
 * known to be unchanged differs, too: guards/versions.h.
 *
 * A new version is added here: each function below states the fact that it hides. */
#ifndef TRACER_COMPAT_H
#define TRACER_COMPAT_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000
#error "shapetracer needs CPython 3.11: frames of older versions have another layout (no _PyInterpreterFrame)."
#elif PY_VERSION_HEX >= 0x030C0000
#error "shapetracer knows the frames of CPython 3.11 only; a newer version is added in csrc/compat.h."
#endif

/* The struct of a running frame is internal in every version: PEP 523 hands it to the evaluation function
 * without a public accessor for its arguments. */
#define Py_BUILD_CORE
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

typedef struct _PyInterpreterFrame Frame;

/* 3.11 keeps the function in f_func (from 3.12 on f_funcobj, which may be a code object's owner of another type). */
static inline PyFunctionObject *
frame_function(Frame *frame)
{
    return frame->f_func;
}

/* 3.11: a strong reference; 3.13 renames it f_executable and may hold something that is no code object. */
static inline PyCodeObject *
frame_code(Frame *frame)
{
    return frame->f_code;
}

static inline PyObject *
frame_globals(Frame *frame)
{
    return frame->f_globals;
}

/* The mapping of names of a module or class body; NULL for functions. */
static inline PyObject *
frame_locals_mapping(Frame *frame)
{
    return frame->f_locals;
}

/* Argument slots lie at the start of localsplus, bound, before the first instruction ran: MAKE_CELL has not wrapped
 * those that become cells. (3.14 stores tagged _PyStackRef here.) */
static inline PyObject *const *
frame_arguments(Frame *frame)
{
    return frame->localsplus;
}

/* Before the first instruction. (PyEval_EvalFrame() can be given a frame that has run.) */
static inline int
frame_is_new(Frame *frame)
{
    return frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
}

/* An evaluation function that does not evaluate its frame leaves it as it was: on 3.11 the caller
 * (_PyEval_Vector) clears and pops it. From 3.12 on the evaluation function must do so itself. */
static inline void
frame_leave_unevaluated(PyThreadState *Py_UNUSED(thread), Frame *Py_UNUSED(frame))
{
}

/* How many calls may still be nested before RecursionError; 3.12 counts those of C apart (py_recursion_remaining). */
static inline int
thread_recursion_left(PyThreadState *thread)
{
    return thread->recursion_remaining;
}

/* Trace and profile functions run as ordinary frames while this is set. */
static inline int
thread_in_trace_function(PyThreadState *thread)
{
    return thread->tracing != 0;
}

/* 3.12 renames these PyUnstable_*. */
static inline Py_ssize_t
code_extra_request(freefunc free_extra)
{
    return _PyEval_RequestCodeExtraIndex(free_extra);
}

static inline int
code_extra_get(PyCodeObject *code, Py_ssize_t index, void **extra)
{
    return _PyCode_GetExtra((PyObject *)code, index, extra);
}

static inline int
code_extra_set(PyCodeObject *code, Py_ssize_t index, void *extra)
{
    return _PyCode_SetExtra((PyObject *)code, index, extra);
}

/* Whether all keys are exactly str, so that looking one up runs no user code. CPython keeps such dicts in tables of another
 * kind, whose layout is internal. */
static inline int
dict_has_plain_keys(PyObject *dict)
{
    return DK_IS_UNICODE(((PyDictObject *)dict)->ma_keys);
}

#endif
