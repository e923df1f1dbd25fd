/* What differs between CPython versions, and why. No other file asks for PY_VERSION_HEX. How a dict, a class or a function is
 * known to be unchanged differs, too (guards/versions.h), and what nested calls use up (hook/c_stack.h).
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
#elif PY_VERSION_HEX >= 0x030F0000
#error "shapetracer knows the frames of CPython 3.11 to 3.14; a newer version is added in csrc/compat.h."
#elif defined(Py_GIL_DISABLED)
#error "shapetracer relies on the GIL: use a build of CPython that is not free-threaded."
#endif

/* The struct of a running frame is internal in every version: PEP 523 hands it to the evaluation function
 * without a public accessor for its arguments. The internal headers have a macro of the public ones as a function, and
 * use a field that those call deprecated. */
#undef _PyGC_FINALIZED
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define Py_BUILD_CORE
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_ceval.h>
#include <internal/pycore_interpframe.h>
#endif
#undef Py_BUILD_CORE
#pragma GCC diagnostic pop

typedef struct _PyInterpreterFrame Frame;

/* 3.12 renames the field, which may hold something else in frames that are no function's. 3.14 makes it a tagged reference. */
static inline PyFunctionObject *
frame_function(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    return (PyFunctionObject *)PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
#elif PY_VERSION_HEX >= 0x030C0000
    return (PyFunctionObject *)frame->f_funcobj;
#else
    return frame->f_func;
#endif
}

/* 3.13 renames the field, which may hold something else in frames that are not evaluated. 3.14 makes it a tagged reference. */
static inline PyCodeObject *
frame_code(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    return (PyCodeObject *)PyStackRef_AsPyObjectBorrow(frame->f_executable);
#elif PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
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
 * those that become cells. NULL from 3.14 on, where the slots are tagged references and have to be read one by one. */
static inline PyObject *const *
frame_arguments(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    (void)frame;
    return NULL;
#else
    return frame->localsplus;
#endif
}

/* What one of them holds, borrowed; NULL if it is unbound. */
static inline PyObject *
frame_argument(Frame *frame, Py_ssize_t index)
{
#if PY_VERSION_HEX >= 0x030E0000
    return PyStackRef_AsPyObjectBorrow(frame->localsplus[index]);
#else
    return frame->localsplus[index];
#endif
}

/* Before the first instruction. (PyEval_EvalFrame() can be given a frame that has run.) Until 3.12 a frame points to what it ran
 * last, from 3.13 on to what it runs next. */
static inline int
frame_is_new(Frame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return frame->instr_ptr == _PyCode_CODE(frame_code(frame));
#else
    return frame->prev_instr == _PyCode_CODE(frame_code(frame)) - 1;
#endif
}

/* For an evaluation function that does not evaluate its frame. On 3.11 the frame stays as it was: the caller (_PyEval_Vector)
 * clears and pops it. From 3.12 on that is up to the evaluation function. What does it is exported from 3.14 on. Before, CPython
 * does it where a frame returns: so the frame goes on at instructions that return at once. They are none of its code's, which has a
 * stack of one value at least (frame_can_be_left). Arguments may die here, and the exception that is raised stays. */
#if PY_VERSION_HEX >= 0x030E0000
static inline void
frame_leave_unevaluated(PyThreadState *thread, Frame *frame)
{
    PyObject *raised = PyErr_GetRaisedException();
    _PyEval_FrameClearAndPop(thread, frame);
    PyErr_SetRaisedException(raised);
}
#elif PY_VERSION_HEX >= 0x030C0000
#include <opcode.h>

static inline void
frame_leave_unevaluated(PyThreadState *thread, Frame *frame)
{
    static _Py_CODEUNIT leaving[] = {{.op = {NOP, 0}}, {.op = {PUSH_NULL, 0}}, {.op = {RETURN_VALUE, 0}}};
#if PY_VERSION_HEX >= 0x030D0000
    frame->instr_ptr = &leaving[1];
#else
    frame->prev_instr = &leaving[0];
#endif
    PyObject *raised = PyErr_GetRaisedException();
    Py_XDECREF(_PyEval_EvalFrameDefault(thread, frame, 0)); /* NULL */
    PyErr_SetRaisedException(
        raised); /* instead of the RecursionError with which it may end, having left the frame as well */
}
#else
static inline void
frame_leave_unevaluated(PyThreadState *Py_UNUSED(thread), Frame *Py_UNUSED(frame))
{
}
#endif

/* Code that only returns a constant may have no stack. */
static inline int
frame_can_be_left(PyCodeObject *code)
{
    return code->co_stacksize > 0;
}

/* How many calls may still be nested before RecursionError. From 3.12 on those of C functions are counted apart. */
static inline int
thread_recursion_left(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030C0000
    return thread->py_recursion_remaining;
#else
    return thread->recursion_remaining;
#endif
}

/* Trace and profile functions run as ordinary frames while this is set. */
static inline int
thread_in_trace_function(PyThreadState *thread)
{
    return thread->tracing != 0;
}

/* Whether a debugger uses sys.monitoring (3.12): frames run as they were written then, so that breakpoints are met. */
static inline int
thread_is_debugged(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030C0000
    return thread->interp->monitoring_tool_names[PY_MONITORING_DEBUGGER_ID] != NULL;
#else
    (void)thread;
    return 0;
#endif
}

/* 3.12 renames these. */
#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

/* The dict of a class, borrowed; NULL if it is not ready yet. From 3.12 on the interpreter has those of CPython's own classes. */
static inline PyObject *
type_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict); /* which the class keeps */
    return dict;
#else
    return type->tp_dict;
#endif
}

/* Where an object keeps its dict; NULL if it has none, or if the interpreter keeps it (see `type_dict`). */
static inline PyObject **
dict_place(PyObject *object)
{
    PyObject **place = _PyObject_GetDictPtr(object);
    return place != NULL && *place == NULL && PyType_Check(object) ? NULL : place;
}

/* As PyDict_Next, with the hash under which the dict has the key. From 3.13 on, what gives both is not exported. */
static inline int
dict_next(PyObject *dict, Py_ssize_t *at, PyObject **key, PyObject **value, Py_hash_t *hash)
{
#if PY_VERSION_HEX >= 0x030D0000
    if (!PyDict_Next(dict, at, key, value)) {
        return 0;
    }
    PyDictKeysObject *keys = ((PyDictObject *)dict)->ma_keys;
    *hash = DK_IS_UNICODE(keys) ? PyObject_Hash(*key) : DK_ENTRIES(keys)[*at - 1].me_hash;
    return 1;
#else
    return _PyDict_Next(dict, at, key, value, hash);
#endif
}

/* How functions are called that nobody has changed the calling of; NULL if that cannot be told. From 3.13 on the function is not
 * exported, but any new one has it. */
static inline vectorcallfunc
plain_function_vectorcall(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    static vectorcallfunc found = NULL;
    if (found == NULL) {
        PyObject *code = (PyObject *)PyCode_NewEmpty("", "", 1), *globals = PyDict_New();
        PyObject *function = code == NULL || globals == NULL ? NULL : PyFunction_New(code, globals);
        found = function == NULL ? NULL : ((PyFunctionObject *)function)->vectorcall;
        Py_XDECREF(function);
        Py_XDECREF(globals);
        Py_XDECREF(code);
        PyErr_Clear();
    }
    return found;
#else
    return _PyFunction_Vectorcall;
#endif
}

/* What a weak reference leads to, borrowed; None if that is gone. 3.13 calls the functions deprecated that do not count it. */
static inline PyObject *
weakref_target(PyObject *reference)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *target = NULL;
    (void)PyWeakref_GetRef(reference, &target); /* fails for what is no weak reference */
    Py_XDECREF(target);                         /* which others hold: it would be gone */
    return target == NULL ? Py_None : target;
#else
    return PyWeakref_GET_OBJECT(reference);
#endif
}

/* Whether all keys are exactly str, so that looking one up runs no user code. CPython keeps such dicts in tables of another
 * kind, whose layout is internal. */
static inline int
dict_has_only_str_keys(PyObject *dict)
{
    return DK_IS_UNICODE(((PyDictObject *)dict)->ma_keys);
}

#endif
