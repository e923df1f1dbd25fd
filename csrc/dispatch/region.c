/* A region holds code objects by weak references: when one dies, its entries are dropped. The garbage collector sees what a region
 * holds, so that a decorated object, its entries and what these refer to are collected together. Dropping an entry may run any
 * code, so the map of records is brought in order first. */
#include "dispatch/region.h"

#include <structmember.h>

PyObject *region_skip_sentinel = NULL;

typedef struct {
    PyObject *code_ref; /* weak reference to the code object, with Region.on_death as its callback */
    Bucket *buckets;
    int skipped;
} CodeRecord;

/* ---- records ---- */

static void
free_record(CodeRecord *record)
{
    PyObject *code_ref = record->code_ref;
    Bucket *bucket = record->buckets;
    PyMem_Free(record);
    for (Bucket *each = bucket; each != NULL; each = each->next) {
        each->detached = 1;
    }
    while (bucket != NULL) {
        Bucket *next = (Bucket *)Py_XNewRef(bucket->next);
        PyObject *empty = PyTuple_New(0); /* a dispatcher may hold the bucket itself */
        Py_XSETREF(bucket->entries, empty);
        Py_CLEAR(bucket->compiler);
        Py_DECREF(bucket);
        bucket = next;
    }
    Py_XDECREF(code_ref);
}

/* Empties the map first, so that what the freeing sets off finds a region in order. */
static void
clear_records(Region *self)
{
    PointerMap records = self->records;
    self->records = (PointerMap){0};
    for (size_t i = 0; i < records.capacity; i++) {
        if (records.slots[i].value != NULL) {
            free_record(records.slots[i].value);
        }
    }
    pointer_map_free(&records);
}

/* Callback of the weak reference to a code object; `region_ref` is a weak reference to the region. */
static PyObject *
forget_code(PyObject *region_ref, PyObject *code_ref)
{
    Region *region = (Region *)weakref_target(region_ref);
    if ((PyObject *)region != Py_None) {
        for (size_t i = 0; i < region->records.capacity; i++) {
            PointerMapSlot *slot = &region->records.slots[i];
            CodeRecord *record = slot->value;
            if (record != NULL && record->code_ref == code_ref) {
                Py_INCREF(region);
                free_record(pointer_map_remove(&region->records, slot->key));
                Py_DECREF(region);
                break;
            }
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef forget_code_def = {"forget_code", forget_code, METH_O, NULL};

static PyObject *
death_callback(Region *self)
{
    if (self->on_death == NULL) {
        PyObject *self_ref = PyWeakref_NewRef((PyObject *)self, NULL);
        if (self_ref != NULL) {
            self->on_death = PyCFunction_New(&forget_code_def, self_ref);
            Py_DECREF(self_ref);
        }
    }
    return self->on_death;
}

static CodeRecord *
get_record(Region *self, PyCodeObject *code)
{
    CodeRecord *record = pointer_map_get(&self->records, code);
    if (record != NULL) {
        return record;
    }
    PyObject *on_death = death_callback(self);
    PyObject *code_ref = on_death == NULL ? NULL : PyWeakref_NewRef((PyObject *)code, on_death);
    if (code_ref == NULL) {
        return NULL;
    }
    record = pointer_map_get(&self->records, code); /* an allocation may have run code that asked for it too */
    if (record != NULL) {
        Py_DECREF(code_ref);
        return record;
    }
    record = PyMem_Calloc(1, sizeof(CodeRecord));
    if (record == NULL) {
        Py_DECREF(code_ref);
        PyErr_NoMemory();
        return NULL;
    }
    record->code_ref = code_ref;
    if (pointer_map_set(&self->records, code, record) < 0) {
        free_record(record);
        return NULL;
    }
    return record;
}

static Bucket *
find_in_record(CodeRecord *record, PyObject *globals, PyObject *compiler)
{
    Bucket *bucket = record == NULL ? NULL : record->buckets;
    while (bucket != NULL && (bucket->globals != globals || bucket->compiler != compiler)) {
        bucket = bucket->next;
    }
    return bucket;
}

Bucket *
region_find_bucket(Region *self, PyCodeObject *code, PyObject *globals)
{
    return find_in_record(pointer_map_get(&self->records, code), globals, forced_compiler);
}

Bucket *
region_get_bucket(Region *self, PyCodeObject *code, PyObject *globals, PyObject *compiler)
{
    Bucket *bucket = find_in_record(pointer_map_get(&self->records, code), globals, compiler);
    if (bucket != NULL) {
        return bucket;
    }
    Bucket *made = bucket_new(code, globals, compiler);
    CodeRecord *record = made == NULL ? NULL : get_record(self, code); /* from here on nothing else runs */
    if (record == NULL) {
        Py_XDECREF(made);
        return NULL;
    }
    bucket = find_in_record(record, globals, compiler);
    if (bucket != NULL) {
        Py_DECREF(made);
        return bucket;
    }
    made->next = record->buckets;
    record->buckets = made;
    return made;
}

int
region_install(Region *self, PyCodeObject *code, PyObject *globals, Entry *entry, int ready)
{
    Bucket *bucket = region_get_bucket(self, code, globals, entry->compiler);
    if (bucket == NULL) {
        return -1;
    }
    Py_INCREF(bucket);
    PyObject *decide = ready ? Py_XNewRef(self->decide) : NULL;
    int failed = bucket_publish(bucket, entry, decide);
    Py_XDECREF(decide);
    Py_DECREF(bucket);
    return failed;
}

int
region_skip(Region *self, PyCodeObject *code)
{
    CodeRecord *record = get_record(self, code);
    if (record == NULL) {
        return -1;
    }
    record->skipped = 1;
    return 0;
}

int
region_is_skipped(Region *self, PyCodeObject *code)
{
    CodeRecord *record = pointer_map_get(&self->records, code);
    return record != NULL && record->skipped;
}

/* ---- the type ---- */

static PyObject *
region_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"callback", "decide", NULL};
    PyObject *callback, *decide = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:Region", keywords, &callback, &decide)) {
        return NULL;
    }
    if (!PyCallable_Check(callback)) {
        PyErr_Format(PyExc_TypeError, "callback must be callable, not %.100s", Py_TYPE(callback)->tp_name);
        return NULL;
    }
    Region *self = (Region *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->callback = Py_NewRef(callback);
        self->decide = decide == Py_None ? NULL : Py_NewRef(decide);
    }
    return (PyObject *)self;
}

static int
region_traverse(Region *self, visitproc visit, void *arg)
{
    Py_VISIT(self->callback);
    Py_VISIT(self->decide);
    Py_VISIT(self->agree);
    Py_VISIT(self->on_death);
    for (size_t i = 0; i < self->records.capacity; i++) {
        CodeRecord *record = self->records.slots[i].value;
        if (record != NULL) {
            Py_VISIT(record->code_ref);
            Py_VISIT(record->buckets);
        }
    }
    return 0;
}

static int
region_tp_clear(Region *self)
{
    clear_records(self);
    Py_CLEAR(self->callback);
    Py_CLEAR(self->decide);
    Py_CLEAR(self->agree);
    Py_CLEAR(self->on_death);
    return 0;
}

static void
region_dealloc(Region *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    region_tp_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static int
by_stamp(const void *left, const void *right)
{
    uint64_t a = (*(Entry *const *)left)->stamp, b = (*(Entry *const *)right)->stamp;
    return (a < b) - (a > b);
}

/* The entries of a bucket, the last hit first. */
static PyObject *
ordered_entries(Bucket *bucket)
{
    PyObject *list = PySequence_List(bucket->entries);
    if (list != NULL && PyList_GET_SIZE(list) > 1) { /* qsort() takes no NULL, which an empty list has */
        qsort(((PyListObject *)list)->ob_item, (size_t)PyList_GET_SIZE(list), sizeof(PyObject *), by_stamp);
    }
    return list;
}

/* Appends the valid entries of one code object. */
static int
append_entries(PyObject *list, CodeRecord *record)
{
    int failed = 0;
    for (Bucket *bucket = record->buckets; bucket != NULL && !failed; bucket = bucket->next) {
        PyObject *entries = ordered_entries(bucket);
        failed = entries == NULL;
        for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(entries); i++) {
            PyObject *entry = PyList_GET_ITEM(entries, i);
            failed = ((Entry *)entry)->valid && PyList_Append(list, entry) < 0;
        }
        Py_XDECREF(entries);
    }
    return failed ? -1 : 0;
}

static int
has_entries(CodeRecord *record)
{
    for (Bucket *bucket = record->buckets; bucket != NULL; bucket = bucket->next) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bucket->entries); i++) {
            if (((Entry *)PyTuple_GET_ITEM(bucket->entries, i))->valid) {
                return 1;
            }
        }
    }
    return 0;
}

static int
require_code(PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "expected a code object, not %.100s", Py_TYPE(code)->tp_name);
        return -1;
    }
    return 0;
}

/* The live code objects that have entries, as a list. */
static PyObject *
region_codes(Region *self, PyObject *Py_UNUSED(unused))
{
    PyObject *result = PyList_New(0);
    for (size_t i = 0; result != NULL && i < self->records.capacity; i++) {
        CodeRecord *record = self->records.slots[i].value;
        if (record == NULL || !has_entries(record)) {
            continue;
        }
        PyObject *code = weakref_target(record->code_ref);
        if (code != Py_None && PyList_Append(result, code) < 0) {
            Py_CLEAR(result);
        }
    }
    return result;
}

static PyObject *
region_entries(Region *self, PyObject *args)
{
    PyObject *code = Py_None;
    if (!PyArg_ParseTuple(args, "|O:entries", &code) || (code != Py_None && require_code(code) < 0)) {
        return NULL;
    }
    PyObject *result = PyList_New(0);
    for (size_t i = 0; result != NULL && i < self->records.capacity; i++) {
        PointerMapSlot *slot = &self->records.slots[i];
        if (slot->value != NULL && (code == Py_None || slot->key == code) && append_entries(result, slot->value) < 0) {
            Py_CLEAR(result);
        }
    }
    return result;
}

static PyObject *
region_serving(Region *self, PyObject *args)
{
    PyObject *code, *globals;
    if (!PyArg_ParseTuple(args, "O!O!:serving", &PyCode_Type, &code, &PyDict_Type, &globals)) {
        return NULL;
    }
    Bucket *bucket = region_find_bucket(self, (PyCodeObject *)code, globals);
    return bucket == NULL ? PyList_New(0) : ordered_entries(bucket);
}

static PyObject *
region_clear(Region *self, PyObject *Py_UNUSED(unused))
{
    clear_records(self);
    Py_RETURN_NONE;
}

static PyObject *
region_py_install(Region *self, PyObject *args)
{
    PyObject *code, *globals, *entry;
    int ready = 0;
    if (!PyArg_ParseTuple(args, "O!O!O!|p:install", &PyCode_Type, &code, &PyDict_Type, &globals, &Entry_Type, &entry, &ready)
        || region_install(self, (PyCodeObject *)code, globals, (Entry *)entry, ready) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
region_py_skip(Region *self, PyObject *code)
{
    if (require_code(code) < 0 || region_skip(self, (PyCodeObject *)code) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
region_py_is_skipped(Region *self, PyObject *code)
{
    return require_code(code) < 0 ? NULL : PyBool_FromLong(region_is_skipped(self, (PyCodeObject *)code));
}

static PyObject *
region_repr(Region *self)
{
    return PyUnicode_FromFormat("<tracer Region at %p: %zu code objects>", self, self->records.live);
}

static PyMethodDef region_methods[] = {
    {"entries", (PyCFunction)region_entries, METH_VARARGS, "entries(code=None) -> valid entries, the last hit first"},
    {"serving", (PyCFunction)region_serving, METH_VARARGS,
     "serving(code, globals) -> the entries that a call looks among now, the last hit first"},
    {"codes", (PyCFunction)region_codes, METH_NOARGS, "codes() -> the live code objects that have entries"},
    {"clear", (PyCFunction)region_clear, METH_NOARGS, "clear(): drops all entries and skip marks"},
    {"install", (PyCFunction)region_py_install, METH_VARARGS,
     "install(code, globals, entry, ready=False): it is tried first from now on. With `ready`, what tells\n"
     "it from others is made before a call sees it, and not by the next call"},
    {"skip", (PyCFunction)region_py_skip, METH_O, "skip(code): the callback is never asked about it again"},
    {"is_skipped", (PyCFunction)region_py_is_skipped, METH_O, "is_skipped(code) -> bool"},
    {NULL},
};

static PyObject *
region_get_agree(Region *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->agree == NULL ? Py_None : self->agree);
}

static int
region_set_agree(Region *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value != NULL && value != Py_None && !PyCallable_Check(value)) {
        PyErr_Format(PyExc_TypeError, "agree must be callable or None, not %.100s", Py_TYPE(value)->tp_name);
        return -1;
    }
    Py_XSETREF(self->agree, value == Py_None ? NULL : Py_XNewRef(value));
    return 0;
}

static PyGetSetDef region_getset[] = {
    {"agree", (getter)region_get_agree, (setter)region_set_agree,
     "None, or agree(region, func, hit) -> bool, called at each lookup: False makes a miss of a hit.", NULL},
    {NULL},
};

static PyMemberDef region_members[] = {
    {"callback", T_OBJECT_EX, offsetof(Region, callback), READONLY, "callback(region, func, args)"},
    {"offered", T_PYSSIZET, offsetof(Region, offered), READONLY, "How many frames the hook brought here."},
    {"served", T_PYSSIZET, offsetof(Region, served), READONLY, "How many of these ran from an entry."},
    {NULL},
};

PyTypeObject Region_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Region",
    .tp_doc = PyDoc_STR(
        "Region(callback, decide=None)\n--\n\nOwns the entries of one decorated object. On a miss\n"
        "callback(region, func, args) answers with an Entry (which, if it is not valid, serves this call alone),\n"
        "None (run this one in CPython)\n"
        "or SKIP (and never ask about this code again). decide(entries) gives the Decision over several entries."),
    .tp_basicsize = sizeof(Region),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = region_new,
    .tp_dealloc = (destructor)region_dealloc,
    .tp_traverse = (traverseproc)region_traverse,
    .tp_clear = (inquiry)region_tp_clear,
    .tp_repr = (reprfunc)region_repr,
    .tp_methods = region_methods,
    .tp_members = region_members,
    .tp_getset = region_getset,
    .tp_weaklistoffset = offsetof(Region, weakrefs),
};

/* ---- SKIP ---- */

static PyObject *
skip_repr(PyObject *Py_UNUSED(self))
{
    return PyUnicode_FromString("SKIP");
}

static PyTypeObject Skip_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C._Skip",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = skip_repr,
};

int
region_init(PyObject *module)
{
    if (PyType_Ready(&Skip_Type) < 0 || PyType_Ready(&Bucket_Type) < 0) {
        return -1;
    }
    region_skip_sentinel = PyObject_New(PyObject, &Skip_Type);
    return region_skip_sentinel == NULL ? -1 : PyModule_AddObjectRef(module, "SKIP", region_skip_sentinel);
}
