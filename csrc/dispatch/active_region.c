/* The thread context holds the active region without knowing what a region is. Here that is known, so that Python can make no
 * other object active. */
#include "dispatch/active_region.h"

#include "dispatch/region.h"
#include "hook/thread_context.h"

PyObject *
py_swap_active(PyObject *Py_UNUSED(module), PyObject *region)
{
    if (region != Py_None && !Region_Check(region)) {
        PyErr_Format(PyExc_TypeError, "swap_active() takes a Region or None, not %.100s", Py_TYPE(region)->tp_name);
        return NULL;
    }
    ThreadContext *context = thread_context_get();
    if (context == NULL) {
        return NULL;
    }
    Region *next = region == Py_None ? NULL : (Region *)Py_NewRef(region);
    Region *before = thread_context_exchange(context, next);
    return before == NULL ? Py_NewRef(Py_None) : (PyObject *)before;
}

PyObject *
py_active_region(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    ThreadContext *context = thread_context_peek(PyThreadState_Get());
    return Py_NewRef(context == NULL || context->active == NULL ? Py_None : (PyObject *)context->active);
}
