/* A tree. Each inner node reads one feature, a sum of words, and goes to the child for the interval that it lies in. Each entry
 * is below every child that one of its guards does not exclude, so that what is left out would have been tried in vain. */
#include "dispatch/decision.h"

#include <structmember.h>

#include "guards/feature.h"

typedef struct {
    Py_ssize_t feature; /* -1: a leaf */
    Py_ssize_t count;   /* of starts; of entries at a leaf */
    int64_t *starts;    /* ascending; the first is the least number there is */
    Py_ssize_t *items;  /* the child for each start; at a leaf, the entries */
    Py_ssize_t *near;   /* the child for each number from the second start to the last; NULL where these lie far apart */
    Py_ssize_t absent;  /* the child where the feature cannot be had */
    Py_ssize_t unknown;
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
    int64_t sum = 0;
    for (Py_ssize_t i = 0; i < feature->term_count; i++) {
        PyObject *value;
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

static Py_ssize_t
child_for(const Node *node, int64_t word)
{
    if (node->near == NULL) {
        return node->items[start_before(node, word)];
    }
    if (word < node->starts[1]) {
        return node->items[0];
    }
    if (word >= node->starts[node->count - 1]) {
        return node->items[node->count - 1];
    }
    return node->near[word - node->starts[1]];
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
    while (node->feature >= 0) {
        int64_t word;
        ReadResult found = read_feature(self, &self->features.features[node->feature], slots, slot_count, &word);
        if (found == READ_FOUND) {
            node = &self->nodes[child_for(node, word)];
            continue;
        }
        PyErr_Clear(); /* a read that fails may have raised */
        node = &self->nodes[found == READ_ABSENT ? node->absent : node->unknown];
    }
    *count = node->count;
    return node->items;
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

static int
parse_indices(PyObject *tuple, Py_ssize_t *items, Py_ssize_t limit)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        items[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
        if (items[i] < 0 || items[i] >= limit) {
            return -1;
        }
    }
    return 0;
}

static int
parse_starts(PyObject *tuple, int64_t *starts)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        starts[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (PyErr_Occurred() || (i == 0 ? starts[0] != INT64_MIN : starts[i] <= starts[i - 1])) {
            return -1;
        }
    }
    return 0;
}

/* A table in place of a search, where it is not much larger than the node. */
static int
fill_near(Node *node)
{
    if (node->count < 3) {
        return 0;
    }
    uint64_t numbers = (uint64_t)node->starts[node->count - 1] - (uint64_t)node->starts[1];
    if (numbers > (uint64_t)(MOST_NUMBERS_PER_START * node->count)) {
        return 0;
    }
    node->near = PyMem_New(Py_ssize_t, numbers);
    if (node->near == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint64_t i = 0; i < numbers; i++) {
        node->near[i] = node->items[start_before(node, node->starts[1] + (int64_t)i)];
    }
    return 0;
}

/* (feature, starts, items, absent, unknown). Children stand before their parents. */
static int
parse_node(Decision *self, PyObject *item)
{
    Py_ssize_t index = self->node_count;
    Node *node = &self->nodes[index];
    PyObject *starts, *items;
    if (!PyTuple_Check(item)
        || !PyArg_ParseTuple(item, "nO!O!nn", &node->feature, &PyTuple_Type, &starts, &PyTuple_Type, &items, &node->absent,
                             &node->unknown)) {
        return bad_plan("node", index);
    }
    int leaf = node->feature < 0;
    node->count = PyTuple_GET_SIZE(items);
    node->items = PyMem_New(Py_ssize_t, node->count + 1);
    node->starts = PyMem_New(int64_t, PyTuple_GET_SIZE(starts) + 1);
    self->node_count++;
    if (node->items == NULL || node->starts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (leaf) {
        return parse_indices(items, node->items, PyTuple_GET_SIZE(self->entries)) < 0 ? bad_plan("leaf", index) : 0;
    }
    if (node->feature >= self->features.count || node->count == 0 || PyTuple_GET_SIZE(starts) != node->count
        || node->absent < 0 || node->absent >= index || node->unknown < 0 || node->unknown >= index
        || parse_starts(starts, node->starts) < 0 || parse_indices(items, node->items, index) < 0) {
        return bad_plan("node", index);
    }
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
        PyMem_Free(self->nodes[i].starts);
        PyMem_Free(self->nodes[i].items);
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
