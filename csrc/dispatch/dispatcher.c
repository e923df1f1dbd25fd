/* A call of a decorated function, from the argument vector on:
 *   - in stance "disabled", under a debugger, or where the code is a generator's or the like, CPython runs the function;
 *   - where calls of this code are nested deeper on this thread than the resume limit allows, CPython runs it too, and its
 *     callees are offered to the region;
 *   - else the arguments are bound to the slots of the function, and the region's entries for its code are searched;
 *   - the entry found is run, or the function itself, with its callees offered.
 * A dispatcher remembers the bucket of entries that it used last, so that most calls look up nothing by code object. */
#include "dispatch/dispatcher.h"

#include <structmember.h>

#include "dispatch/cache_lookup.h"
#include "dispatch/region.h"
#include "hook/c_stack.h"
#include "hook/code_marks.h"
#include "hook/thread_context.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Region *region;
    PyFunctionObject *function;
    Bucket *bucket;          /* the one last used, or NULL */
    Py_ssize_t resume_limit; /* 0: none */
    int lasting;             /* lives as long as the region: entries may keep functions made for its closure */
    PyObject *dict;
    PyObject *weakrefs;
} Dispatcher;

/* ---- calling ---- */

static Bucket *
current_bucket(Dispatcher *self)
{
    Bucket *bucket = self->bucket;
    PyCodeObject *code = (PyCodeObject *)self->function->func_code;
    PyObject *globals = self->function->func_globals;
    if (bucket != NULL && bucket->code == code && bucket->globals == globals && bucket->compiler == forced_compiler
        && !bucket->detached) {
        return bucket;
    }
    if (globals == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "tracer: this function was cleared by the garbage collector");
        return NULL;
    }
    bucket = region_get_bucket(self->region, code, globals, forced_compiler);
    if (bucket != NULL) {
        Py_XSETREF(self->bucket, (Bucket *)Py_NewRef(bucket));
    }
    return bucket;
}

/* CPython runs the function, whose callees are offered to the region. The function's own frame is offered too, unless it is
 * `unoffered`. */
static PyObject *
call_original(Dispatcher *self, ThreadContext *context, PyObject *const *arguments, size_t nargsf, PyObject *keywords,
              PyFunctionObject *unoffered, PyObject *argument_list)
{
    PyFunctionObject *outer_unoffered = context->unoffered;
    PyObject *outer_list = context->argument_list;
    context->unoffered = unoffered;
    context->argument_list = argument_list;
    Region *outer = thread_context_exchange(context, (Region *)Py_NewRef(self->region));
    PyObject *result = PyObject_Vectorcall((PyObject *)self->function, arguments, nargsf, keywords);
    Py_XDECREF(thread_context_exchange(context, outer));
    context->unoffered = outer_unoffered;
    context->argument_list = outer_list;
    return result;
}

/* As call_original(), but the function's own frame is not offered: the region has been asked about this call already. */
static PyObject *
call_unoffered(Dispatcher *self, ThreadContext *context, PyObject *const *arguments, size_t nargsf, PyObject *keywords,
               PyObject *argument_list)
{
    return call_original(self, context, arguments, nargsf, keywords, self->function, argument_list);
}

/* `argument_list`: NULL, or the list that the arguments are the items of, which the code that runs may empty. */
static PyObject *
call_cached(Dispatcher *self, ThreadContext *context, PyObject *const *arguments, size_t nargsf, PyObject *keywords,
            PyObject *argument_list)
{
    Bucket *bucket = current_bucket(self);
    if (bucket == NULL) {
        return NULL;
    }
    CallSite site;
    int bound = call_site_from_call(&site, self->region, self->function, arguments, PyVectorcall_NARGS(nargsf), keywords);
    if (bound <= 0) {
        return bound < 0 ? NULL : call_original(self, context, arguments, nargsf, keywords, NULL, NULL);
    }
    site.argument_list = argument_list;
    Entry *entry = NULL;
    PyObject *result = NULL;
    switch (cache_lookup(context, &site, bucket, &entry)) {
    case LOOKUP_ENTRY:
        result = run_entry(context, &site, entry, self->lasting);
        Py_DECREF(entry);
        break;
    case LOOKUP_ORIGINAL:
        result = call_unoffered(self, context, arguments, nargsf, keywords, argument_list);
        break;
    case LOOKUP_FAILED:
        break;
    }
    call_site_clear(&site);
    return result;
}

static PyObject *
call_counted(Dispatcher *self, ThreadContext *context, PyObject *const *arguments, size_t nargsf, PyObject *keywords,
             PyObject *argument_list)
{
    PyCodeObject *code = (PyCodeObject *)self->function->func_code;
    CallRecord *last = context->calls;
    while (last != NULL && last->code != code) {
        last = last->outer;
    }
    CallRecord record = {code, last == NULL ? 1 : last->depth + 1, context->calls};
    if (record.depth > self->resume_limit) {
        return call_unoffered(self, context, arguments, nargsf, keywords, argument_list);
    }
    context->calls = &record;
    PyObject *result = call_cached(self, context, arguments, nargsf, keywords, argument_list);
    context->calls = record.outer;
    return result;
}

static PyObject *
dispatch(Dispatcher *self, PyObject *const *arguments, size_t nargsf, PyObject *keywords, PyObject *argument_list)
{
    ThreadContext *context = thread_context_get();
    if (context == NULL || c_stack_check() < 0) {
        return NULL;
    }
    if (thread_context_is_disabled(context) || !code_can_be_cached((PyCodeObject *)self->function->func_code)) {
        return PyObject_Vectorcall((PyObject *)self->function, arguments, nargsf, keywords);
    }
    if (self->resume_limit > 0) {
        return call_counted(self, context, arguments, nargsf, keywords, argument_list);
    }
    return call_cached(self, context, arguments, nargsf, keywords, argument_list);
}

static PyObject *
dispatcher_vectorcall(PyObject *callable, PyObject *const *arguments, size_t nargsf, PyObject *keywords)
{
    return dispatch((Dispatcher *)callable, arguments, nargsf, keywords, NULL);
}

/* A call whose arguments are the items of a list that nobody else uses. The code that runs empties the list as it begins, so that
 * an argument lives no longer than the local variable that holds it. */
static PyObject *
dispatcher_hand_over(Dispatcher *self, PyObject *list)
{
    if (!PyList_CheckExact(list)) {
        PyErr_Format(PyExc_TypeError, "hand_over() takes a list, not %.100s", Py_TYPE(list)->tp_name);
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(list);
    PyObject *few[CALL_SITE_INLINE_SLOTS] = {NULL};
    PyObject **arguments = count <= CALL_SITE_INLINE_SLOTS ? few : PyMem_New(PyObject *, count);
    if (arguments == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        arguments[i] = PyList_GET_ITEM(list, i);
    }
    PyObject *result = dispatch(self, arguments, (size_t)count, NULL, list);
    if (arguments != few) {
        PyMem_Free(arguments);
    }
    return result;
}

/* ---- the type ---- */

static PyObject *
make_dispatcher(PyTypeObject *type, Region *region, PyFunctionObject *function, Py_ssize_t resume_limit, int lasting)
{
    Dispatcher *self = (Dispatcher *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = dispatcher_vectorcall;
        self->region = (Region *)Py_NewRef(region);
        self->function = (PyFunctionObject *)Py_NewRef(function);
        self->resume_limit = resume_limit;
        self->lasting = lasting;
    }
    return (PyObject *)self;
}

static PyObject *
dispatcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"region", "function", "resume_limit", NULL};
    PyObject *region, *function;
    Py_ssize_t resume_limit = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|n:Dispatcher", keywords, &Region_Type, &region, &PyFunction_Type,
                                     &function, &resume_limit)) {
        return NULL;
    }
    if (resume_limit < 0) {
        PyErr_Format(PyExc_ValueError, "resume_limit is 0 (none) or more, not %zd", resume_limit);
        return NULL;
    }
    return make_dispatcher(type, (Region *)region, (PyFunctionObject *)function, resume_limit, 1);
}

static int
dispatcher_traverse(Dispatcher *self, visitproc visit, void *arg)
{
    Py_VISIT(self->region);
    Py_VISIT(self->function);
    Py_VISIT(self->bucket);
    Py_VISIT(self->dict);
    return 0;
}

/* The region and the function stay, for a finalizer may still call us: both break their own cycles. */
static int
dispatcher_clear(Dispatcher *self)
{
    Py_CLEAR(self->bucket);
    Py_CLEAR(self->dict);
    return 0;
}

static void
dispatcher_dealloc(Dispatcher *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    dispatcher_clear(self);
    Py_CLEAR(self->region);
    Py_CLEAR(self->function);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
dispatcher_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *
dispatcher_repr(Dispatcher *self)
{
    return PyUnicode_FromFormat("<tracer Dispatcher of %R>", self->function);
}

static int
check_closure(PyObject *cells, PyCodeObject *code)
{
    if (!PyTuple_Check(cells)) {
        PyErr_Format(PyExc_TypeError, "with_closure() takes a tuple of cells, not %.100s", Py_TYPE(cells)->tp_name);
        return -1;
    }
    if (PyTuple_GET_SIZE(cells) != code->co_nfreevars) {
        PyErr_Format(PyExc_ValueError, "%U has %d free variables, the closure has %zd cells", code->co_qualname,
                     code->co_nfreevars, PyTuple_GET_SIZE(cells));
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cells); i++) {
        if (!PyCell_Check(PyTuple_GET_ITEM(cells, i))) {
            PyErr_Format(PyExc_TypeError, "a closure holds cells, not %.100s", Py_TYPE(PyTuple_GET_ITEM(cells, i))->tp_name);
            return -1;
        }
    }
    return 0;
}

/* The same function over other cells. */
static PyObject *
copy_function(PyFunctionObject *from, PyObject *cells)
{
    PyObject *made = PyFunction_NewWithQualName(from->func_code, from->func_globals, from->func_qualname);
    if (made != NULL) {
        PyFunctionObject *function = (PyFunctionObject *)made;
        Py_XSETREF(function->func_name, Py_NewRef(from->func_name));
        Py_XSETREF(function->func_defaults, Py_XNewRef(from->func_defaults));
        Py_XSETREF(function->func_kwdefaults, Py_XNewRef(from->func_kwdefaults));
        Py_XSETREF(function->func_closure, PyTuple_GET_SIZE(cells) == 0 ? NULL : Py_NewRef(cells));
    }
    return made;
}

static PyObject *
dispatcher_with_closure(Dispatcher *self, PyObject *cells)
{
    if (check_closure(cells, (PyCodeObject *)self->function->func_code) < 0) {
        return NULL;
    }
    PyObject *function = copy_function(self->function, cells);
    if (function == NULL) {
        return NULL;
    }
    PyObject *made = make_dispatcher(Py_TYPE(self), self->region, (PyFunctionObject *)function, self->resume_limit, 0);
    Py_DECREF(function);
    if (made != NULL) {
        ((Dispatcher *)made)->bucket = (Bucket *)Py_XNewRef(self->bucket);
    }
    return made;
}

/* 1: bound, to be cleared. 0: CPython itself would make this call. -1: an exception. */
static int
bind_call(Dispatcher *self, CallSite *site, PyObject *const *arguments, Py_ssize_t positional, PyObject *keywords)
{
    return call_site_from_call(site, self->region, self->function, arguments, positional, keywords);
}

/* The entry that would serve this call, which is not run; its hits are not counted. */
static PyObject *
dispatcher_lookup(Dispatcher *self, PyObject *const *arguments, Py_ssize_t positional, PyObject *keywords)
{
    ThreadContext *context = thread_context_get();
    Bucket *bucket = context == NULL ? NULL : current_bucket(self);
    if (bucket == NULL) {
        return NULL;
    }
    CallSite site;
    int bound = bind_call(self, &site, arguments, positional, keywords);
    if (bound <= 0) {
        return bound < 0 ? NULL : Py_NewRef(Py_None);
    }
    Entry *entry = NULL;
    CheckResult found = cache_find(context, &site, bucket, &entry);
    call_site_clear(&site);
    if (found == CHECK_HIT) {
        entry->hits--;
        return (PyObject *)entry;
    }
    return found == CHECK_ERROR ? NULL : Py_NewRef(Py_None);
}

/* The argument slots of this call, as the region's callback is given them. */
static PyObject *
dispatcher_bind(Dispatcher *self, PyObject *const *arguments, Py_ssize_t positional, PyObject *keywords)
{
    CallSite site;
    int bound = bind_call(self, &site, arguments, positional, keywords);
    if (bound <= 0) {
        return bound < 0 ? NULL : Py_NewRef(Py_None);
    }
    PyObject *slots = PyTuple_New(site.argument_count);
    for (Py_ssize_t i = 0; slots != NULL && i < site.argument_count; i++) {
        PyTuple_SET_ITEM(slots, i, Py_NewRef(site.slots[i]));
    }
    call_site_clear(&site);
    return slots;
}

static PyMethodDef dispatcher_methods[] = {
    {"lookup", (PyCFunction)(void (*)(void))dispatcher_lookup, METH_FASTCALL | METH_KEYWORDS,
     "lookup(*args, **kwargs) -> the entry that serves this call, or None; nothing is run or traced"},
    {"bind", (PyCFunction)(void (*)(void))dispatcher_bind, METH_FASTCALL | METH_KEYWORDS,
     "bind(*args, **kwargs) -> the argument slots, or None where CPython itself would make this call"},
    {"hand_over", (PyCFunction)dispatcher_hand_over, METH_O,
     "hand_over(arguments) -> the result of a call with the items of this list, which cached code empties"},
    {"with_closure", (PyCFunction)dispatcher_with_closure, METH_O,
     "with_closure(cells) -> Dispatcher over the same region, code, globals and defaults with another closure"},
    {NULL},
};

static PyMemberDef dispatcher_members[] = {
    {"region", T_OBJECT_EX, offsetof(Dispatcher, region), READONLY, NULL},
    {"function", T_OBJECT_EX, offsetof(Dispatcher, function), READONLY, "The original function."},
    {"resume_limit", T_PYSSIZET, offsetof(Dispatcher, resume_limit), READONLY,
     "How deep calls of this code may nest on a thread before CPython runs them; 0: no limit."},
    {NULL},
};

static PyGetSetDef dispatcher_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

PyTypeObject Dispatcher_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Dispatcher",
    .tp_doc = PyDoc_STR("Dispatcher(region, function, resume_limit=0)\n--\n\n"
                        "Calls the entry of the region that holds for the arguments; asks the region if none does."),
    .tp_basicsize = sizeof(Dispatcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Dispatcher, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = dispatcher_new,
    .tp_dealloc = (destructor)dispatcher_dealloc,
    .tp_traverse = (traverseproc)dispatcher_traverse,
    .tp_clear = (inquiry)dispatcher_clear,
    .tp_repr = (reprfunc)dispatcher_repr,
    .tp_descr_get = dispatcher_get,
    .tp_methods = dispatcher_methods,
    .tp_members = dispatcher_members,
    .tp_getset = dispatcher_getset,
    .tp_dictoffset = offsetof(Dispatcher, dict),
    .tp_weaklistoffset = offsetof(Dispatcher, weakrefs),
};
