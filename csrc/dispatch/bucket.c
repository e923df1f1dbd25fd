/* The entries of a bucket are a tuple that is replaced and never changed. A new tuple, and the decision over it, are made before
 * they are put in place. Making them may run other code, which may replace the tuple first: then what was made is dropped, and a
 * publication starts again from what lies there. Only one thread at a time makes a decision over the same entries; a thread that
 * asks meanwhile tries them all. */
#include "dispatch/bucket.h"

#include "dispatch/decision.h"

PyObject *forced_compiler = NULL;

PyObject *
py_force_compiler(PyObject *Py_UNUSED(module), PyObject *compiler)
{
    PyObject *before = forced_compiler;
    forced_compiler = compiler == Py_None ? NULL : Py_NewRef(compiler);
    return before == NULL ? Py_NewRef(Py_None) : before;
}

Bucket *
bucket_new(PyCodeObject *code, PyObject *globals, PyObject *compiler)
{
    PyObject *entries = PyTuple_New(0);
    Bucket *bucket = entries == NULL ? NULL : PyObject_GC_New(Bucket, &Bucket_Type);
    if (bucket == NULL) {
        Py_XDECREF(entries);
        return NULL;
    }
    bucket->entries = entries;
    bucket->decision = NULL;
    bucket->deciding = NULL;
    bucket->deaths = entry_counts.deaths;
    bucket->globals = Py_NewRef(globals);
    bucket->compiler = Py_XNewRef(compiler);
    bucket->code = code;
    bucket->next = NULL;
    bucket->detached = 0;
    PyObject_GC_Track(bucket);
    return bucket;
}

static int
bucket_traverse(Bucket *self, visitproc visit, void *arg)
{
    Py_VISIT(self->entries);
    Py_VISIT(self->decision);
    Py_VISIT(self->globals);
    Py_VISIT(self->compiler);
    Py_VISIT(self->next);
    return 0;
}

/* `entries` stays, for it is read without a test for NULL. A cycle that goes through it is broken at one of the entries. */
static int
bucket_clear(Bucket *self)
{
    self->detached = 1;
    Py_CLEAR(self->decision);
    Py_CLEAR(self->next);
    return 0;
}

static void
bucket_dealloc(Bucket *self)
{
    PyObject_GC_UnTrack(self);
    bucket_clear(self);
    Py_CLEAR(self->entries);
    Py_CLEAR(self->globals);
    Py_CLEAR(self->compiler);
    PyObject_GC_Del(self);
}

PyTypeObject Bucket_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C._Bucket",
    .tp_basicsize = sizeof(Bucket),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)bucket_dealloc,
    .tp_traverse = (traverseproc)bucket_traverse,
    .tp_clear = (inquiry)bucket_clear,
};

/* A new tuple: `front`, if any, then what is valid of `entries` but `front`. NULL with an exception. */
static PyObject *
rearranged(PyObject *entries, Entry *front)
{
    Py_ssize_t size = PyTuple_GET_SIZE(entries), count = front != NULL;
    for (Py_ssize_t i = 0; i < size; i++) {
        Entry *entry = (Entry *)PyTuple_GET_ITEM(entries, i);
        count += entry->valid && entry != front;
    }
    PyObject *result = PyTuple_New(count);
    if (result == NULL) {
        return NULL;
    }
    Py_ssize_t at = 0;
    if (front != NULL) {
        PyTuple_SET_ITEM(result, at++, Py_NewRef(front));
    }
    for (Py_ssize_t i = 0; i < size; i++) { /* making the tuple may have run code that made an entry invalid, or valid */
        Entry *entry = (Entry *)PyTuple_GET_ITEM(entries, i);
        if (entry->valid && entry != front && at < count) {
            PyTuple_SET_ITEM(result, at++, Py_NewRef(entry));
        }
    }
    if (at < count) {
        _PyTuple_Resize(&result, at);
    }
    return result;
}

/* Whether `after` could take the place of `before`, with the decision over it, if there is one (both stolen). */
static int
replace(Bucket *bucket, PyObject *before, PyObject *after, PyObject *decision)
{
    if (bucket->entries != before) {
        Py_DECREF(after);
        Py_XDECREF(decision);
        return 0;
    }
    PyObject *old = bucket->decision;
    bucket->entries = after;
    bucket->decision = decision;
    Py_XDECREF(old);
    Py_DECREF(before);
    return 1;
}

static int
has_invalid(PyObject *entries)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entries); i++) {
        if (!((Entry *)PyTuple_GET_ITEM(entries, i))->valid) {
            return 1;
        }
    }
    return 0;
}

void
bucket_tidy(Bucket *bucket)
{
    if (bucket->deaths == entry_counts.deaths) {
        return;
    }
    bucket->deaths = entry_counts.deaths;
    if (!has_invalid(bucket->entries)) {
        return;
    }
    PyObject *before = Py_NewRef(bucket->entries), *after = rearranged(before, NULL);
    if (after == NULL) {
        PyErr_Clear();
    }
    else {
        replace(bucket, before, after, NULL);
    }
    Py_DECREF(before);
}

/* A decision that leaves all entries: Decision(entries, (), (), ((-1, (), (0, 1, ...), -1, -1),)). */
static PyObject *
undecided(PyObject *entries)
{
    PyObject *indices = PyTuple_New(PyTuple_GET_SIZE(entries));
    for (Py_ssize_t i = 0; indices != NULL && i < PyTuple_GET_SIZE(entries); i++) {
        PyObject *index = PyLong_FromSsize_t(i);
        if (index == NULL) {
            Py_CLEAR(indices);
            break;
        }
        PyTuple_SET_ITEM(indices, i, index);
    }
    return indices == NULL ? NULL
                           : PyObject_CallFunction((PyObject *)&Decision_Type, "O()()((n()Nnn))", entries, (Py_ssize_t)-1,
                                                   indices, (Py_ssize_t)-1, (Py_ssize_t)-1);
}

/* What `decide` answers, or NULL. If it fails, that is a bug of the tracer: it is reported on stderr, and the entries can still be
 * tried one by one. An exception stays set only if it is no Exception (KeyboardInterrupt). */
static PyObject *
decided(PyObject *entries, PyObject *decide)
{
    Py_INCREF(decide);
    PyObject *made = PyObject_CallOneArg(decide, entries);
    if (made != NULL && (!Decision_Check(made) || decision_entries(made) != entries)) {
        PyErr_Format(PyExc_TypeError, "decide() of a Region gives a Decision over the entries, not %R", made);
        Py_CLEAR(made);
    }
    if (made == NULL && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_WriteUnraisable(decide);
    }
    Py_DECREF(decide);
    return made;
}

PyObject *
bucket_decision(Bucket *bucket, PyObject *entries, PyObject *decide)
{
    if (bucket->decision != NULL && bucket->entries == entries) {
        return Py_NewRef(bucket->decision);
    }
    if (decide == NULL || bucket->deciding == entries) {
        return undecided(entries);
    }
    bucket->deciding = entries; /* held by the caller as long as that stands */
    PyObject *made = decided(entries, decide);
    if (bucket->deciding == entries) {
        bucket->deciding = NULL;
    }
    if (made == NULL && !PyErr_Occurred()) {
        made = undecided(entries);
    }
    if (made != NULL && bucket->entries == entries && bucket->decision == NULL) {
        bucket->decision = Py_NewRef(made);
    }
    return made;
}

/* Goes round again if another thread has replaced the entries while the new tuple was made. */
int
bucket_publish(Bucket *bucket, Entry *entry, PyObject *decide)
{
    for (int done = 0; !done;) {
        PyObject *before = Py_NewRef(bucket->entries), *decision = NULL;
        PyObject *after = rearranged(before, entry);
        if (after != NULL && decide != NULL && PyTuple_GET_SIZE(after) > 1) {
            decision = decided(after, decide);
            if (decision == NULL && PyErr_Occurred()) {
                Py_CLEAR(after);
            }
        }
        done = after == NULL ? -1 : replace(bucket, before, after, decision);
        Py_DECREF(before);
        if (done < 0) {
            return -1;
        }
    }
    entry_stamp(entry);
    return 0;
}
