/* The check of the guards reads the inputs of the graph on its way, and keeps them as borrowed references. No other code runs
 * between that and the call of the graph, so nothing can release them. Where the graph raises, the program's own code is run. */
#include "dispatch/graph_call.h"

#include "hook/code_marks.h"

/* ---- checking ---- */

static void
place_inputs(const GraphCall *self, PyObject *const *slots, PyObject *const *values, PyObject **inputs)
{
    for (Py_ssize_t i = 0; i < self->stretch_count; i++) {
        const Stretch *stretch = &self->inputs[i];
        PyObject *const *from = (stretch->of_slots ? slots : values) + stretch->first;
        for (Py_ssize_t j = 0; j < stretch->count; j++) {
            *inputs++ = from[j];
        }
    }
}

static Outcome
look(const GraphCall *self, PyObject *check_fn, CallSite *site, PyObject **values)
{
    Outcome outcome = checklist_look(check_fn, site->slots, values);
    if (outcome == HOLDS) {
        PyObject **inputs = call_site_reserve_inputs(site, self->input_count);
        if (inputs == NULL) {
            PyErr_Clear();
            return UNSURE;
        }
        place_inputs(self, site->slots, values, inputs);
    }
    return outcome;
}

Outcome
graph_call_bind(const GraphCall *self, PyObject *check_fn, CallSite *site)
{
    PyObject *few[CHECKLIST_FEW_VALUES], **values = checklist_take_room(check_fn, few);
    Outcome outcome = values == NULL ? UNSURE : look(self, check_fn, site, values);
    checklist_give_back(values, few);
    return outcome;
}

/* ---- running ---- */

/* A plain function takes references to its arguments before any other code runs; other callables need not. */
static int
is_plain_function(PyObject *callable)
{
    return PyFunction_Check(callable) && ((PyFunctionObject *)callable)->vectorcall == plain_function_vectorcall();
}

static PyObject *
call_holding_inputs(PyObject *callable, PyObject **inputs, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_INCREF(inputs[i]);
    }
    PyObject *results = PyObject_Vectorcall(callable, inputs, (size_t)count, NULL);
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_DECREF(inputs[i]);
    }
    return results;
}

/* There is room before the inputs: for the object of a method, whose function is called as the method would call it. */
static PyObject *
call_graph(const GraphCall *self, PyObject **inputs)
{
    PyObject *graph = Py_NewRef(self->graph), *function = graph;
    Py_ssize_t count = self->input_count;
    if (PyMethod_Check(graph)) {
        function = PyMethod_GET_FUNCTION(graph);
        *--inputs = PyMethod_GET_SELF(graph);
        count++;
    }
    PyObject *results = is_plain_function(function)
                            ? ((PyFunctionObject *)function)->vectorcall(function, inputs, (size_t)count, NULL)
                            : call_holding_inputs(function, inputs, count);
    Py_DECREF(graph);
    return results;
}

static int
is_of_class(PyObject *error, const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *cls = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    int matches = cls != NULL && PyErr_GivenExceptionMatches(error, cls);
    PyErr_Clear();
    Py_XDECREF(cls);
    Py_XDECREF(module);
    return matches;
}

/* As py_is_failure() says, of an exception or its class; no exception is set. */
static int
is_failure(PyObject *error)
{
    if (!PyErr_GivenExceptionMatches(error, PyExc_Exception)) {
        return 0;
    }
    return !is_of_class(error, "torch.utils.checkpoint", "_StopRecomputationError")
           && !is_of_class(error, "tracer.errors", "TracerError");
}

PyObject *
py_is_failure(PyObject *Py_UNUSED(module), PyObject *error)
{
    return PyBool_FromLong(is_failure(error));
}

/* A function of tracer/effects/graph_failures.py, called with the program's code and one more argument. Logging never fails a call:
 * where it raises, that is shown as unraisable, and None is the result. */
static PyObject *
tell(const char *function, const GraphCall *self, PyObject *argument)
{
    PyObject *module = PyImport_ImportModule("tracer.effects.graph_failures");
    PyObject *result = module == NULL ? NULL : PyObject_CallMethod(module, function, "OO", self->original, argument);
    Py_XDECREF(module);
    if (result == NULL) {
        PyErr_WriteUnraisable((PyObject *)self->original);
        return Py_NewRef(Py_None);
    }
    return result;
}

/* Of the exception that is set: a text of it if it is a failure, and then it is cleared; else NULL, and it stays. */
static PyObject *
forget_failure(const GraphCall *self)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!is_failure(type)) {
        PyErr_Restore(type, value, traceback);
        return NULL;
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = tell("describe", self, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return text;
}

/* CPython runs the program's own code, which raises at the program's own line. */
static PyObject *
run_original(const GraphCall *self, const CallSite *site, PyObject *globals)
{
    PyObject *function = PyFunction_New((PyObject *)self->original, globals);
    if (function == NULL) {
        return NULL;
    }
    Py_XSETREF(((PyFunctionObject *)function)->func_closure, Py_XNewRef(site->function->func_closure));
    PyObject *result = PyObject_Vectorcall(function, site->slots, (size_t)site->argument_count, NULL);
    Py_DECREF(function);
    return result;
}

/* After the graph raised: the program, if that was a failure. */
static PyObject *
run_instead(const GraphCall *self, const CallSite *site, PyObject *globals)
{
    PyObject *failure = forget_failure(self);
    if (failure == NULL) {
        return NULL;
    }
    PyObject *result = run_original(self, site, globals);
    if (result != NULL) {
        Py_DECREF(tell("report", self, failure));
    }
    Py_DECREF(failure);
    return result;
}

/* Steals the results. */
static PyObject *
first_of(PyObject *results)
{
    PyObject *first;
    if (PyTuple_CheckExact(results) && PyTuple_GET_SIZE(results) > 0) {
        first = Py_NewRef(PyTuple_GET_ITEM(results, 0));
    }
    else {
        PyObject *zero = PyLong_FromLong(0);
        first = PyObject_GetItem(results, zero);
        Py_DECREF(zero);
    }
    Py_DECREF(results);
    return first;
}

PyObject *
graph_call_run(const GraphCall *self, ThreadContext *context, const CallSite *site, PyObject *globals)
{
    PyObject *outer = context->argument_list;
    context->argument_list = NULL;
    PyObject *result = NULL, *results = call_graph(self, site->inputs);
    if (results != NULL) {
        result = first_of(results);
    }
    else {
        result = run_instead(self, site, globals);
    }
    context->argument_list = outer;
    return result;
}

/* ---- parsing ---- */

static int
bad_call(void)
{
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError,
                        "Entry: direct is (graph, indices of inputs, code that takes the same slots), or None");
    }
    return -1;
}

static void
add_input(GraphCall *self, int of_slots, Py_ssize_t place)
{
    Stretch *next = &self->inputs[self->stretch_count];
    if (self->stretch_count > 0 && next[-1].of_slots == of_slots && next[-1].first + next[-1].count == place) {
        next[-1].count++;
    }
    else {
        *next = (Stretch){of_slots, place, 1};
        self->stretch_count++;
    }
}

static int
parse_inputs(GraphCall *self, PyObject *inputs, Py_ssize_t slots, const Indices *fetched)
{
    self->input_count = PyTuple_GET_SIZE(inputs);
    self->inputs = PyMem_New(Stretch, self->input_count + 1);
    if (self->inputs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->input_count; i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(inputs, i));
        if (PyErr_Occurred() || place >= slots || -1 - place >= fetched->count) {
            return bad_call();
        }
        add_input(self, place >= 0, place >= 0 ? place : fetched->items[-1 - place]);
    }
    return 0;
}

int
graph_call_parse(GraphCall *self, PyObject *tuple, PyObject *check_fn, PyCodeObject *code)
{
    PyObject *graph, *inputs, *original;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "OO!O!", &graph, &PyTuple_Type, &inputs, &PyCode_Type, &original)
        || !PyCallable_Check(graph) || code == NULL || code_slot_count((PyCodeObject *)original) > code->co_argcount) {
        return bad_call();
    }
    const Indices *fetched = Checklist_Check(check_fn) ? checklist_fetched(check_fn) : NULL;
    if (fetched == NULL) { /* a function has to be called: then the code is run */
        return 0;
    }
    if (parse_inputs(self, inputs, code_slot_count((PyCodeObject *)original), fetched) < 0) {
        return -1;
    }
    self->original = (PyCodeObject *)Py_NewRef(original);
    self->graph = Py_NewRef(graph);
    return never_trace(self->original);
}

void
graph_call_free(GraphCall *self)
{
    PyMem_Free(self->inputs);
    Py_CLEAR(self->original);
}
