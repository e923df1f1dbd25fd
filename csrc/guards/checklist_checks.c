/* All values are read first, each once: a path that leads nowhere is a guard that fails. No user code runs and the GIL is held
 * until all that can be told here is told, so that references to what was read can be borrowed. */
#include "guards/checklist.h"
#include "guards/steady.h"
#include "tensors/tensor_checks.h"
#include "guards/unchanged.h"

enum { FEW_CHECKED = 32 };

static Outcome
outcome_of(ReadResult found)
{
    return found == READ_FOUND ? HOLDS : found == READ_ABSENT ? FAILS : UNSURE;
}

static Outcome
read_all(const Checklist *self, PyObject *const *slots, PyObject **values)
{
    for (Py_ssize_t i = 0; i < self->step_count; i++) {
        const Step *step = &self->steps[i];
        ReadResult found = read_step(step, slots, step->base < 0 ? NULL : values[step->base], &values[i]);
        if (found != READ_FOUND) {
            return outcome_of(found);
        }
    }
    return HOLDS;
}

static Outcome
groups_hold(const Checklist *self, PyObject *const *slots, PyObject **values)
{
    for (Py_ssize_t i = 0; i < self->group_count; i++) {
        const SteadyGroup *group = &self->groups[i];
        PyObject *const *roots = group->root < -1 ? &values[-2 - group->root] : group->root < 0 ? NULL : &slots[group->root];
        PyObject *const *held = steady_held(group->steady, roots);
        if (held == NULL) {
            Outcome outcome = steady_ask(group->steady, roots);
            held = outcome == HOLDS ? steady_held(group->steady, roots) : NULL;
            if (held == NULL) {
                return outcome == FAILS ? FAILS : UNSURE;
            }
        }
        memcpy(values + group->first, held, (size_t)group->count * sizeof(PyObject *));
        if (group->match != NULL && !tensors_match(group->match, held)) {
            return FAILS;
        }
    }
    return HOLDS;
}

static Outcome
range_holds(const Checklist *self, const Range *range, PyObject *const *values)
{
    const Feature *feature = &self->features.features[range->feature];
    int64_t sum = 0;
    for (Py_ssize_t i = 0; i < feature->term_count; i++) {
        ReadResult found = term_add(&feature->terms[i], values[feature->terms[i].step], &sum);
        if (found != READ_FOUND) {
            return outcome_of(found);
        }
    }
    sum = feature_of_sum(feature, sum);
    return range->low <= sum && sum <= range->high ? HOLDS : FAILS;
}

static int
same_text(PyObject *a, PyObject *b)
{
    return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0);
}

/* UNSURE where a key is not exactly a str: comparing it could run user code. `keys` are the ones that are expected. */
static Outcome
same_keys(PyObject *dict, PyObject *keys)
{
    if (!PyDict_CheckExact(dict) || !dict_has_only_str_keys(dict)) {
        return UNSURE;
    }
    if (PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) {
        return FAILS;
    }
    PyObject *key, *value;
    for (Py_ssize_t at = 0, i = 0; PyDict_Next(dict, &at, &key, &value); i++) {
        if (!same_text(key, PyTuple_GET_ITEM(keys, i))) {
            return FAILS;
        }
    }
    return HOLDS;
}

static Outcome
equal_holds(const Equal *equal, PyObject *const *values)
{
    PyObject *value = values[equal->value];
    if (PyTuple_CheckExact(equal->expected)) {
        return same_keys(value, equal->expected);
    }
    return same_text(value, equal->expected) ? HOLDS : FAILS;
}

static Outcome
tensors_hold(const Checklist *self, PyObject *const *values)
{
    PyObject *few[FEW_CHECKED], **tensors = few;
    if (self->match == NULL) {
        return HOLDS;
    }
    if (self->tensors.count > FEW_CHECKED && (tensors = PyMem_New(PyObject *, self->tensors.count)) == NULL) {
        return UNSURE;
    }
    for (Py_ssize_t i = 0; i < self->tensors.count; i++) {
        tensors[i] = values[self->tensors.items[i]];
    }
    int match = tensors_match(self->match, tensors);
    if (tensors != few) {
        PyMem_Free(tensors);
    }
    return match ? HOLDS : FAILS;
}

static int
is_among(PyObject *value, PyObject *const *values, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (values[i] == value) {
            return 1;
        }
    }
    return 0;
}

static Outcome
all_apart(const Checklist *self, PyObject *const *values)
{
    const SteadyGroup *known = self->known_apart < 0 ? NULL : &self->groups[self->known_apart];
    for (Py_ssize_t i = 0; i < self->apart.count; i++) {
        PyObject *value = values[self->apart.items[i]];
        if (known != NULL && is_among(value, values + known->first, known->count)) {
            return FAILS;
        }
        for (Py_ssize_t j = 0; j < i; j++) {
            if (values[self->apart.items[j]] == value) {
                return FAILS;
            }
        }
    }
    return HOLDS;
}

Outcome
checklist_holds(const Checklist *self, PyObject *const *slots, PyObject **values)
{
    if (self->state != NULL && !global_state_holds(self->state)) {
        return FAILS;
    }
    if (self->unchanged != NULL && !unchanged_holds(self->unchanged)) {
        return UNSURE;
    }
    Outcome outcome = read_all(self, slots, values);
    if (outcome == HOLDS) {
        outcome = groups_hold(self, slots, values);
    }
    for (Py_ssize_t i = 0; i < self->range_count && outcome == HOLDS; i++) {
        outcome = range_holds(self, &self->ranges[i], values);
    }
    for (Py_ssize_t i = 0; i < self->equal_count && outcome == HOLDS; i++) {
        outcome = equal_holds(&self->equals[i], values);
    }
    if (outcome == HOLDS) {
        outcome = tensors_hold(self, values);
    }
    if (outcome == HOLDS) {
        outcome = all_apart(self, values);
    }
    int counted = self->counter == NULL || self->counter->count == self->count;
    return outcome == HOLDS && !counted ? UNSURE : outcome;
}
