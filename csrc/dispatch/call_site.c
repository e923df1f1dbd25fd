/* Binding follows initialize_locals() of CPython's ceval.c for calls that succeed. Any other call is left to CPython, which
 * raises the right TypeError. Keywords that are no plain str are left to it too: comparing them may run user code. */
#include "dispatch/call_site.h"

static void
site_init(CallSite *site, Region *region, PyFunctionObject *function)
{
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    site->region = region;
    site->function = function;
    site->code = (PyCodeObject *)Py_NewRef(code);
    site->argument_count = code_slot_count(code);
    site->check_count = site->argument_count + (code->co_nfreevars != 0);
    site->owned = 0;
    site->fetched = NULL;
    site->argument_list = NULL;
    site->heap = NULL;
    site->inputs = NULL;
    site->searched[0] = site->searched[1] = NULL;
}

/* Room for the slots that is ours to write; NULL with MemoryError. */
static PyObject **
own_slots(CallSite *site)
{
    PyObject **slots = site->inline_slots;
    if (site->check_count > CALL_SITE_INLINE_SLOTS) {
        slots = site->heap = PyMem_New(PyObject *, site->check_count);
        if (slots == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
    }
    if (site->check_count > site->argument_count) {
        PyObject *closure = site->function->func_closure;
        slots[site->argument_count] = closure == NULL ? Py_None : closure;
    }
    site->slots = slots;
    return slots;
}

/* Takes values that stand in slot order already, one for each argument. */
static int
take_slots(CallSite *site, PyObject *const *values)
{
    if (site->check_count == site->argument_count) {
        site->slots = values;
        return 1;
    }
    PyObject **slots = own_slots(site);
    if (slots == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < site->argument_count; i++) { /* memcpy() takes no NULL, which `values` is without arguments */
        slots[i] = values[i];
    }
    return 1;
}

/* Reads them from a frame that keeps them in another form. */
static int
copy_slots(CallSite *site, Frame *frame)
{
    PyObject **slots = own_slots(site);
    if (slots == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < site->argument_count; i++) {
        slots[i] = frame_argument(frame, i);
    }
    return 1;
}

PyObject **
call_site_reserve_inputs(CallSite *site, Py_ssize_t count)
{
    PyObject **room = count < CALL_SITE_INLINE_SLOTS ? site->inline_inputs : PyMem_New(PyObject *, count + 1);
    if (room == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    return site->inputs = room + 1;
}

void
call_site_drop_found(CallSite *site)
{
    if (site->inputs != NULL && site->inputs != site->inline_inputs + 1) {
        PyMem_Free(site->inputs - 1);
    }
    site->inputs = NULL;
    Py_CLEAR(site->fetched);
}

void
call_site_clear(CallSite *site)
{
    for (Py_ssize_t i = 0; i < site->owned; i++) {
        Py_XDECREF(site->slots[i]);
    }
    site->owned = 0;
    call_site_drop_found(site);
    Py_CLEAR(site->searched[0]);
    Py_CLEAR(site->searched[1]);
    if (site->heap != NULL) {
        PyMem_Free(site->heap);
        site->heap = NULL;
    }
    Py_CLEAR(site->code);
}

/* Clears what was not filled. */
static int
finish(CallSite *site, int done)
{
    if (done != 1) {
        call_site_clear(site);
    }
    return done;
}

int
call_site_from_frame(CallSite *site, Region *region, Frame *frame)
{
    site_init(site, region, frame_function(frame));
    for (Py_ssize_t i = 0; i < site->argument_count; i++) {
        if (frame_argument(frame, i) == NULL) {
            return finish(site, 0);
        }
    }
    PyObject *const *values = frame_arguments(frame);
    return finish(site, values == NULL ? copy_slots(site, frame) : take_slots(site, values));
}

/* The slot that a keyword names, -1 if none does. */
static Py_ssize_t
keyword_slot(PyCodeObject *code, PyObject *name)
{
    PyObject *names = code->co_localsplusnames;
    Py_ssize_t end = (Py_ssize_t)code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_posonlyargcount; i < end; i++) {
        if (PyTuple_GET_ITEM(names, i) == name) {
            return i;
        }
    }
    for (Py_ssize_t i = code->co_posonlyargcount; i < end; i++) {
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name) == 0) {
            return i;
        }
    }
    return -1;
}

static int
bind_keywords(CallSite *site, PyObject **slots, PyObject *const *values, PyObject *keyword_names)
{
    int takes_others = (site->code->co_flags & CO_VARKEYWORDS) != 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keyword_names); i++) {
        PyObject *name = PyTuple_GET_ITEM(keyword_names, i);
        if (!PyUnicode_CheckExact(name)) {
            return 0; /* comparing it could run user code */
        }
        Py_ssize_t slot = keyword_slot(site->code, name);
        if (slot >= 0 && slots[slot] == NULL) {
            slots[slot] = Py_NewRef(values[i]);
        }
        else if (slot >= 0 || !takes_others) {
            return 0; /* given twice, or unknown */
        }
        else if (PyDict_SetItem(slots[site->argument_count - 1], name, values[i]) < 0) {
            return -1;
        }
    }
    return 1;
}

static int
bind_defaults(CallSite *site, PyObject **slots)
{
    PyObject *defaults = site->function->func_defaults;
    Py_ssize_t positional = site->code->co_argcount;
    Py_ssize_t first = positional - (defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults));
    for (Py_ssize_t i = 0; i < positional; i++) {
        if (slots[i] == NULL) {
            if (i < first) {
                return 0;
            }
            slots[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - first));
        }
    }
    PyObject *keyword_defaults = site->function->func_kwdefaults;
    for (Py_ssize_t i = positional; i < positional + site->code->co_kwonlyargcount; i++) {
        if (slots[i] == NULL && keyword_defaults != NULL) {
            PyObject *name = PyTuple_GET_ITEM(site->code->co_localsplusnames, i);
            slots[i] = Py_XNewRef(PyDict_GetItemWithError(keyword_defaults, name));
        }
        if (slots[i] == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    return 1;
}

/* Makes the *args tuple of what is left over and the empty **kwargs dict, in their slots. */
static int
bind_variable(CallSite *site, PyObject **slots, PyObject *const *arguments, Py_ssize_t positional)
{
    PyCodeObject *code = site->code;
    Py_ssize_t slot = (Py_ssize_t)code->co_argcount + code->co_kwonlyargcount;
    Py_ssize_t left_over = Py_MAX(positional - code->co_argcount, 0);
    if (code->co_flags & CO_VARARGS) {
        PyObject *rest = slots[slot++] = PyTuple_New(left_over);
        if (rest == NULL) {
            return -1;
        }
        for (Py_ssize_t i = 0; i < left_over; i++) {
            PyTuple_SET_ITEM(rest, i, Py_NewRef(arguments[code->co_argcount + i]));
        }
    }
    else if (left_over > 0) {
        return 0;
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        slots[slot] = PyDict_New();
        return slots[slot] == NULL ? -1 : 1;
    }
    return 1;
}

static int
bind(CallSite *site, PyObject *const *arguments, Py_ssize_t positional, PyObject *keyword_names)
{
    PyObject **slots = own_slots(site);
    if (slots == NULL) {
        return -1;
    }
    Py_ssize_t given = Py_MIN(positional, site->code->co_argcount);
    for (Py_ssize_t i = 0; i < site->argument_count; i++) {
        slots[i] = i < given ? Py_NewRef(arguments[i]) : NULL;
    }
    site->owned = site->argument_count;
    int done = bind_variable(site, slots, arguments, positional);
    if (done == 1 && keyword_names != NULL) {
        done = bind_keywords(site, slots, arguments + positional, keyword_names);
    }
    return done == 1 ? bind_defaults(site, slots) : done;
}

int
call_site_from_call(CallSite *site, Region *region, PyFunctionObject *function, PyObject *const *arguments,
                    Py_ssize_t positional, PyObject *keyword_names)
{
    site_init(site, region, function);
    int as_given = (site->code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) == 0 && site->code->co_kwonlyargcount == 0
                   && positional == site->argument_count && keyword_names == NULL;
    return finish(site, as_given ? take_slots(site, arguments) : bind(site, arguments, positional, keyword_names));
}
