/* An entry is run in one of two ways. If its code does nothing but call a graph, the graph is called right here (graph_call).
 * Else its code is made into a function, which is kept for the closure that the entry was first called with. Whether an entry
 * holds is told by a Checklist in C or by any callable: user code may run then, and other threads. */
#include "dispatch/entry.h"

#include <structmember.h>

#include "hook/code_marks.h"

EntryCounts entry_counts = {0};

void
entry_stamp(Entry *entry)
{
    entry->stamp = ++entry_counts.clock;
}

/* ---- checking ---- */

/* An exception in a guard is a miss, unless `except Exception` would let it pass (KeyboardInterrupt does). */
static CheckResult
guard_failed(void)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception)) {
        return CHECK_ERROR;
    }
    int exhausted = PyErr_ExceptionMatches(PyExc_RecursionError) || PyErr_ExceptionMatches(PyExc_MemoryError);
    PyErr_Clear();
    return exhausted ? CHECK_EXHAUSTED : CHECK_MISS;
}

CheckResult
entry_check(Entry *entry, CallSite *site)
{
    if (entry->check_fn == NULL) { /* cleared by the garbage collector */
        return CHECK_MISS;
    }
    if (entry->direct.graph != NULL) {
        Outcome outcome = graph_call_bind(&entry->direct, entry->check_fn, site);
        if (outcome != UNSURE) {
            return outcome == HOLDS ? CHECK_HIT : CHECK_MISS;
        }
    }
    /* A Python function counts its own depth; anything else may come back here without one in between. */
    int counted = PyFunction_Check(entry->check_fn);
    if (!counted && Py_EnterRecursiveCall(" in a check_fn") != 0) {
        return guard_failed();
    }
    PyObject *result = PyObject_Vectorcall(entry->check_fn, site->slots, (size_t)site->check_count, NULL);
    if (!counted) {
        Py_LeaveRecursiveCall();
    }
    if (result == NULL) {
        return guard_failed();
    }
    if (entry->fetches && PyTuple_CheckExact(result)) {
        Py_XSETREF(site->fetched, result);
        return CHECK_HIT;
    }
    CheckResult hit = result == Py_True && !entry->fetches ? CHECK_HIT : CHECK_MISS;
    Py_DECREF(result);
    return hit;
}

/* ---- running ---- */

/* The calling function's cells, then the extras. */
static PyObject *
whole_closure(Entry *entry, PyObject *closure)
{
    if (closure == NULL || PyTuple_GET_SIZE(closure) == 0) {
        return Py_NewRef(entry->extras);
    }
    if (PyTuple_GET_SIZE(entry->extras) == 0) {
        return Py_NewRef(closure);
    }
    return PySequence_Concat(closure, entry->extras);
}

static PyObject *
make_function(Entry *entry, PyObject *closure)
{
    PyObject *cells = whole_closure(entry, closure);
    if (cells == NULL) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(cells) != entry->code->co_nfreevars) {
        PyErr_Format(PyExc_SystemError, "tracer: cached code of %U has %d free variables, its call brings %zd cells",
                     entry->qualname, entry->code->co_nfreevars, PyTuple_GET_SIZE(cells));
        Py_DECREF(cells);
        return NULL;
    }
    PyObject *made = PyFunction_NewWithQualName((PyObject *)entry->code, entry->globals, entry->qualname);
    if (made == NULL) {
        Py_DECREF(cells);
        return NULL;
    }
    PyFunctionObject *function = (PyFunctionObject *)made;
    Py_SETREF(function->func_name, Py_NewRef(entry->name));
    if (PyTuple_GET_SIZE(cells) == 0) {
        Py_DECREF(cells);
    }
    else {
        Py_XSETREF(function->func_closure, cells);
    }
    return made;
}

/* The cached function if it was made for this closure, else a new one. */
static PyObject *
function_for(Entry *entry, PyObject *closure, int keep)
{
    if (entry->function != NULL && entry->closure == closure) {
        return Py_NewRef(entry->function);
    }
    PyObject *function = make_function(entry, closure);
    if (function != NULL && entry->function == NULL && (keep || closure == NULL)) {
        entry->function = Py_NewRef(function);
        entry->closure = Py_XNewRef(closure);
    }
    return function;
}

/* The list that the arguments were handed over in is emptied by the new frame itself, with let_go(): by then it holds references
 * of its own. */
static PyObject *
start(ThreadContext *context, PyObject *function, const CallSite *site, PyObject *const *arguments, Py_ssize_t count)
{
    PyObject *outer = context->argument_list;
    context->argument_list = site->argument_list;
    PyObject *result = PyObject_Vectorcall(function, arguments, (size_t)count, NULL);
    context->argument_list = outer;
    return result;
}

/* What check_fn has fetched is the last argument. */
static PyObject *
call_with_fetched(ThreadContext *context, PyObject *function, const CallSite *site)
{
    Py_ssize_t count = site->argument_count;
    PyObject *few[CALL_SITE_INLINE_SLOTS + 1];
    PyObject **arguments = count < CALL_SITE_INLINE_SLOTS ? few : PyMem_New(PyObject *, count + 1);
    if (arguments == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        arguments[i] = site->slots[i];
    }
    arguments[count] = site->fetched == NULL ? Py_None : site->fetched;
    PyObject *result = start(context, function, site, arguments, count + 1);
    if (arguments != few) {
        PyMem_Free(arguments);
    }
    return result;
}

static PyObject *
run_untimed(ThreadContext *context, Entry *entry, const CallSite *site, int keep)
{
    if (site->inputs != NULL) {
        return graph_call_run(&entry->direct, context, site, entry->globals);
    }
    PyObject *function = function_for(entry, site->function->func_closure, keep);
    if (function == NULL) {
        return NULL;
    }
    PyObject *result = entry->fetches ? call_with_fetched(context, function, site)
                                      : start(context, function, site, site->slots, site->argument_count);
    Py_DECREF(function);
    return result;
}

PyObject *
entry_run(ThreadContext *context, Entry *entry, const CallSite *site, int keep)
{
    if (entry->latencies == NULL) {
        return run_untimed(context, entry, site, keep);
    }
    uint64_t start = latencies_now();
    PyObject *result = run_untimed(context, entry, site, keep);
    latencies_note(entry->latencies, start);
    return result;
}

/* ---- the type ---- */

/* 0, or -1 and ValueError: cached code takes every slot as a plain positional argument. */
static int
check_code(PyCodeObject *code, PyObject *closure, PyObject *extras)
{
    if (code->co_kwonlyargcount != 0 || (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS))) {
        PyErr_Format(PyExc_ValueError, "cached code %U must take its arguments as plain positionals", code->co_name);
        return -1;
    }
    Py_ssize_t cells = PyTuple_GET_SIZE(extras) + (closure == Py_None ? 0 : PyTuple_GET_SIZE(closure));
    if (closure != Py_None && cells != code->co_nfreevars) {
        PyErr_Format(PyExc_ValueError, "cached code %U has %d free variables, but the closure and the extras make %zd",
                     code->co_name, code->co_nfreevars, cells);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(extras); i++) {
        if (!PyCell_Check(PyTuple_GET_ITEM(extras, i))) {
            PyErr_Format(PyExc_TypeError, "extras of an Entry are cells, not %.100s",
                         Py_TYPE(PyTuple_GET_ITEM(extras, i))->tp_name);
            return -1;
        }
    }
    return never_trace(code);
}

static PyObject *
entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"check_fn", "code",     "globals", "extras", "closure", "needs_hook",
                               "name",     "qualname", "fetches", "direct", NULL};
    PyObject *check_fn, *code, *globals, *extras, *closure, *name = NULL, *qualname = NULL, *direct = Py_None;
    int needs_hook = -1, fetches = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO!O!O|$pUUpO:Entry", keywords, &check_fn, &code, &PyDict_Type,
                                     &globals, &PyTuple_Type, &extras, &closure, &needs_hook, &name, &qualname, &fetches,
                                     &direct)) {
        return NULL;
    }
    if (needs_hook < 0 || name == NULL || qualname == NULL) {
        PyErr_SetString(PyExc_TypeError, "Entry() needs needs_hook, name and qualname");
        return NULL;
    }
    if (!PyCallable_Check(check_fn)) {
        PyErr_Format(PyExc_TypeError, "check_fn must be callable, not %.100s", Py_TYPE(check_fn)->tp_name);
        return NULL;
    }
    if (closure != Py_None && !PyTuple_Check(closure)) {
        PyErr_Format(PyExc_TypeError, "closure must be a tuple or None, not %.100s", Py_TYPE(closure)->tp_name);
        return NULL;
    }
    if (code != Py_None && !PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "code must be a code object or None, not %.100s", Py_TYPE(code)->tp_name);
        return NULL;
    }
    if (code != Py_None && check_code((PyCodeObject *)code, closure, extras) < 0) {
        return NULL;
    }
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->check_fn = Py_NewRef(check_fn);
    self->code = code == Py_None ? NULL : (PyCodeObject *)Py_NewRef(code);
    self->globals = Py_NewRef(globals);
    self->extras = Py_NewRef(extras);
    self->name = Py_NewRef(name);
    self->qualname = Py_NewRef(qualname);
    self->needs_hook = (char)needs_hook;
    self->fetches = (char)fetches;
    self->valid = 1;
    if (direct != Py_None && graph_call_parse(&self->direct, direct, check_fn, self->code) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->check_fn);
    Py_VISIT(self->code);
    Py_VISIT(self->globals);
    Py_VISIT(self->extras);
    Py_VISIT(self->function);
    Py_VISIT(self->closure);
    Py_VISIT(self->direct.graph);
    Py_VISIT(self->extra);
    Py_VISIT(self->compiler);
    Py_VISIT(self->dict);
    return 0;
}

/* What running or naming the entry needs stays until the end; no cycle goes through a code object, a tuple of
 * cells or a name without going through what is cleared here. */
static int
entry_clear(Entry *self)
{
    self->valid = 0;
    entry_counts.deaths++;
    Py_CLEAR(self->check_fn);
    Py_CLEAR(self->function);
    Py_CLEAR(self->closure);
    Py_CLEAR(self->direct.graph);
    Py_CLEAR(self->extra);
    Py_CLEAR(self->compiler);
    Py_CLEAR(self->dict);
    return 0;
}

static void
entry_dealloc(Entry *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    entry_clear(self);
    graph_call_free(&self->direct);
    PyMem_Free(self->latencies);
    Py_CLEAR(self->code);
    Py_CLEAR(self->globals);
    Py_CLEAR(self->extras);
    Py_CLEAR(self->name);
    Py_CLEAR(self->qualname);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
entry_repr(Entry *self)
{
    return PyUnicode_FromFormat("<tracer Entry of %U: %zd hits%s%s%s>", self->qualname, self->hits,
                                self->code == NULL ? ", runs the original" : "", self->needs_hook ? ", needs the hook" : "",
                                self->valid ? "" : ", invalid");
}

static PyMemberDef entry_members[] = {
    {"check_fn", T_OBJECT_EX, offsetof(Entry, check_fn), READONLY, "Called with the argument slots; True is a hit."},
    {"code", T_OBJECT, offsetof(Entry, code), READONLY, "The code to run, or None: the original."},
    {"globals", T_OBJECT_EX, offsetof(Entry, globals), READONLY, NULL},
    {"extras", T_OBJECT_EX, offsetof(Entry, extras), READONLY, "Cells after those of the calling function."},
    {"name", T_OBJECT_EX, offsetof(Entry, name), READONLY, NULL},
    {"qualname", T_OBJECT_EX, offsetof(Entry, qualname), READONLY, NULL},
    {"needs_hook", T_BOOL, offsetof(Entry, needs_hook), READONLY, "Whether callees are offered to the region."},
    {"hits", T_PYSSIZET, offsetof(Entry, hits), 0, "How often check_fn held."},
    {"extra", T_OBJECT, offsetof(Entry, extra), 0, "Any object; this module does not look at it."},
    {NULL},
};

static PyObject *
entry_get_valid(Entry *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->valid);
}

static int
entry_set_valid(Entry *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || !PyBool_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "valid is True or False");
        return -1;
    }
    self->valid = value == Py_True;
    entry_counts.deaths += !self->valid;
    return 0;
}

static PyObject *
entry_get_latencies(Entry *self, void *Py_UNUSED(closure))
{
    if (self->latencies == NULL) {
        Py_RETURN_NONE;
    }
    return latencies_told(self->latencies);
}

static PyObject *
entry_time_runs(Entry *self, PyObject *Py_UNUSED(ignored))
{
    if (self->latencies == NULL) { /* it stays as long as the entry: a run may be under way in another thread */
        self->latencies = PyMem_Calloc(1, sizeof(Latencies));
        if (self->latencies == NULL) {
            return PyErr_NoMemory();
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef entry_methods[] = {
    {"time_runs", (PyCFunction)entry_time_runs, METH_NOARGS,
     "time_runs(): from now on notes how long each run takes, from the lookup to the result"},
    {NULL},
};

static PyObject *
entry_get_compiler(Entry *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->compiler == NULL ? Py_None : self->compiler);
}

static int
entry_set_compiler(Entry *self, PyObject *value, void *Py_UNUSED(closure))
{
    Py_XSETREF(self->compiler, value == Py_None ? NULL : Py_XNewRef(value));
    return 0;
}

static PyGetSetDef entry_getset[] = {
    {"compiler", (getter)entry_get_compiler, (setter)entry_set_compiler,
     "None, or what was forced when it was made: it serves only while that is. Set before it is installed.", NULL},
    {"latencies", (getter)entry_get_latencies, NULL,
     "None, or (sum of seconds, ((upper bound in seconds, count), ...)) of the runs since time_runs().", NULL},
    {"valid", (getter)entry_get_valid, (setter)entry_set_valid, "False: never hit again, dropped at the next lookup.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Entry",
    .tp_doc = PyDoc_STR(
        "Entry(check_fn, code, globals, extras, closure, *, needs_hook, name, qualname, fetches=False,\n"
        "direct=None)\n--\n\n"
        "A check function and the code to run in place of the original when it holds. `direct`: (graph, inputs,\n"
        "original) if the code returns graph(*inputs)[0] and does nothing else, but runs the code `original` on\n"
        "the slots where that raises. An input is the index of a slot, or -1 - i for what check_fn hands out at i."),
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = entry_new,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_repr = (reprfunc)entry_repr,
    .tp_methods = entry_methods,
    .tp_members = entry_members,
    .tp_getset = entry_getset,
    .tp_dictoffset = offsetof(Entry, dict),
    .tp_weaklistoffset = offsetof(Entry, weakrefs),
};
