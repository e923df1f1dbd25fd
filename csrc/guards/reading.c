/* The one walker of paths. Each step is written once, with an optional recording: compiled twice, so that a walk without one
 * pays nothing for it. The GIL is held throughout, and nothing here lets go of it: dict lookups compare plain keys only. */
#include "guards/reading.h"

#include <structmember.h>

#include "compat.h"
#include "guards/plain_keys.h"
#include "guards/recording.h"
#include "guards/steady_tests.h"

#define BOTH_WAYS static inline __attribute__((always_inline))

/* ---- attributes ---- */

/* A filled or empty slot of the instance. */
BOTH_WAYS ReadResult
read_member(PyObject *object, PyMemberDescrObject *member, PyObject **value, Recording *recording)
{
    if (member->d_member->type != T_OBJECT_EX || !PyObject_TypeCheck(object, PyDescr_TYPE(member))) {
        return READ_UNKNOWN;
    }
    PyObject **place = (PyObject **)((char *)object + member->d_member->offset);
    if (recording != NULL) {
        record_word(recording, place);
    }
    *value = *place;
    return *value == NULL ? READ_ABSENT : READ_FOUND;
}

/* An entry of the object's own dict. A recording makes the dict where 3.11 keeps attributes beside the instance without one.
 * Without a recording the generic lookup finds them: it looks into the type first, where nothing may have that name. */
BOTH_WAYS ReadResult
read_own_entry(const Step *step, PyObject *object, PyObject *in_type, PyObject **value, Recording *recording)
{
    PyObject **place = recording != NULL ? NULL : dict_place(object);
    PyObject *dict = recording != NULL ? record_instance(recording, step->base) : place == NULL ? NULL : *place;
    int known = 1;
    if (dict != NULL) {
        *value = find_plain_key(dict, step->key, &known);
    }
    else if (recording == NULL && place != NULL && in_type == NULL) {
        *value = _PyObject_GenericGetAttrWithDict(object, step->key, NULL, 1);
        Py_XDECREF(*value); /* the instance holds it */
    }
    else {
        known = 0;
    }
    if (known && recording != NULL) {
        record_attribute(recording, step->base, step->key, *value);
    }
    return !known ? READ_UNKNOWN : *value == NULL ? READ_ABSENT : READ_FOUND;
}

BOTH_WAYS ReadResult
read_attribute(const Step *step, PyObject *object, PyObject **value, Recording *recording)
{
    if (recording != NULL) {
        record_type(recording, step->base);
        if (!record_class(recording, Py_TYPE(object))) {
            return READ_UNKNOWN;
        }
    }
    PyObject *in_type = _PyType_Lookup(Py_TYPE(object), step->key);
    if (in_type != NULL && Py_IS_TYPE(in_type, &PyMemberDescr_Type)) {
        return read_member(object, (PyMemberDescrObject *)in_type, value, recording);
    }
    return read_own_entry(step, object, in_type, value, recording);
}

BOTH_WAYS ReadResult
read_instance_dict(const Step *step, PyObject *object, PyObject **value, Recording *recording)
{
    if (recording != NULL) {
        record_type(recording, step->base);
        *value = record_instance(recording, step->base);
    }
    else {
        PyObject **place = dict_place(object);
        *value = place == NULL ? NULL : *place;
    }
    return *value == NULL ? READ_UNKNOWN : READ_FOUND;
}

/* ---- containers ---- */

/* The mapping behind a mappingproxy, anything else as it is. */
BOTH_WAYS PyObject *
container_of(PyObject *value, Recording *recording)
{
    if (!Py_IS_TYPE(value, &PyDictProxy_Type)) {
        return value;
    }
    PyObject **place;
    PyObject *container = unproxied(value, &place);
    if (recording != NULL && place != NULL) {
        record_word(recording, place);
    }
    return container;
}

BOTH_WAYS ReadResult
read_key(const Step *step, PyObject *dict, PyObject **value, Recording *recording)
{
    int known;
    if (recording != NULL) {
        record_type(recording, step->base);
    }
    *value = find_plain_key(dict, step->key, &known);
    if (!known) {
        return READ_UNKNOWN;
    }
    if (recording != NULL) {
        record_item(recording, step->base, dict, step->key, *value);
    }
    return *value == NULL ? READ_ABSENT : READ_FOUND;
}

BOTH_WAYS ReadResult
read_index(const Step *step, PyObject *sequence, PyObject **value, Recording *recording)
{
    Py_ssize_t size = Py_SIZE(sequence), index = step->number + (step->number < 0 ? size : 0);
    if (index < 0 || index >= size) {
        return READ_ABSENT;
    }
    if (recording != NULL) {
        PyObject **place = record_items(recording, sequence) + index;
        record_word(recording, place);
        *value = *place;
    }
    else {
        *value = PyList_Check(sequence) ? PyList_GET_ITEM(sequence, index) : PyTuple_GET_ITEM(sequence, index);
    }
    return READ_FOUND;
}

BOTH_WAYS ReadResult
read_item(const Step *step, PyObject *base, PyObject **value, Recording *recording)
{
    PyObject *container = container_of(base, recording);
    if (PyDict_Check(container)) {
        return read_key(step, container, value, recording);
    }
    int is_list = recording != NULL ? PyList_CheckExact(container) : PyList_Check(container);
    if (PyLong_CheckExact(step->key) && (is_list || PyTuple_Check(container))) {
        return read_index(step, container, value, recording);
    }
    return READ_UNKNOWN;
}

BOTH_WAYS ReadResult
read_no_item(const Step *step, PyObject *base, PyObject **value, Recording *recording)
{
    PyObject *container = container_of(base, recording);
    return PyDict_Check(container) ? read_key(step, container, value, recording) : READ_UNKNOWN;
}

/* An argument that stands in the tuple of *args or in the dict of **kwargs, which each call makes anew. */
BOTH_WAYS ReadResult
read_argument(const Step *step, PyObject *const *roots, PyObject *keywords, PyObject **value, Recording *recording)
{
    PyObject *positional = roots[step->slot];
    if (recording != NULL || positional == NULL || !PyTuple_CheckExact(positional) || !PyDict_CheckExact(keywords)) {
        return READ_UNKNOWN;
    }
    if (step->number < PyTuple_GET_SIZE(positional)) {
        *value = PyTuple_GET_ITEM(positional, step->number);
        return READ_FOUND;
    }
    return read_key(step, keywords, value, recording);
}

static ReadResult
record_whole(const Step *step, PyObject *base, Recording *recording)
{
    PyObject *container = container_of(base, recording);
    record_type(recording, step->base);
    if (PyDict_Check(container)) {
        record_keys(recording, step->base, container);
        return READ_FOUND;
    }
    if (PyList_CheckExact(container) || PyTuple_Check(container)) {
        record_items(recording, container);
        return READ_FOUND;
    }
    if (PyUnicode_CheckExact(container) || PyBytes_CheckExact(container)) {
        record_constant(recording, container);
        return READ_FOUND;
    }
    return READ_UNKNOWN;
}

/* ---- classes ---- */

/* `_PyType_Lookup` finds what the MRO holds as it is now; a recording has to know that it stays so. */
BOTH_WAYS ReadResult
read_class(const Step *step, PyObject *base, PyObject **value, Recording *recording)
{
    PyTypeObject *type = (PyTypeObject *)base;
    if (!PyType_Check(base) || (recording != NULL && !record_class(recording, type))) {
        return READ_UNKNOWN;
    }
    int known = 1;
    if (step->kind == STEP_MRO) {
        *value = type->tp_mro;
    }
    else if (step->kind == STEP_TYPE_ITEM) {
        known = type_dict(type) != NULL; /* a type of C may not be ready yet */
        *value = known ? find_plain_key(type_dict(type), step->key, &known) : NULL;
    }
    else {
        *value = _PyType_Lookup(type, step->key);
    }
    return !known ? READ_UNKNOWN : *value == NULL ? READ_ABSENT : READ_FOUND;
}

/* `fget` of a property never changes; the property is found in a class, whose version tells it from others. */
static ReadResult
read_getter(PyObject *object, PyObject **value)
{
    if (!Py_IS_TYPE(object, &PyProperty_Type)) {
        return READ_UNKNOWN;
    }
    *value = PyObject_GetAttrString(object, "fget");
    Py_XDECREF(*value); /* the property holds it */
    return *value == NULL ? READ_UNKNOWN : READ_FOUND;
}

/* ---- functions, cells and methods ---- */

/* Where the object has what the step reads; NULL if it is of another type. */
static PyObject **
place_in(PyObject *object, StepKind kind)
{
    PyFunctionObject *function = PyFunction_Check(object) ? (PyFunctionObject *)object : NULL;
    PyMethodObject *method = PyMethod_Check(object) ? (PyMethodObject *)object : NULL;
    switch (kind) {
    case STEP_CODE:
        return function ? &function->func_code : NULL;
    case STEP_DEFAULTS:
        return function ? &function->func_defaults : NULL;
    case STEP_KWDEFAULTS:
        return function ? &function->func_kwdefaults : NULL;
    case STEP_CLOSURE:
        return function ? &function->func_closure : NULL;
    case STEP_GLOBALS:
        return function ? &function->func_globals : NULL;
    case STEP_CELL_CONTENTS:
        return PyCell_Check(object) ? &((PyCellObject *)object)->ob_ref : NULL;
    case STEP_METHOD_SELF:
        return method ? &method->im_self : NULL;
    case STEP_METHOD_FUNC:
        return method ? &method->im_func : NULL;
    default:
        return NULL;
    }
}

/* What a function has none of is None; a cell may be empty. */
BOTH_WAYS ReadResult
read_place(const Step *step, PyObject *object, PyObject **value, Recording *recording)
{
    PyObject **place = place_in(object, (StepKind)step->kind);
    if (place == NULL) {
        return READ_ABSENT;
    }
    if (recording != NULL) {
        record_word(recording, place);
    }
    *value = *place == NULL ? Py_None : *place;
    return *place == NULL && step->kind == STEP_CELL_CONTENTS ? READ_ABSENT : READ_FOUND;
}

/* ---- steps ---- */

BOTH_WAYS ReadResult
absent(ReadResult found, PyObject **value)
{
    *value = Py_None;
    return found == READ_UNKNOWN ? READ_UNKNOWN : found == READ_FOUND ? READ_ABSENT : READ_FOUND;
}

/* Steps that say to a recording what matters of the value that they start from. */
BOTH_WAYS ReadResult
note(const Step *step, PyObject *base, PyObject **value, Recording *recording)
{
    *value = Py_None;
    if (recording == NULL) {
        return READ_FOUND;
    }
    if (step->kind == STEP_WHOLE) {
        return record_whole(step, base, recording);
    }
    if (step->kind == STEP_EXACT) {
        record_type(recording, step->base);
    }
    else {
        record_constant(recording, base);
    }
    return READ_FOUND;
}

BOTH_WAYS ReadResult
take_step(const Step *step, PyObject *const *roots, PyObject *base, PyObject **value, Recording *recording)
{
    switch ((StepKind)step->kind) {
    case STEP_ROOT:
        *value = roots[step->number];
        return READ_FOUND;
    case STEP_CONST:
        *value = step->key;
        return READ_FOUND;
    case STEP_ARGUMENT:
        return read_argument(step, roots, base, value, recording);
    case STEP_ATTR:
        return read_attribute(step, base, value, recording);
    case STEP_NO_ATTR:
        return absent(read_attribute(step, base, value, recording), value);
    case STEP_DICT:
        return read_instance_dict(step, base, value, recording);
    case STEP_ITEM:
        return read_item(step, base, value, recording);
    case STEP_NO_ITEM:
        return absent(read_no_item(step, base, value, recording), value);
    case STEP_TYPE:
        if (recording != NULL) {
            record_type(recording, step->base);
        }
        *value = (PyObject *)Py_TYPE(base);
        return READ_FOUND;
    case STEP_TYPE_ITEM:
    case STEP_TYPE_LOOKUP:
    case STEP_MRO:
        return read_class(step, base, value, recording);
    case STEP_NO_TYPE_LOOKUP:
        return absent(read_class(step, base, value, recording), value);
    case STEP_PROPERTY_GETTER:
        return read_getter(base, value);
    case STEP_WHOLE:
    case STEP_EXACT:
    case STEP_KEEP:
        return note(step, base, value, recording);
    default:
        return read_place(step, base, value, recording);
    }
}

ReadResult
read_step(const Step *step, PyObject *const *roots, PyObject *base, PyObject **value)
{
    return take_step(step, roots, base, value, NULL);
}

ReadResult
record_step(const Step *step, PyObject *const *roots, PyObject *base, PyObject **value, Recording *recording)
{
    return take_step(step, roots, base, value, recording);
}

ReadResult
read_value(const Step *steps, Py_ssize_t index, PyObject *const *roots, Py_ssize_t root_count, PyObject **value)
{
    const Step *step = &steps[index];
    PyObject *base = NULL;
    if (step->kind == STEP_ROOT) {
        if (step->number >= root_count || roots[step->number] == NULL) {
            return READ_UNKNOWN;
        }
        *value = roots[step->number];
        return READ_FOUND;
    }
    if (step->kind == STEP_ARGUMENT && step->slot >= root_count) {
        return READ_UNKNOWN;
    }
    ReadResult found = step->base < 0 ? READ_FOUND : read_value(steps, step->base, roots, root_count, &base);
    return found == READ_FOUND ? read_step(step, roots, base, value) : found;
}

/* ---- parsing ---- */

static int
reads_name(int kind)
{
    return kind == STEP_ATTR || kind == STEP_NO_ATTR || kind == STEP_TYPE_ITEM || kind == STEP_TYPE_LOOKUP
           || kind == STEP_NO_TYPE_LOOKUP;
}

/* The key of an ARGUMENT is the name alone; its index is the number. */
static int
parse_argument(Step *step, Py_ssize_t roots)
{
    PyObject *name;
    Py_ssize_t index;
    int slot;
    if (!PyTuple_Check(step->key) || !PyArg_ParseTuple(step->key, "Uin", &name, &slot, &index)) {
        PyErr_Clear();
        return 0;
    }
    step->key = name;
    step->slot = slot;
    step->number = index;
    return slot >= 0 && slot < roots && index >= 0;
}

static int
parse_step(PyObject *item, Py_ssize_t index, Py_ssize_t roots, Step *step)
{
    int kind, base;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "iiO", &kind, &base, &step->key)) {
        PyErr_SetString(PyExc_TypeError, "a step is (kind, base, key)");
        return -1;
    }
    step->kind = (uint8_t)kind;
    step->base = base;
    step->number = 0;
    step->slot = 0;
    if (PyLong_CheckExact(step->key)) {
        step->number = PyLong_AsSsize_t(step->key);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            step->number = PY_SSIZE_T_MAX;
        }
    }
    int starts = kind == STEP_ROOT || kind == STEP_CONST;
    if (kind < 0 || kind >= STEP_KIND_COUNT || base >= index || (base < 0) != starts
        || (kind == STEP_ROOT && (step->number < 0 || step->number >= roots))
        || (reads_name(kind) && !PyUnicode_CheckExact(step->key))
        || (kind == STEP_ARGUMENT && !parse_argument(step, roots))) {
        PyErr_Format(PyExc_ValueError, "step %zd is none: %R", index, item);
        return -1;
    }
    return 0;
}

Step *
steps_parse(PyObject *tuple, Py_ssize_t roots)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    Step *steps = PyMem_New(Step, count + 1);
    if (steps == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (parse_step(PyTuple_GET_ITEM(tuple, i), i, roots, &steps[i]) < 0) {
            PyMem_Free(steps);
            return NULL;
        }
    }
    return steps;
}
