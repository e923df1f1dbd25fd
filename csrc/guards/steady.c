/* A group of guards that held is asked again only if a word has moved on the way to what it read: the version of a dict,
 * the type of an object, a slot. Where the version of a dict has moved, the keys that were read are looked up, and if they
 * have the same values, the new version is remembered. Nothing guarded is kept alive. */
#include "guards/steady.h"

#include "guards/plain_keys.h"
#include "guards/versions.h"

#include <structmember.h>

#define SEEN_NAME "tracer._C.Steady.look"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *keys, *constants; /* tuples: what steps and tests borrow from */
    Plan plan;
    Memo *memo;          /* NULL: nothing is known to have held */
    unsigned int misses; /* in a row */
    int in_vain;         /* whether asking told nothing the last time */
    PyObject *weakrefs;
} Steady;

/* ---- checking ---- */

/* The facts of a dict whose version has moved. */
static int
facts_hold(const Memo *memo, const DictWatch *watch)
{
    if (watch->whole) {
        return 0;
    }
    for (Py_ssize_t i = watch->fact; i >= 0; i = memo->facts[i].next) {
        int known;
        const Fact *fact = &memo->facts[i];
        PyObject *value = find_plain_key(watch->dict, fact->key, &known);
        if (!known || value != fact->value || (fact->type != NULL && !Py_IS_TYPE(value, fact->type))) {
            return 0;
        }
    }
    return 1;
}

static int
is_word(const Word *word)
{
    uint64_t now;
    memcpy(&now, word->address, sizeof(now));
    return now == word->expected;
}

/* Whether the word at `index` is the version of a dict in which nothing that matters has changed. */
static int
moved_without_meaning(Memo *memo, Py_ssize_t index)
{
    for (Py_ssize_t i = 0; i < memo->dict_count; i++) {
        const DictWatch *watch = &memo->dicts[i];
        if (watch->word == index) {
            const uint64_t *address = version_of_dict_from_now(watch->dict); /* elsewhere, if another dict is there now */
            uint64_t version = *address;
            if (!facts_hold(memo, watch)) {
                return 0;
            }
            memo->words[index] = (Word){address, version};
            return 1;
        }
    }
    return 0;
}

/* The order matters: a word may be read because those before it are as they were. Hardly any has moved, and there are
 * thousands. */
static int
memo_holds(Memo *memo, PyObject *const *roots)
{
    for (Py_ssize_t i = 0; i < memo->root_count; i++) {
        if (memo->roots[i] != roots[i]) {
            return 0;
        }
    }
    const Word *words = memo->words;
    for (Py_ssize_t i = 0, count = memo->word_count; i < count; i++) {
        if (__builtin_expect(!is_word(&words[i]), 0) && !moved_without_meaning(memo, i)) {
            return 0;
        }
    }
    for (Py_ssize_t i = 0; i < memo->type_count; i++) {
        if (version_of_class(memo->types[i].type) != memo->types[i].version) {
            return 0;
        }
    }
    return 1;
}

PyObject *const *
steady_held(PyObject *steady, PyObject *const *roots)
{
    Steady *self = (Steady *)steady;
    if (self->memo == NULL || !memo_holds(self->memo, roots)) {
        return NULL;
    }
    self->misses = 0;
    return self->memo->held;
}

Py_ssize_t
steady_held_count(PyObject *steady)
{
    return ((Steady *)steady)->plan.held_count;
}

Py_ssize_t
steady_root_count(PyObject *steady)
{
    return ((Steady *)steady)->plan.root_count;
}

static int
check_count(Steady *self, Py_ssize_t count)
{
    if (count != self->plan.root_count) {
        PyErr_Format(PyExc_TypeError, "this Steady takes %zd roots, %zd were given", self->plan.root_count, count);
        return -1;
    }
    return 0;
}

static PyObject *
steady_call(PyObject *object, PyObject *const *roots, size_t nargsf, PyObject *Py_UNUSED(keywords))
{
    Steady *self = (Steady *)object;
    if (check_count(self, PyVectorcall_NARGS(nargsf)) < 0) {
        return NULL;
    }
    /* Before the check: making a tuple may collect garbage, which runs finalizers. */
    PyObject *values = self->memo == NULL ? NULL : PyTuple_New(self->plan.held_count);
    if (values != NULL && memo_holds(self->memo, roots)) {
        self->misses = 0;
        for (Py_ssize_t i = 0; i < self->plan.held_count; i++) {
            PyTuple_SET_ITEM(values, i, Py_NewRef(self->memo->held[i]));
        }
        return values;
    }
    Py_XDECREF(values);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* ---- remembering ---- */

static void
free_seen(PyObject *capsule)
{
    memo_free(PyCapsule_GetPointer(capsule, SEEN_NAME));
}

/* Less and less often, where it is in vain. */
static int
is_worth_looking(Steady *self)
{
    unsigned int misses = self->misses < UINT_MAX ? self->misses++ : UINT_MAX;
    return (misses & (misses - 1)) == 0;
}

static PyObject *
steady_look(Steady *self, PyObject *const *roots, Py_ssize_t count)
{
    if (check_count(self, count) < 0) {
        return NULL;
    }
    Memo *memo = is_worth_looking(self) ? memo_record(&self->plan, roots, NULL) : NULL;
    if (memo == NULL) {
        Py_RETURN_NONE;
    }
    PyObject *seen = PyCapsule_New(memo, SEEN_NAME, free_seen);
    if (seen == NULL) {
        memo_free(memo);
    }
    return seen;
}

/* The guards may have let other threads run: what they saw is what was noted before if that still holds. */
static PyObject *
steady_keep(Steady *self, PyObject *const *args, Py_ssize_t count)
{
    if (count < 1 || check_count(self, count - 1) < 0) {
        return NULL;
    }
    if (!PyCapsule_IsValid(args[0], SEEN_NAME)) {
        Py_RETURN_NONE;
    }
    Memo *seen = PyCapsule_GetPointer(args[0], SEEN_NAME);
    if (memo_holds(seen, args + 1)) {
        /* The capsule gets what was known before, and frees it. */
        Memo *before = self->memo;
        if (before == NULL) {
            PyCapsule_SetDestructor(args[0], NULL);
        }
        else {
            PyCapsule_SetPointer(args[0], before);
        }
        self->memo = seen;
    }
    Py_RETURN_NONE;
}

Outcome
steady_ask(PyObject *steady, PyObject *const *roots)
{
    Steady *self = (Steady *)steady;
    Outcome outcome = UNSURE;
    if (self->plan.tests == NULL || (self->in_vain && !is_worth_looking(self))) {
        return UNSURE;
    }
    Memo *memo = memo_record(&self->plan, roots, &outcome);
    if (memo != NULL) {
        Memo *before = self->memo;
        self->memo = memo;
        memo_free(before);
    }
    self->in_vain = outcome == UNSURE;
    return outcome;
}

static PyObject *
steady_known(Steady *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->memo != NULL);
}

/* ---- the type ---- */

/* Nothing but the keys themselves is kept of the steps' tuple. */
static int
read_plan(Steady *self, PyObject *steps, PyObject *held)
{
    self->plan.steps = steps_parse(steps, self->plan.root_count);
    for (Py_ssize_t i = 0; self->plan.steps != NULL && i < self->plan.step_count; i++) {
        PyTuple_SET_ITEM(self->keys, i, Py_NewRef(self->plan.steps[i].key));
    }
    for (Py_ssize_t i = 0; self->plan.steps != NULL && i < self->plan.held_count; i++) {
        Py_ssize_t at = self->plan.held[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(held, i));
        if (at < 0 || at >= self->plan.step_count) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_ValueError, "a Steady has no step %zd", at);
            }
            return -1;
        }
    }
    return self->plan.steps == NULL ? -1 : 0;
}

/* Nothing but the constants themselves is kept of the tests' tuple. */
static int
read_tests(Steady *self, PyObject *tests)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tests), constants = 0;
    self->plan.tests = PyMem_New(Test, count + 1);
    self->constants = PyTuple_New(count);
    if (self->plan.tests == NULL || self->constants == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (tests_parse(tests, self->plan.step_count, self->plan.tests) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (test_has_constant(&self->plan.tests[i])) {
            PyTuple_SET_ITEM(self->constants, constants++, Py_NewRef(self->plan.tests[i].expected.constant));
        }
    }
    self->plan.test_count = count;
    return _PyTuple_Resize(&self->constants, constants);
}

static void *
copied(const void *from, size_t size)
{
    void *made = PyMem_Malloc(size + 1);
    return made == NULL ? NULL : memcpy(made, from, size);
}

static PyObject *
steady_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"roots", "steps", "held", "tests", "apart", NULL};
    PyObject *steps, *held, *tests = NULL;
    Py_ssize_t roots;
    int apart = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nO!O!|O!p:Steady", keywords, &roots, &PyTuple_Type, &steps,
                                     &PyTuple_Type, &held, &PyTuple_Type, &tests, &apart)) {
        return NULL;
    }
    Steady *self = (Steady *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = steady_call;
    self->keys = PyTuple_New(PyTuple_GET_SIZE(steps));
    self->plan.root_count = roots;
    self->plan.step_count = PyTuple_GET_SIZE(steps);
    self->plan.held_count = PyTuple_GET_SIZE(held);
    self->plan.apart = apart;
    self->plan.held = PyMem_New(Py_ssize_t, self->plan.held_count + 1);
    if (self->keys == NULL || self->plan.held == NULL) {
        PyErr_NoMemory();
        Py_CLEAR(self);
    }
    else if (read_plan(self, steps, held) < 0 || (tests != NULL && read_tests(self, tests) < 0)) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* Keys and constants are shared, for what borrows from them never changes. */
static PyObject *
steady_anew(Steady *self, PyObject *Py_UNUSED(unused))
{
    const Plan *plan = &self->plan;
    Steady *made = (Steady *)Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0);
    if (made == NULL) {
        return NULL;
    }
    made->vectorcall = steady_call;
    made->keys = Py_NewRef(self->keys);
    made->constants = Py_XNewRef(self->constants);
    made->plan = *plan;
    made->plan.steps = copied(plan->steps, (size_t)plan->step_count * sizeof(Step));
    made->plan.held = copied(plan->held, (size_t)plan->held_count * sizeof(Py_ssize_t));
    made->plan.tests = plan->tests == NULL ? NULL : copied(plan->tests, (size_t)plan->test_count * sizeof(Test));
    if (made->plan.steps == NULL || made->plan.held == NULL || (plan->tests != NULL && made->plan.tests == NULL)) {
        Py_DECREF(made);
        return PyErr_NoMemory();
    }
    return (PyObject *)made;
}

static int
steady_traverse(Steady *self, visitproc visit, void *arg)
{
    Py_VISIT(self->keys);
    Py_VISIT(self->constants);
    return 0;
}

/* The keys stay until the end, for the steps borrow from them; a cycle is broken at the dict or object that it holds. */
static void
steady_dealloc(Steady *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    memo_free(self->memo);
    PyMem_Free(self->plan.steps);
    PyMem_Free(self->plan.held);
    PyMem_Free(self->plan.tests);
    Py_CLEAR(self->keys);
    Py_CLEAR(self->constants);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef steady_methods[] = {
    {"look", (PyCFunction)(void (*)(void))steady_look, METH_FASTCALL,
     "look(*roots) -> how everything is now, for keep(); None if there is no telling, or not now"},
    {"keep", (PyCFunction)(void (*)(void))steady_keep, METH_FASTCALL,
     "keep(seen, *roots): the guards have held on what look() saw, if that is still so"},
    {"anew", (PyCFunction)steady_anew, METH_NOARGS, "anew() -> one that reads and tests the same, and knows no state yet"},
    {NULL},
};

static PyMemberDef steady_members[] = {
    {"held_count", T_PYSSIZET, offsetof(Steady, plan.held_count), READONLY, "How many values it holds."},
    {NULL},
};

static PyGetSetDef steady_getset[] = {
    {"known", (getter)steady_known, NULL, "Whether a state is known in which the guards have held.", NULL},
    {NULL},
};

PyTypeObject Steady_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Steady",
    .tp_doc = PyDoc_STR("Steady(roots, steps, held, tests=..., apart=False)\n--\n\n"
                        "Called with the roots: the values at the steps in `held`, as a tuple, if whatever the steps read\n"
                        "is what it was when keep() was last called; None if not."),
    .tp_basicsize = sizeof(Steady),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = steady_new,
    .tp_dealloc = (destructor)steady_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Steady, vectorcall),
    .tp_traverse = (traverseproc)steady_traverse,
    .tp_methods = steady_methods,
    .tp_members = steady_members,
    .tp_getset = steady_getset,
    .tp_weaklistoffset = offsetof(Steady, weakrefs),
};
