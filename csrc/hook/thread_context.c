/* The context hangs in the thread state's own dict, inside a capsule. So whoever clears the thread state, be it the
 * end of the thread or the child of a fork (which clears the states of all threads that are gone), releases the
 * region and its claim on the frame hook. A thread-local pointer to the context that was used last saves the lookup. */
#include "hook/thread_context.h"

#include "hook/eval_chain.h"

#define CAPSULE_NAME "tracer._C.ThreadContext"

_Thread_local ThreadContext *thread_context_last = NULL;
Stance thread_context_stance_of_process = STANCE_NORMAL;
static PyObject *dict_key = NULL;

int
thread_context_init(void)
{
    dict_key = PyUnicode_InternFromString(CAPSULE_NAME);
    return dict_key == NULL ? -1 : 0;
}

static void
free_context(PyObject *capsule)
{
    ThreadContext *context = PyCapsule_GetPointer(capsule, CAPSULE_NAME);
    if (context == thread_context_last) {
        thread_context_last = NULL;
    }
    Py_XDECREF(thread_context_exchange(context, NULL));
    PyMem_Free(context);
}

/* The context in the dict of the current thread state, or NULL; borrowed. */
static ThreadContext *
find_context(PyObject *dict)
{
    PyObject *capsule = dict == NULL ? NULL : PyDict_GetItemWithError(dict, dict_key);
    return capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, CAPSULE_NAME);
}

static ThreadContext *
make_context(PyThreadState *thread, PyObject *dict)
{
    ThreadContext *context = PyMem_Calloc(1, sizeof(ThreadContext));
    if (context == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    context->thread = thread;
    context->stance = STANCE_OF_PROCESS;
    PyObject *capsule = PyCapsule_New(context, CAPSULE_NAME, free_context);
    if (capsule == NULL) {
        PyMem_Free(context);
        return NULL;
    }
    int failed = PyDict_SetItem(dict, dict_key, capsule);
    Py_DECREF(capsule); /* frees the context if the dict did not take it */
    return failed ? NULL : context;
}

ThreadContext *
thread_context_find(PyThreadState *thread)
{
    PyObject *dict = PyThreadState_GetDict();
    if (dict == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "tracer: this thread has no state dict; Python is shutting down");
        return NULL;
    }
    ThreadContext *context = find_context(dict);
    if (context == NULL) {
        context = PyErr_Occurred() ? NULL : make_context(thread, dict);
    }
    if (context != NULL) {
        thread_context_last = context;
    }
    return context;
}

ThreadContext *
thread_context_peek(PyThreadState *thread)
{
    if (thread_context_last == NULL || thread_context_last->thread == thread) {
        return thread_context_last;
    }
    ThreadContext *context = find_context(PyThreadState_GetDict()); /* several thread states in one system thread */
    if (context == NULL) {
        PyErr_Clear();
    }
    return context;
}

Region *
thread_context_exchange(ThreadContext *context, Region *region)
{
    Region *before = context->active;
    context->active = region;
    if (region != NULL && before == NULL) {
        eval_chain_acquire();
    }
    else if (region == NULL && before != NULL) {
        eval_chain_release();
    }
    return before;
}

Region *
thread_context_mute(ThreadContext *context)
{
    Region *region = context->active;
    context->active = NULL;
    return region;
}

void
thread_context_unmute(ThreadContext *context, Region *region)
{
    Py_XDECREF(thread_context_exchange(context, NULL)); /* one that was made active meanwhile, and left so */
    context->active = region;
}

int
thread_context_is_shared(const ThreadContext *context)
{
    return eval_chain_is_shared(context->thread->interp);
}

void
thread_context_begin_quiet(ThreadContext *context)
{
    context->quiet++;
    eval_chain_acquire();
}

void
thread_context_end_quiet(ThreadContext *context)
{
    context->quiet--;
    eval_chain_release();
}

int
thread_context_is_quiet(PyThreadState *thread)
{
    ThreadContext *context = thread_context_peek(thread);
    return context != NULL && context->quiet > 0;
}

/* 0, or -1 with an exception. */
static int
parse_stance(PyObject *number, Stance least, Stance *stance)
{
    long value = PyLong_AsLong(number);
    if (value == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (value < (long)least || value > STANCE_DISABLED) {
        PyErr_Format(PyExc_ValueError,
                     "a stance is 0 (normal), 1 (run only), 2 (disabled) or, of a thread, -1 (that of the process), "
                     "not %ld",
                     value);
        return -1;
    }
    *stance = (Stance)value;
    return 0;
}

PyObject *
py_set_stance(PyObject *Py_UNUSED(module), PyObject *number)
{
    Stance stance;
    ThreadContext *context = thread_context_get();
    if (context == NULL || parse_stance(number, STANCE_OF_PROCESS, &stance) < 0) {
        return NULL;
    }
    Stance before = context->stance;
    context->stance = stance;
    return PyLong_FromLong(before);
}

PyObject *
py_set_stance_of_process(PyObject *Py_UNUSED(module), PyObject *number)
{
    Stance stance, before = thread_context_stance_of_process;
    if (parse_stance(number, STANCE_NORMAL, &stance) < 0) {
        return NULL;
    }
    thread_context_stance_of_process = stance;
    return PyLong_FromLong(before);
}

int
thread_context_release_arguments(ThreadContext *context)
{
    PyObject *list = context->argument_list;
    context->argument_list = NULL;
    return list == NULL ? 0 : PyList_SetSlice(list, 0, PyList_GET_SIZE(list), NULL);
}

PyObject *
py_let_go(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    ThreadContext *context = thread_context_peek(PyThreadState_Get());
    if (context != NULL && thread_context_release_arguments(context) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}
