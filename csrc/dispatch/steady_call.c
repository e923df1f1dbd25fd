/* Python decides where a call goes, and leaves a Steady here that says for how long. While it holds, calls go there without running
 * Python. Once something has moved, the next call asks Python again. */
#include "dispatch/steady_call.h"

#include "guards/steady.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *steady, *target; /* NULL: nothing was decided yet */
} SteadyCall;

enum { FEW_ARGUMENTS = 16 };

/* target(first, *args, **kwargs) */
static PyObject *
hand_on(PyObject *target, PyObject *first, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    Py_ssize_t size = count + (keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords));
    PyObject *few[FEW_ARGUMENTS], **stack = few;
    if (size >= FEW_ARGUMENTS && (stack = PyMem_New(PyObject *, size + 1)) == NULL) {
        return PyErr_NoMemory();
    }
    stack[0] = Py_NewRef(first); /* the call may decide anew */
    Py_INCREF(target);
    if (size > 0) {
        memcpy(stack + 1, args, (size_t)size * sizeof(PyObject *));
    }
    PyObject *result = PyObject_Vectorcall(target, stack, (size_t)count + 1, keywords);
    if (stack != few) {
        PyMem_Free(stack);
    }
    Py_DECREF(first);
    Py_DECREF(target);
    return result;
}

/* self._tracer_decide(*args, **kwargs) */
static PyObject *
decide(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    PyObject *method = PyObject_GetAttrString(self, "_tracer_decide");
    PyObject *result = method == NULL ? NULL : PyObject_Vectorcall(method, args, (size_t)count, keywords);
    Py_XDECREF(method);
    return result;
}

static PyObject *
steady_call_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    const SteadyCall *self = (SteadyCall *)object;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *const *held = self->target == NULL ? NULL : steady_held(self->steady, &object);
    return held == NULL ? decide(object, args, count, keywords) : hand_on(self->target, held[0], args, count, keywords);
}

static PyObject *
steady_call_hold(SteadyCall *self, PyObject *args)
{
    PyObject *steady, *target;
    if (!PyArg_ParseTuple(args, "O!O:_tracer_hold", &Steady_Type, &steady, &target)) {
        return NULL;
    }
    if (steady_root_count(steady) != 1 || steady_held_count(steady) != 1) {
        PyErr_SetString(PyExc_ValueError, "_tracer_hold() takes a Steady of one root that holds one value");
        return NULL;
    }
    PyObject *steady_before = self->steady, *target_before = self->target;
    self->steady = Py_NewRef(steady);
    self->target = Py_NewRef(target);
    Py_XDECREF(steady_before);
    Py_XDECREF(target_before);
    Py_RETURN_NONE;
}

/* ---- the type ---- */

/* Subclasses take what arguments they like in __init__. */
static PyObject *
steady_call_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    SteadyCall *self = (SteadyCall *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = steady_call_call;
    }
    return (PyObject *)self;
}

static int
steady_call_traverse(SteadyCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->steady);
    Py_VISIT(self->target);
    return 0;
}

static int
steady_call_clear(SteadyCall *self)
{
    Py_CLEAR(self->target);
    Py_CLEAR(self->steady);
    return 0;
}

static void
steady_call_dealloc(SteadyCall *self)
{
    PyObject_GC_UnTrack(self);
    steady_call_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef steady_call_methods[] = {
    {"_tracer_hold", (PyCFunction)steady_call_hold, METH_VARARGS,
     "_tracer_hold(steady, target): calls go to target(value, ...), of the value that the steady holds for this object, "
     "while\n"
     "nothing has moved"},
    {NULL},
};

PyTypeObject SteadyCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.SteadyCall",
    .tp_doc = PyDoc_STR(
        "Base of callables that hand their calls on; a subclass has _tracer_decide(), which is called in place of them\n"
        "when it is not known where to."),
    .tp_basicsize = sizeof(SteadyCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = steady_call_new,
    .tp_dealloc = (destructor)steady_call_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(SteadyCall, vectorcall),
    .tp_traverse = (traverseproc)steady_call_traverse,
    .tp_clear = (inquiry)steady_call_clear,
    .tp_methods = steady_call_methods,
};
