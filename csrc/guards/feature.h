/* Features: numbers that are read of values, each a sum of words with coefficients, perhaps modulo a number. */
#ifndef TRACER_FEATURE_H
#define TRACER_FEATURE_H

#include "guards/reading.h"

typedef struct {
    int64_t coefficient;
    WordKind kind;
    int64_t dim;
    Py_ssize_t step; /* whose value */
} Term;

typedef struct {
    int64_t modulus; /* 0: none */
    Term *terms;     /* into those of the table */
    Py_ssize_t term_count;
    int is_one_word; /* of its single term, as it is */
} Feature;

typedef struct {
    Feature *features;
    Term *terms;
    Py_ssize_t count, term_count;
} FeatureTable;

/* From a tuple of (modulus, ((coefficient, kind, dim, step), ...)); -1 with an exception. */
int features_parse(FeatureTable *table, PyObject *tuple, Py_ssize_t step_count);
void features_free(FeatureTable *table);

/* Adds a term of the value to the sum. */
ReadResult term_add(const Term *term, PyObject *value, int64_t *sum);
/* The feature, of the sum of its terms. */
int64_t feature_of_sum(const Feature *feature, int64_t sum);

#endif
