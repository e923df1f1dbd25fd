/* A class, as a function, has a version: one word to compare. A word that differs says only that something has changed: then a
 * Python function decides whether it matters, and if not, the new word is remembered. */
#include "guards/unchanged.h"

#include "guards/versions.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *weakrefs;
    PyObject *objects; /* tuple of weak references, to classes and functions */
    PyObject *recheck;
    uint64_t *words;
    vectorcallfunc vectorcall;
} Unchanged;

/* 1, or 0 where a word differs or an object is gone (then *gone is set). */
static int
same_words(Unchanged *self, int *gone)
{
    Py_ssize_t count = PyTuple_GET_SIZE(self->objects);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *object = weakref_target(PyTuple_GET_ITEM(self->objects, i));
        if (object == Py_None) {
            *gone = 1;
            return 0;
        }
        uint64_t word = version_of(object);
        if (word == 0 || word != self->words[i]) {
            return 0;
        }
    }
    return 1;
}

int
unchanged_holds(PyObject *unchanged)
{
    int gone;
    return same_words((Unchanged *)unchanged, &gone);
}

/* Classes that lost their version get a new one. */
static void
read_words(Unchanged *self, uint64_t *words)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->objects); i++) {
        PyObject *object = Py_NewRef(weakref_target(PyTuple_GET_ITEM(self->objects, i)));
        words[i] = object == Py_None ? 0 : version_from_now(object);
        Py_DECREF(object);
    }
}

static PyObject *
look_again(Unchanged *self)
{
    size_t size = (size_t)PyTuple_GET_SIZE(self->objects) * sizeof(uint64_t);
    uint64_t *words = PyMem_Malloc(size ? size : 1);
    if (words == NULL) {
        return PyErr_NoMemory();
    }
    read_words(self, words); /* before the question: what changes while it is answered is asked about again */
    PyObject *recheck = Py_XNewRef(self->recheck);
    PyObject *answer = recheck == NULL ? Py_NewRef(Py_False) : PyObject_CallNoArgs(recheck);
    Py_XDECREF(recheck);
    if (answer == Py_True) {
        memcpy(self->words, words, size);
    }
    PyMem_Free(words);
    return answer;
}

static PyObject *
unchanged_call(PyObject *object, PyObject *const *Py_UNUSED(args), size_t Py_UNUSED(count), PyObject *Py_UNUSED(names))
{
    Unchanged *self = (Unchanged *)object;
    int gone = 0;
    if (same_words(self, &gone)) {
        Py_RETURN_TRUE;
    }
    return gone ? Py_NewRef(Py_False) : look_again(self);
}

/* ---- the type ---- */

static PyObject *
references_to(PyObject *objects)
{
    PyObject *references = PyTuple_New(PyTuple_GET_SIZE(objects));
    for (Py_ssize_t i = 0; references != NULL && i < PyTuple_GET_SIZE(objects); i++) {
        PyObject *object = PyTuple_GET_ITEM(objects, i);
        PyObject *reference = NULL;
        if (PyType_Check(object) || PyFunction_Check(object)) {
            reference = PyWeakref_NewRef(object, NULL);
        }
        else {
            PyErr_Format(PyExc_TypeError, "Unchanged watches classes and functions, not %.100s", Py_TYPE(object)->tp_name);
        }
        if (reference == NULL) {
            Py_CLEAR(references);
            break;
        }
        PyTuple_SET_ITEM(references, i, reference);
    }
    return references;
}

static PyObject *
unchanged_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"objects", "recheck", NULL};
    PyObject *objects, *recheck;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O:Unchanged", keywords, &PyTuple_Type, &objects, &recheck)) {
        return NULL;
    }
    PyObject *references = references_to(objects);
    Unchanged *self = references == NULL ? NULL : (Unchanged *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_XDECREF(references);
        return NULL;
    }
    self->objects = references;
    self->recheck = Py_NewRef(recheck);
    self->vectorcall = unchanged_call;
    self->words = PyMem_Calloc((size_t)PyTuple_GET_SIZE(objects) + 1, sizeof(uint64_t));
    if (self->words == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    read_words(self, self->words);
    return (PyObject *)self;
}

static int
unchanged_traverse(Unchanged *self, visitproc visit, void *arg)
{
    Py_VISIT(self->objects);
    Py_VISIT(self->recheck);
    return 0;
}

/* `objects` stays: it is read without a test, and no cycle goes through weak references alone. */
static int
unchanged_clear(Unchanged *self)
{
    Py_CLEAR(self->recheck);
    return 0;
}

static void
unchanged_dealloc(Unchanged *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    unchanged_clear(self);
    Py_CLEAR(self->objects);
    PyMem_Free(self->words);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef unchanged_members[] = {
    {"recheck", T_OBJECT_EX, offsetof(Unchanged, recheck), READONLY, "Called where something has changed: does it matter?"},
    {NULL},
};

PyTypeObject Unchanged_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Unchanged",
    .tp_doc = PyDoc_STR(
        "Unchanged(objects, recheck)\n--\n\nCalled without arguments: True while these classes (and their\n"
        "bases) and the code of these functions are as they were, or recheck() says that it does not matter."),
    .tp_basicsize = sizeof(Unchanged),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = unchanged_new,
    .tp_dealloc = (destructor)unchanged_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Unchanged, vectorcall),
    .tp_traverse = (traverseproc)unchanged_traverse,
    .tp_clear = (inquiry)unchanged_clear,
    .tp_members = unchanged_members,
    .tp_weaklistoffset = offsetof(Unchanged, weakrefs),
};
