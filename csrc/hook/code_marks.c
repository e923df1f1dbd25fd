/* A mark lies in the code object itself, in one of the extra places that CPython lends to extensions (PEP 523). So it is read
 * in a few instructions and dies with the code. A copy made by code.replace() has no mark. */
#include "hook/code_marks.h"

static struct {
    Py_ssize_t extra_index;
} marks = {-1};

CodeMark
code_mark(PyCodeObject *code)
{
    void *mark = NULL;
    return PyUnstable_Code_GetExtra((PyObject *)code, marks.extra_index, &mark) < 0 ? MARK_NONE : (CodeMark)(intptr_t)mark;
}

static int
set_mark(PyCodeObject *code, CodeMark mark)
{
    return PyUnstable_Code_SetExtra((PyObject *)code, marks.extra_index, (void *)(intptr_t)mark); /* no reference */
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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$p:never_trace", keywords, &PyCode_Type, &code, &callees)
        || set_mark((PyCodeObject *)code, callees ? MARK_NEVER_WITH_CALLEES : MARK_NEVER) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

int
code_marks_init(void)
{
    marks.extra_index = PyUnstable_Eval_RequestCodeExtraIndex(NULL);
    if (marks.extra_index < 0) {
        PyErr_SetString(PyExc_ImportError, "tracer._C: no co_extra index is left in this process");
        return -1;
    }
    return 0;
}
