/* Where the list cannot tell, the function `whole` is asked, which checks every guard in Python. */
#include "guards/checklist.h"

#include <structmember.h>

#include "guards/steady.h"
#include "tensors/tensor_checks.h"
#include "guards/unchanged.h"

/* ---- values ---- */

PyObject **
checklist_take_room(PyObject *checklist, PyObject **few)
{
    Py_ssize_t count = ((Checklist *)checklist)->value_count;
    return count > CHECKLIST_FEW_VALUES ? PyMem_New(PyObject *, count) : few;
}

void
checklist_give_back(PyObject **room, PyObject **few)
{
    if (room != few) {
        PyMem_Free(room);
    }
}

const Indices *
checklist_fetched(PyObject *checklist)
{
    const Checklist *self = (Checklist *)checklist;
    return self->has_rest ? NULL : &self->fetched;
}

Outcome
checklist_look(PyObject *checklist, PyObject *const *slots, PyObject **values)
{
    Outcome outcome = checklist_holds((Checklist *)checklist, slots, values);
    if (outcome != HOLDS) {
        PyErr_Clear();
    }
    return outcome;
}

/* ---- calling ---- */

/* What is handed out where the list holds. */
static void
fill(const Checklist *self, PyObject *answer, PyObject *const *values)
{
    for (Py_ssize_t i = 0; self->fetches && i < self->fetched.count; i++) {
        PyTuple_SET_ITEM(answer, i, Py_NewRef(values[self->fetched.items[i]]));
    }
}

static PyObject *
ask(const Checklist *self, PyObject *function, PyObject *const *slots)
{
    if (function == NULL) { /* cleared by the garbage collector */
        Py_RETURN_FALSE;
    }
    Py_INCREF(function);
    PyObject *answer = PyObject_Vectorcall(function, slots, (size_t)self->slot_count, NULL);
    Py_DECREF(function);
    return answer;
}

/* `answer` (stolen) if the rest holds, else what the rest says. */
static PyObject *
with_rest(const Checklist *self, PyObject *answer, PyObject *const *slots)
{
    if (!self->has_rest) {
        return answer;
    }
    PyObject *of_rest = ask(self, self->rest, slots);
    if (of_rest != Py_True) {
        Py_DECREF(answer);
        return of_rest;
    }
    Py_DECREF(of_rest);
    return answer;
}

static PyObject *
checklist_call(PyObject *callable, PyObject *const *slots, size_t nargsf, PyObject *keywords)
{
    const Checklist *self = (Checklist *)callable;
    if (keywords != NULL || PyVectorcall_NARGS(nargsf) != self->slot_count) {
        PyErr_Format(PyExc_TypeError, "this check_fn takes %zd arguments, positionally; %zd were given", self->slot_count,
                     PyVectorcall_NARGS(nargsf));
        return NULL;
    }
    PyObject *few[CHECKLIST_FEW_VALUES];
    PyObject **values = checklist_take_room(callable, few);
    if (values == NULL) {
        return PyErr_NoMemory();
    }
    /* Before the values are read: making a tuple may collect garbage, which runs finalizers. */
    PyObject *answer = self->fetches ? PyTuple_New(self->fetched.count) : Py_NewRef(Py_True);
    Outcome outcome = answer == NULL ? UNSURE : checklist_look(callable, slots, values);
    if (outcome == HOLDS) {
        fill(self, answer, values);
    }
    checklist_give_back(values, few);
    if (outcome == HOLDS) {
        return with_rest(self, answer, slots);
    }
    Py_XDECREF(answer);
    PyErr_Clear();
    return outcome == FAILS ? Py_NewRef(Py_False) : ask(self, self->whole, slots);
}

/* ---- parsing ---- */

static int
bad_list(const char *what, Py_ssize_t index)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "Checklist: %s %zd makes no sense", what, index);
    }
    return -1;
}

static void *
room_for(PyObject *tuple, size_t size)
{
    void *room = PyMem_Calloc((size_t)PyTuple_GET_SIZE(tuple) + 1, size);
    if (room == NULL) {
        PyErr_NoMemory();
    }
    return room;
}

/* (steady, match or None, root); see SteadyGroup */
static int
parse_groups(Checklist *self, PyObject *groups)
{
    self->groups = room_for(groups, sizeof(SteadyGroup));
    for (Py_ssize_t i = 0; self->groups != NULL && i < PyTuple_GET_SIZE(groups); i++) {
        SteadyGroup *group = &self->groups[i];
        PyObject *item = PyTuple_GET_ITEM(groups, i);
        if (!PyTuple_Check(item)
            || !PyArg_ParseTuple(item, "O!On", &Steady_Type, &group->steady, &group->match, &group->root)
            || group->root < -1 - self->step_count || group->root >= self->slot_count
            || steady_root_count(group->steady) != (group->root != -1)) {
            return bad_list("group", i);
        }
        group->first = self->value_count;
        group->count = steady_held_count(group->steady);
        group->match = group->match == Py_None ? NULL : group->match;
        if (group->match != NULL && tensor_match_count(group->match) != group->count) {
            return bad_list("group", i);
        }
        self->value_count += group->count;
        self->group_count++;
    }
    return self->groups == NULL ? -1 : 0;
}

/* (feature, low, high) */
static int
parse_ranges(Checklist *self, PyObject *ranges)
{
    self->ranges = room_for(ranges, sizeof(Range));
    for (Py_ssize_t i = 0; self->ranges != NULL && i < PyTuple_GET_SIZE(ranges); i++) {
        Range *range = &self->ranges[i];
        long long low, high;
        PyObject *item = PyTuple_GET_ITEM(ranges, i);
        if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "nLL", &range->feature, &low, &high) || range->feature < 0
            || range->feature >= self->features.count) {
            return bad_list("range", i);
        }
        range->low = low;
        range->high = high;
        self->range_count++;
    }
    return self->ranges == NULL ? -1 : 0;
}

static int
is_text(PyObject *object)
{
    return PyUnicode_CheckExact(object);
}

static int
are_texts(PyObject *object)
{
    int all = PyTuple_CheckExact(object);
    for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(object); i++) {
        all = is_text(PyTuple_GET_ITEM(object, i));
    }
    return all;
}

/* (value, str or tuple of str) */
static int
parse_equals(Checklist *self, PyObject *equals)
{
    self->equals = room_for(equals, sizeof(Equal));
    for (Py_ssize_t i = 0; self->equals != NULL && i < PyTuple_GET_SIZE(equals); i++) {
        Equal *equal = &self->equals[i];
        PyObject *item = PyTuple_GET_ITEM(equals, i);
        if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "nO", &equal->value, &equal->expected) || equal->value < 0
            || equal->value >= self->value_count || !(is_text(equal->expected) || are_texts(equal->expected))) {
            return bad_list("text", i);
        }
        self->equal_count++;
    }
    return self->equals == NULL ? -1 : 0;
}

static int
parse_indices(Checklist *self, PyObject *tuple, Indices *indices)
{
    indices->items = room_for(tuple, sizeof(Py_ssize_t));
    for (Py_ssize_t i = 0; indices->items != NULL && i < PyTuple_GET_SIZE(tuple); i++) {
        indices->items[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
        if (indices->items[i] < 0 || indices->items[i] >= self->value_count) {
            return bad_list("index", i);
        }
        indices->count++;
    }
    return indices->items == NULL ? -1 : 0;
}

static int
parse_steps(Checklist *self, PyObject *steps)
{
    self->steps = steps_parse(steps, self->slot_count);
    self->step_count = self->value_count = PyTuple_GET_SIZE(steps);
    return self->steps == NULL ? -1 : 0;
}

/* The objects that are called in C are of the types that these calls are for. */
static int
take_objects(Checklist *self, PyObject *state, PyObject *counter, PyObject *unchanged, PyObject *match)
{
    self->state = state == Py_None ? NULL : state;
    self->counter = counter == Py_None ? NULL : (Counter *)counter;
    self->unchanged = unchanged == Py_None ? NULL : unchanged;
    self->match = match == Py_None ? NULL : match;
    if ((self->state != NULL && !is_global_state(state)) || (self->counter != NULL && !Py_IS_TYPE(counter, &Counter_Type))
        || (self->unchanged != NULL && !Py_IS_TYPE(unchanged, &Unchanged_Type))
        || (self->match != NULL && tensor_match_count(match) != self->tensors.count)) {
        PyErr_SetString(PyExc_TypeError, "Checklist: state, counter, unchanged and match are a GlobalState, a Counter, an "
                                         "Unchanged and a TensorMatch for as many tensors, or None");
        return -1;
    }
    return 0;
}

/* ---- the type ---- */

static PyObject *
checklist_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"slots",  "state",       "counter", "count",  "unchanged", "steps",
                               "groups", "features",    "ranges",  "equals", "match",     "tensors",
                               "apart",  "known_apart", "fetched", "rest",   "whole",     NULL};
    PyObject *state, *counter, *unchanged, *steps, *groups, *features, *ranges, *equals, *match, *tensors, *apart, *fetched;
    PyObject *rest = Py_None, *whole = Py_None;
    Py_ssize_t slots, known_apart;
    long long count;
    PyTypeObject *tuple = &PyTuple_Type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nOOLOO!O!O!O!O!OO!O!nO|$OO:Checklist", keywords, &slots, &state,
                                     &counter, &count, &unchanged, tuple, &steps, tuple, &groups, tuple, &features, tuple,
                                     &ranges, tuple, &equals, &match, tuple, &tensors, tuple, &apart, &known_apart, &fetched,
                                     &rest, &whole)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(args) != 15 || (fetched != Py_None && !PyTuple_Check(fetched))) {
        PyErr_SetString(PyExc_TypeError, "Checklist takes 15 positional arguments; fetched is a tuple or None");
        return NULL;
    }
    Checklist *self = (Checklist *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = checklist_call;
    self->plan = Py_NewRef(args);
    self->slot_count = slots;
    self->fetches = fetched != Py_None;
    self->has_rest = rest != Py_None;
    self->rest = self->has_rest ? Py_NewRef(rest) : NULL;
    self->whole = Py_NewRef(whole);
    self->known_apart = known_apart;
    self->count = count;
    if (parse_steps(self, steps) < 0 || features_parse(&self->features, features, self->step_count) < 0
        || parse_groups(self, groups) < 0 || parse_ranges(self, ranges) < 0 || parse_equals(self, equals) < 0
        || parse_indices(self, tensors, &self->tensors) < 0 || parse_indices(self, apart, &self->apart) < 0
        || (self->fetches && parse_indices(self, fetched, &self->fetched) < 0)
        || (known_apart >= self->group_count && bad_list("group", known_apart) < 0)
        || take_objects(self, state, counter, unchanged, match) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
checklist_traverse(Checklist *self, visitproc visit, void *arg)
{
    Py_VISIT(self->plan);
    Py_VISIT(self->rest);
    Py_VISIT(self->whole);
    return 0;
}

/* The plan stays until the end, for much is borrowed from it. */
static int
checklist_clear(Checklist *self)
{
    Py_CLEAR(self->rest);
    Py_CLEAR(self->whole);
    return 0;
}

static void
checklist_dealloc(Checklist *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    checklist_clear(self);
    PyMem_Free(self->steps);
    features_free(&self->features);
    PyMem_Free(self->ranges);
    PyMem_Free(self->equals);
    PyMem_Free(self->groups);
    PyMem_Free(self->tensors.items);
    PyMem_Free(self->apart.items);
    PyMem_Free(self->fetched.items);
    Py_CLEAR(self->plan);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef checklist_members[] = {
    {"plan", T_OBJECT, offsetof(Checklist, plan), READONLY, "The positional arguments that it was made with."},
    {"rest", T_OBJECT, offsetof(Checklist, rest), READONLY, "The guards that are not on the list, or None."},
    {"whole", T_OBJECT, offsetof(Checklist, whole), READONLY, "All guards, in Python; asked where the list cannot tell."},
    {NULL},
};

PyTypeObject Checklist_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Checklist",
    .tp_doc = PyDoc_STR("A check_fn of which most is done in C; tracer/guards/checklist.py makes it."),
    .tp_basicsize = sizeof(Checklist),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Checklist, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = checklist_new,
    .tp_dealloc = (destructor)checklist_dealloc,
    .tp_traverse = (traverseproc)checklist_traverse,
    .tp_clear = (inquiry)checklist_clear,
    .tp_members = checklist_members,
    .tp_weaklistoffset = offsetof(Checklist, weakrefs),
};
