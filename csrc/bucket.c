/* A tuple of entries is made first and put in place then; making it may run other code, so that the place is looked at
 * again. */
#include "bucket.h"

Bucket *
bucket_new(PyCodeObject *code, PyObject *globals)
{
    PyObject *entries = PyTuple_New(0);
    Bucket *bucket = entries == NULL ? NULL : PyObject_GC_New(Bucket, &Bucket_Type);
    if (bucket == NULL) {
        Py_XDECREF(entries);
        return NULL;
    }
    bucket->entries = entries;
    bucket->globals = Py_NewRef(globals);
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
    Py_VISIT(self->globals);
    Py_VISIT(self->next);
    return 0;
}

/* `entries` stays: it is read without a test, and a tuple in a cycle is broken at the entries it holds. */
static int
bucket_clear(Bucket *self)
{
    self->detached = 1;
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

/* Again, if another thread replaced the entries while the new tuple was made. */
int
bucket_publish(Bucket *bucket, Entry *front)
{
    for (;;) {
        PyObject *before = Py_NewRef(bucket->entries);
        PyObject *after = rearranged(before, front);
        if (after == NULL) {
            Py_DECREF(before);
            return -1;
        }
        if (bucket->entries == before) {
            bucket->entries = after;
            Py_DECREF(before); /* the bucket's reference */
            Py_DECREF(before);
            return 0;
        }
        Py_DECREF(after);
        Py_DECREF(before);
    }
}

void
bucket_tidy(Bucket *bucket, PyObject *seen, Py_ssize_t index)
{
    if (bucket->entries != seen) {
        return;
    }
    PyObject *after = rearranged(seen, index < 0 ? NULL : (Entry *)PyTuple_GET_ITEM(seen, index));
    if (after == NULL) {
        PyErr_Clear();
        return;
    }
    if (bucket->entries == seen) {
        bucket->entries = after;
        after = seen;
    }
    Py_DECREF(after);
}
