#include "guards/feature.h"

ReadResult
term_add(const Term *term, PyObject *value, int64_t *sum)
{
    int64_t word;
    ReadResult found = read_word(value, term->kind, term->dim, &word);
    if (found == READ_FOUND
        && (__builtin_mul_overflow(word, term->coefficient, &word) || __builtin_add_overflow(*sum, word, sum))) {
        return READ_UNKNOWN;
    }
    return found;
}

int64_t
feature_of_sum(const Feature *feature, int64_t sum)
{
    if (feature->modulus > 0) {
        sum %= feature->modulus;
        sum += sum < 0 ? feature->modulus : 0;
    }
    return sum;
}

/* ---- parsing ---- */

static int
bad_feature(Py_ssize_t index)
{
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "feature %zd makes no sense", index);
    }
    return -1;
}

static int
parse_term(PyObject *item, Py_ssize_t step_count, Term *term)
{
    int kind;
    long long coefficient, dim;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "LiLn", &coefficient, &kind, &dim, &term->step) || kind < 0
        || kind >= WORD_KIND_COUNT || term->step < 0 || term->step >= step_count) {
        return -1;
    }
    term->coefficient = coefficient;
    term->kind = (WordKind)kind;
    term->dim = dim;
    return 0;
}

static int
parse_feature(FeatureTable *table, PyObject *item, Py_ssize_t step_count)
{
    long long modulus;
    PyObject *terms;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "LO!", &modulus, &PyTuple_Type, &terms) || modulus < 0) {
        return bad_feature(table->count);
    }
    Feature *feature = &table->features[table->count];
    *feature = (Feature){modulus, table->terms + table->term_count, PyTuple_GET_SIZE(terms), 0};
    for (Py_ssize_t i = 0; i < feature->term_count; i++) {
        if (parse_term(PyTuple_GET_ITEM(terms, i), step_count, &feature->terms[i]) < 0) {
            return bad_feature(table->count);
        }
    }
    feature->is_one_word = feature->term_count == 1 && feature->terms->coefficient == 1 && modulus == 0;
    table->term_count += feature->term_count;
    table->count++;
    return 0;
}

static Py_ssize_t
count_terms(PyObject *features)
{
    Py_ssize_t terms = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(features); i++) {
        PyObject *feature = PyTuple_GET_ITEM(features, i);
        if (PyTuple_Check(feature) && PyTuple_GET_SIZE(feature) == 2 && PyTuple_Check(PyTuple_GET_ITEM(feature, 1))) {
            terms += PyTuple_GET_SIZE(PyTuple_GET_ITEM(feature, 1));
        }
    }
    return terms;
}

int
features_parse(FeatureTable *table, PyObject *tuple, Py_ssize_t step_count)
{
    *table = (FeatureTable){
        PyMem_New(Feature, PyTuple_GET_SIZE(tuple) + 1),
        PyMem_New(Term, count_terms(tuple) + 1),
    };
    if (table->features == NULL || table->terms == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        if (parse_feature(table, PyTuple_GET_ITEM(tuple, i), step_count) < 0) {
            return -1;
        }
    }
    return 0;
}

void
features_free(FeatureTable *table)
{
    PyMem_Free(table->features);
    PyMem_Free(table->terms);
    *table = (FeatureTable){0};
}
