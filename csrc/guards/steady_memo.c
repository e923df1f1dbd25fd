/* Walks the steps once and notes each word of memory that has to stay as it is for them to lead to the same values. Runs no
 * user code. The GIL is held throughout, and nothing here lets go of it: dict lookups compare plain strings only. */
#include "guards/steady.h"

#include "guards/guard_checks.h"
#include "guards/plain_keys.h"

#include <structmember.h>

typedef struct {
    Memo *memo;
    PyObject **values;    /* of each step, borrowed */
    Py_ssize_t *instance; /* for each step, the DictWatch of its value's instance dict, or -1 */
    Py_ssize_t *content;  /* the DictWatch of its value, a dict */
    Py_ssize_t *fact;     /* the Fact that its value is, or -1 */
    char *typed;          /* its value's type was noted */
} Recording;

/* ---- types ---- */

/* Whether `__class__` of the type's objects cannot be assigned. */
static int
stays_of_type(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) && !PyType_IsSubtype(type, &PyModule_Type);
}

static void
note_type(Recording *recording, Py_ssize_t step)
{
    PyObject *value = recording->values[step];
    if (recording->typed[step]) {
        return;
    }
    recording->typed[step] = 1;
    if (recording->fact[step] >= 0 && stays_of_type(Py_TYPE(value))) {
        recording->memo->facts[recording->fact[step]].type = Py_TYPE(value);
    }
    else {
        memo_add_word(recording->memo, &value->ob_type);
    }
}

/* ---- dicts ---- */

/* Reads a key of the dict and notes what was found. */
static int
read_key(Recording *recording, Py_ssize_t watch, PyObject *key, PyObject **value)
{
    int known;
    *value = find_plain_key(recording->memo->dicts[watch].dict, key, &known);
    if (known) {
        memo_add_fact(recording->memo, watch, key, *value);
    }
    return known;
}

/* The container at a step, or the mapping behind a mappingproxy. */
static PyObject *
container_at(Recording *recording, Py_ssize_t step)
{
    PyObject **place;
    PyObject *container = unproxied(recording->values[step], &place);
    if (place != NULL) {
        memo_add_word(recording->memo, place);
    }
    return container;
}

/* The watch of the dict that is the value of a step. */
static Py_ssize_t
content_of(Recording *recording, Py_ssize_t step, PyObject *dict)
{
    if (recording->content[step] < 0) {
        recording->content[step] = memo_watch_dict(recording->memo, dict);
    }
    return recording->content[step];
}

/* The watch of the instance dict of a step's value, which is made if 3.11 has kept the attributes without one. */
static Py_ssize_t
instance_of(Recording *recording, Py_ssize_t step)
{
    if (recording->instance[step] < 0) {
        PyObject **place = _PyObject_GetDictPtr(recording->values[step]);
        if (place == NULL) {
            PyErr_Clear();
            return -1;
        }
        if (*place == NULL) {
            PyObject *made = PyObject_GenericGetDict(recording->values[step], NULL);
            Py_XDECREF(made);
            if (made == NULL || *place != made) {
                PyErr_Clear();
                return -1;
            }
        }
        memo_add_word(recording->memo, place);
        recording->instance[step] = memo_watch_dict(recording->memo, *place);
    }
    return recording->instance[step];
}

/* ---- steps ---- */

/* A filled or empty slot of the instance. */
static int
read_member(Recording *recording, PyObject *object, PyMemberDescrObject *member, PyObject **value)
{
    if (member->d_member->type != T_OBJECT_EX || !PyObject_TypeCheck(object, PyDescr_TYPE(member))) {
        return 0;
    }
    PyObject **place = (PyObject **)((char *)object + member->d_member->offset);
    memo_add_word(recording->memo, place);
    *value = *place;
    return 1;
}

static int
read_attribute(Recording *recording, const Step *step, PyObject **value)
{
    PyObject *object = recording->values[step->base];
    note_type(recording, step->base);
    if (!memo_watch_type(recording->memo, Py_TYPE(object))) {
        return 0;
    }
    PyObject *in_type = _PyType_Lookup(Py_TYPE(object), step->key);
    if (in_type != NULL && Py_IS_TYPE(in_type, &PyMemberDescr_Type)) {
        return read_member(recording, object, (PyMemberDescrObject *)in_type, value);
    }
    Py_ssize_t watch = instance_of(recording, step->base);
    return watch >= 0 && read_key(recording, watch, step->key, value);
}

static int
read_dict(Recording *recording, const Step *step, PyObject **value)
{
    note_type(recording, step->base);
    Py_ssize_t watch = instance_of(recording, step->base);
    *value = watch < 0 ? NULL : recording->memo->dicts[watch].dict;
    return watch >= 0;
}

/* The size of a list or tuple, and where its items are. */
static PyObject **
note_items(Memo *memo, PyObject *sequence)
{
    memo_add_word(memo, &((PyVarObject *)sequence)->ob_size);
    if (PyTuple_Check(sequence)) {
        return ((PyTupleObject *)sequence)->ob_item;
    }
    memo_add_word(memo, &((PyListObject *)sequence)->ob_item);
    return ((PyListObject *)sequence)->ob_item;
}

static int
read_item(Recording *recording, const Step *step, PyObject **value)
{
    PyObject *container = container_at(recording, step->base);
    if (PyDict_Check(container)) {
        note_type(recording, step->base);
        return read_key(recording, content_of(recording, step->base, container), step->key, value);
    }
    if (!PyLong_CheckExact(step->key) || !(PyList_CheckExact(container) || PyTuple_Check(container))) {
        return 0;
    }
    Py_ssize_t size = Py_SIZE(container);
    Py_ssize_t index = step->number < 0 ? step->number + size : step->number;
    if (index < 0 || index >= size) {
        return 0;
    }
    PyObject **place = note_items(recording->memo, container) + index;
    memo_add_word(recording->memo, place);
    *value = *place;
    return 1;
}

static int
keep(Memo *memo, PyObject *value)
{
    memo->kept[memo->kept_count++] = Py_NewRef(value);
    return 1;
}

static int
read_whole(Recording *recording, const Step *step)
{
    PyObject *container = container_at(recording, step->base);
    note_type(recording, step->base);
    if (PyDict_Check(container)) {
        recording->memo->dicts[content_of(recording, step->base, container)].whole = 1;
        return 1;
    }
    if (PyList_CheckExact(container) || PyTuple_Check(container)) {
        note_items(recording->memo, container);
        return 1;
    }
    return (PyUnicode_CheckExact(container) || PyBytes_CheckExact(container)) && keep(recording->memo, container);
}

static int
read_class(Recording *recording, const Step *step, PyObject **value)
{
    PyTypeObject *type = (PyTypeObject *)recording->values[step->base];
    if (!PyType_Check((PyObject *)type) || !memo_watch_type(recording->memo, type) || !PyUnicode_CheckExact(step->key)) {
        return 0;
    }
    if (step->kind == STEP_TYPE_ITEM) {
        int known;
        *value = find_plain_key(type->tp_dict, step->key, &known);
        return known;
    }
    *value = _PyType_Lookup(type, step->key);
    return 1;
}

/* The place of a slot, for words; NULL if the object has none. */
static PyObject **
slot_place(PyObject *object, Slot slot)
{
    PyFunctionObject *function = PyFunction_Check(object) ? (PyFunctionObject *)object : NULL;
    PyMethodObject *method = PyMethod_Check(object) ? (PyMethodObject *)object : NULL;
    switch (slot) {
    case SLOT_CODE:
        return function ? &function->func_code : NULL;
    case SLOT_DEFAULTS:
        return function ? &function->func_defaults : NULL;
    case SLOT_KWDEFAULTS:
        return function ? &function->func_kwdefaults : NULL;
    case SLOT_CLOSURE:
        return function ? &function->func_closure : NULL;
    case SLOT_GLOBALS:
        return function ? &function->func_globals : NULL;
    case SLOT_CELL_CONTENTS:
        return PyCell_Check(object) ? &((PyCellObject *)object)->ob_ref : NULL;
    case SLOT_METHOD_SELF:
        return method ? &method->im_self : NULL;
    case SLOT_METHOD_FUNC:
        return method ? &method->im_func : NULL;
    default:
        return NULL;
    }
}

/* `fget` of a property never changes; the property is found in a class, whose version tells it from others. */
static int
read_getter(PyObject *object, PyObject **value)
{
    if (!Py_IS_TYPE(object, &PyProperty_Type)) {
        return 0;
    }
    *value = PyObject_GetAttrString(object, "fget");
    Py_XDECREF(*value); /* the property holds it */
    return *value != NULL;
}

static int
read_slot(Recording *recording, const Step *step, PyObject **value)
{
    PyObject *object = recording->values[step->base];
    if (step->number == SLOT_PROPERTY_GETTER) {
        return read_getter(object, value);
    }
    if (step->number == SLOT_MRO) {
        *value = PyType_Check(object) ? ((PyTypeObject *)object)->tp_mro : NULL;
        return *value != NULL && memo_watch_type(recording->memo, (PyTypeObject *)object);
    }
    PyObject **place = slot_place(object, (Slot)step->number);
    if (place == NULL) {
        return 0;
    }
    memo_add_word(recording->memo, place);
    *value = *place == NULL ? Py_None : *place;
    return *place != NULL || step->number != SLOT_CELL_CONTENTS;
}

/* Whether the step could be made; *value is NULL where nothing is there. */
static int
take_step(Recording *recording, const Step *step, PyObject *const *roots, PyObject **value)
{
    switch ((StepKind)step->kind) {
    case STEP_ROOT:
        *value = roots[step->number];
        return 1;
    case STEP_CONST:
        *value = step->key;
        return 1;
    case STEP_ATTR:
        return read_attribute(recording, step, value) && *value != NULL;
    case STEP_NO_ATTR:
        return read_attribute(recording, step, value) && *value == NULL;
    case STEP_DICT:
        return read_dict(recording, step, value);
    case STEP_ITEM:
        return read_item(recording, step, value) && *value != NULL;
    case STEP_NO_ITEM:
        return read_item(recording, step, value) && *value == NULL;
    case STEP_WHOLE:
        return read_whole(recording, step);
    case STEP_EXACT:
        note_type(recording, step->base);
        return 1;
    case STEP_KEEP:
        return keep(recording->memo, recording->values[step->base]);
    case STEP_TYPE:
        note_type(recording, step->base);
        *value = (PyObject *)Py_TYPE(recording->values[step->base]);
        return 1;
    case STEP_TYPE_ITEM:
    case STEP_TYPE_LOOKUP:
        return read_class(recording, step, value) && *value != NULL;
    case STEP_NO_TYPE_LOOKUP:
        return read_class(recording, step, value) && *value == NULL;
    case STEP_SLOT:
        return read_slot(recording, step, value);
    case STEP_COUNT:
        break;
    }
    return 0;
}

static int
take_step_at(Recording *recording, const Plan *plan, Py_ssize_t index, PyObject *const *roots)
{
    const Step *step = &plan->steps[index];
    PyObject *value = NULL;
    Py_ssize_t facts = recording->memo->fact_count;
    if ((step->base >= 0 && recording->values[step->base] == NULL) || !take_step(recording, step, roots, &value)) {
        return 0;
    }
    recording->values[index] = value;
    recording->instance[index] = recording->content[index] = -1;
    recording->fact[index] = recording->memo->fact_count > facts ? facts : -1;
    recording->typed[index] = 0;
    return 1;
}

/* Each value is tested before a step starts from it. */
static Outcome
take_steps(Recording *recording, const Plan *plan, PyObject *const *roots, int tested)
{
    const Test *test = plan->tests, *end = test == NULL || !tested ? test : test + plan->test_count;
    for (Py_ssize_t i = 0; i < plan->step_count; i++) {
        if (!take_step_at(recording, plan, i, roots)) {
            return UNSURE;
        }
        for (; test != end && test->step == i; test++) {
            Outcome outcome = test_holds(test, recording->values);
            if (outcome != HOLDS) {
                return outcome;
            }
        }
    }
    return HOLDS;
}

/* The values that are held, which may have to be apart. */
static Outcome
take_held(Recording *recording, const Plan *plan, int tested)
{
    PyObject **held = recording->memo->held;
    for (Py_ssize_t i = 0; i < plan->held_count; i++) {
        held[i] = recording->values[plan->held[i]];
    }
    int apart = tested && plan->apart ? all_distinct(held, plan->held_count) : 1;
    return apart < 0 ? UNSURE : apart ? HOLDS : FAILS;
}

Memo *
memo_record(const Plan *plan, PyObject *const *roots, Outcome *outcome)
{
    int collects = PyGC_Disable(); /* an instance dict may be made, and objects must not go away meanwhile */
    size_t count = (size_t)plan->step_count + 1;
    Recording recording = {
        memo_new(plan->step_count, plan->root_count, plan->held_count),
        PyMem_New(PyObject *, count),
        PyMem_New(Py_ssize_t, count),
        PyMem_New(Py_ssize_t, count),
        PyMem_New(Py_ssize_t, count),
        PyMem_New(char, count),
    };
    int has_room = recording.memo && recording.values && recording.instance && recording.content && recording.fact
                   && recording.typed;
    Outcome found = has_room ? take_steps(&recording, plan, roots, outcome != NULL) : UNSURE;
    if (found == HOLDS) {
        for (Py_ssize_t i = 0; i < plan->root_count; i++) {
            recording.memo->roots[i] = roots[i];
        }
        found = take_held(&recording, plan, outcome != NULL);
    }
    if (collects) {
        PyGC_Enable();
    }
    PyMem_Free(recording.values);
    PyMem_Free(recording.instance);
    PyMem_Free(recording.content);
    PyMem_Free(recording.fact);
    PyMem_Free(recording.typed);
    PyErr_Clear();
    if (outcome != NULL) {
        *outcome = found;
    }
    if (found != HOLDS) {
        memo_free(recording.memo);
        return NULL;
    }
    memo_fit(recording.memo);
    return recording.memo;
}
