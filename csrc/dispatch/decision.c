/* A tree. Each inner node reads one feature, a sum of words, and goes to the child for the interval that it lies in. Each entry
 * is below every child that one of its guards does not exclude, so that what is left out would have been tried in vain. */
#include "dispatch/decision.h"

#include <structmember.h>

#include "guards/feature.h"

typedef struct Node {
    const Feature *feature;       /* NULL: a leaf */
    Py_ssize_t count;             /* of entries, or of starts */
    Py_ssize_t *entries;          /* of a leaf: their indices */
    int64_t *starts;              /* ascending; the first is the least number there is */
    const struct Node **children; /* for each start */
    const struct Node **near;     /* for each number from the second start to the last; NULL where these lie far apart */
    uint64_t near_first;          /* the second start, modulo 2**64 */
    uint64_t near_count;          /* 0 without a table */
    const struct Node *absent;    /* where the feature cannot be had */
    const struct Node *unknown;
} Node;

typedef struct {
    PyObject_HEAD
    PyObject *entries; /* a tuple */
    PyObject *plan;    /* what the steps borrow from */
    Step *steps;
    FeatureTable features;
    Node *nodes;
    Py_ssize_t node_count;
} Decision;

enum { MOST_NUMBERS_PER_START = 16 };

/* ---- deciding ---- */

static ReadResult
read_feature(const Decision *self, const Feature *feature, PyObject *const *slots, Py_ssize_t slot_count, int64_t *word)
{
    PyObject *value;
    if (feature->is_one_word) {
        const Term *term = feature->terms;
        ReadResult found = read_value(self->steps, term->step, slots, slot_count, &value);
        return found == READ_FOUND ? read_word(value, term->kind, term->dim, word) : found;
    }
    int64_t sum = 0;
    for (Py_ssize_t i = 0; i < feature->term_count; i++) {
        ReadResult found = read_value(self->steps, feature->terms[i].step, slots, slot_count, &value);
        if (found == READ_FOUND) {
            found = term_add(&feature->terms[i], value, &sum);
        }
        if (found != READ_FOUND) {
            return found;
        }
    }
    *word = feature_of_sum(feature, sum);
    return READ_FOUND;
}

/* The index of the last start that is not greater. */
static Py_ssize_t
start_before(const Node *node, int64_t word)
{
    size_t low = 0, high = (size_t)node->count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (node->starts[middle] <= word) {
            low = middle;
        }
        else {
            high = middle;
        }
    }
    return (Py_ssize_t)low;
}

static const Node *
child_for(const Node *node, int64_t word)
{
    uint64_t place = (uint64_t)word - node->near_first;
    return place < node->near_count ? node->near[place] : node->children[start_before(node, word)];
}

PyObject *
decision_entries(PyObject *decision)
{
    return ((Decision *)decision)->entries;
}

const Py_ssize_t *
decision_candidates(PyObject *decision, PyObject *const *slots, Py_ssize_t slot_count, Py_ssize_t *count)
{
    const Decision *self = (Decision *)decision;
    const Node *node = &self->nodes[self->node_count - 1];
    while (node->feature != NULL) {
        int64_t word;
        ReadResult found = read_feature(self, node->feature, slots, slot_count, &word);
        if (found == READ_FOUND) {
            node = child_for(node, word);
            continue;
        }
        PyErr_Clear(); /* a read that fails may have raised */
        node = found == READ_ABSENT ? node->absent : node->unknown;
    }
    *count = node->count;
    return node->entries;
}

/* ---- parsing ---- */

static int
bad_plan(const char *what, Py_ssize_t index)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "Decision: %s %zd makes no sense", what, index);
    }
    return -1;
}

/* Ints below a limit; NULL, perhaps with an exception, if they are no such. */
static Py_ssize_t *
parse_indices(PyObject *tuple, Py_ssize_t limit)
{
    Py_ssize_t *indices = PyMem_New(Py_ssize_t, PyTuple_GET_SIZE(tuple) + 1);
    if (indices == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        indices[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
        if (indices[i] < 0 || indices[i] >= limit) {
            PyMem_Free(indices);
            return NULL;
        }
    }
    return indices;
}

static const Node **
parse_children(const Decision *self, PyObject *tuple, Py_ssize_t limit)
{
    Py_ssize_t *indices = parse_indices(tuple, limit);
    if (indices == NULL) {
        return NULL;
    }
    const Node **children = PyMem_New(const Node *, PyTuple_GET_SIZE(tuple) + 1);
    if (children == NULL) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; children != NULL && i < PyTuple_GET_SIZE(tuple); i++) {
        children[i] = &self->nodes[indices[i]];
    }
    PyMem_Free(indices);
    return children;
}

static int64_t *
parse_starts(PyObject *tuple)
{
    int64_t *starts = PyMem_New(int64_t, PyTuple_GET_SIZE(tuple) + 1);
    if (starts == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        starts[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (PyErr_Occurred() || (i == 0 ? starts[0] != INT64_MIN : starts[i] <= starts[i - 1])) {
            PyMem_Free(starts);
            return NULL;
        }
    }
    return starts;
}

/* A table in place of a search, where it is not much larger than the node. */
static int
fill_near(Node *node)
{
    if (node->count < 3) {
        return 0;
    }
    uint64_t first = (uint64_t)node->starts[1], numbers = (uint64_t)node->starts[node->count - 1] - first;
    if (numbers > (uint64_t)(MOST_NUMBERS_PER_START * node->count)) {
        return 0;
    }
    node->near = PyMem_New(const Node *, numbers);
    if (node->near == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint64_t i = 0; i < numbers; i++) {
        node->near[i] = node->children[start_before(node, (int64_t)(first + i))];
    }
    node->near_first = first;
    node->near_count = numbers;
    return 0;
}

/* (feature, starts, children, absent, unknown), or (-1, (), entries, -1, -1). Children stand before their parents. */
static int
parse_node(Decision *self, PyObject *item)
{
    Py_ssize_t index = self->node_count++;
    Node *node = &self->nodes[index];
    PyObject *starts, *items;
    Py_ssize_t feature, absent, unknown;
    if (!PyTuple_Check(item)
        || !PyArg_ParseTuple(item, "nO!O!nn", &feature, &PyTuple_Type, &starts, &PyTuple_Type, &items, &absent, &unknown)) {
        return bad_plan("node", index);
    }
    node->count = PyTuple_GET_SIZE(items);
    if (feature < 0) {
        node->entries = parse_indices(items, PyTuple_GET_SIZE(self->entries));
        return node->entries == NULL ? bad_plan("leaf", index) : 0;
    }
    if (feature >= self->features.count || node->count == 0 || PyTuple_GET_SIZE(starts) != node->count || absent < 0
        || absent >= index || unknown < 0 || unknown >= index || (node->starts = parse_starts(starts)) == NULL
        || (node->children = parse_children(self, items, index)) == NULL) {
        return bad_plan("node", index);
    }
    node->feature = &self->features.features[feature];
    node->absent = &self->nodes[absent];
    node->unknown = &self->nodes[unknown];
    return fill_near(node);
}

static int
parse_nodes(Decision *self, PyObject *nodes)
{
    Py_ssize_t total = PyTuple_GET_SIZE(nodes);
    self->nodes = PyMem_Calloc((size_t)total + 1, sizeof(Node));
    if (self->nodes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < total; i++) {
        if (parse_node(self, PyTuple_GET_ITEM(nodes, i)) < 0) {
            return -1;
        }
    }
    return total > 0 ? 0 : bad_plan("node", 0);
}

/* ---- the type ---- */

static PyObject *
decision_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"entries", "steps", "features", "nodes", NULL};
    PyObject *entries, *steps, *features, *nodes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!:Decision", keywords, &PyTuple_Type, &entries, &PyTuple_Type,
                                     &steps, &PyTuple_Type, &features, &PyTuple_Type, &nodes)) {
        return NULL;
    }
    Decision *self = (Decision *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->entries = Py_NewRef(entries);
    self->plan = Py_NewRef(steps);
    self->steps = steps_parse(steps, PY_SSIZE_T_MAX);
    if (self->steps == NULL || features_parse(&self->features, features, PyTuple_GET_SIZE(steps)) < 0
        || parse_nodes(self, nodes) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
decision_traverse(Decision *self, visitproc visit, void *arg)
{
    Py_VISIT(self->entries);
    Py_VISIT(self->plan);
    return 0;
}

/* Nothing is cleared: a cycle is broken at the entries. */
static void
decision_dealloc(Decision *self)
{
    PyObject_GC_UnTrack(self);
    for (Py_ssize_t i = 0; i < self->node_count; i++) {
        PyMem_Free(self->nodes[i].entries);
        PyMem_Free(self->nodes[i].starts);
        PyMem_Free(self->nodes[i].children);
        PyMem_Free(self->nodes[i].near);
    }
    PyMem_Free(self->nodes);
    features_free(&self->features);
    PyMem_Free(self->steps);
    Py_CLEAR(self->entries);
    Py_CLEAR(self->plan);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
decision_py_candidates(Decision *self, PyObject *const *slots, Py_ssize_t slot_count)
{
    Py_ssize_t count;
    const Py_ssize_t *items = decision_candidates((PyObject *)self, slots, slot_count, &count);
    PyObject *result = PyTuple_New(count);
    for (Py_ssize_t i = 0; result != NULL && i < count; i++) {
        PyTuple_SET_ITEM(result, i, Py_NewRef(PyTuple_GET_ITEM(self->entries, items[i])));
    }
    return result;
}

static PyMethodDef decision_methods[] = {
    {"candidates", (PyCFunction)(void (*)(void))decision_py_candidates, METH_FASTCALL,
     "candidates(*slots) -> the entries that may hold for these argument slots, in their order"},
    {NULL},
};

static PyMemberDef decision_members[] = {
    {"entries", T_OBJECT_EX, offsetof(Decision, entries), READONLY, NULL},
    {NULL},
};

PyTypeObject Decision_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tracer._C.Decision",
    .tp_doc = PyDoc_STR("Decision(entries, steps, features, nodes)\n--\n\n"
                        "Which of the entries may hold for the arguments of a call. steps: (kind, base, key); features:\n"
                        "(modulus, ((coefficient, kind, dim, step), ...)); nodes: (feature, starts, children, absent,\n"
                        "unknown), children first and the root last, or (-1, (), entries, -1, -1)."),
    .tp_basicsize = sizeof(Decision),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = decision_new,
    .tp_dealloc = (destructor)decision_dealloc,
    .tp_traverse = (traverseproc)decision_traverse,
    .tp_methods = decision_methods,
    .tp_members = decision_members,
};
