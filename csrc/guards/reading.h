/* Values that the arguments of a call lead to, and words of 64 bits that tell such values apart; read without running user
 * code. */
#ifndef TRACER_READING_H
#define TRACER_READING_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include "word.h"

/* What a step does with the value of the step that it starts from. Python knows these names as `_C.STEP`. Steps that lead to
 * no value have None. */
#define STEPS(X)                                                                                             \
    X(ROOT)        /* an argument of the call, by index */                                                   \
    X(CONST)       /* the key itself */                                                                      \
    X(ATTR)        /* as raw_attr() */                                                                       \
    X(NO_ATTR)     /* raw_attr() finds nothing */                                                            \
    X(DICT)        /* as instance_dict() */                                                                  \
    X(ITEM)        /* of a dict, list or tuple */                                                            \
    X(NO_ITEM)     /* a dict has no such key */                                                              \
    X(TYPE)        /* type(value) */                                                                         \
    X(TYPE_ITEM)   /* of a class, in its own namespace */                                                    \
    X(TYPE_LOOKUP) /* of a class, along its MRO */                                                           \
    X(NO_TYPE_LOOKUP)                                                                                        \
    X(MRO)             /* of a class */                                                                      \
    X(PROPERTY_GETTER) /* `fget` of a property */                                                            \
    X(CODE)            /* from here on, of a function */                                                     \
    X(DEFAULTS)                                                                                              \
    X(KWDEFAULTS)                                                                                            \
    X(CLOSURE)                                                                                               \
    X(GLOBALS)                                                                                               \
    X(CELL_CONTENTS)                                                                                         \
    X(METHOD_SELF)                                                                                           \
    X(METHOD_FUNC)                                                                                           \
    X(ARGUMENT) /* (name, slot, index): of the tuple in a slot, or else by name of a dict */                 \
    X(WHOLE)    /* from here on, for a recording alone: the length of a list, the keys of a dict in order */ \
    X(EXACT)    /* the type is that of now */                                                                \
    X(KEEP)     /* a constant: a reference is held, so that no other object is ever found at its address */

#define STEP_ENUMERATOR(name) STEP_##name,
typedef enum { STEPS(STEP_ENUMERATOR) STEP_KIND_COUNT } StepKind;
#undef STEP_ENUMERATOR

typedef struct {
    PyObject *key;     /* borrowed from the tuple that the steps were parsed from */
    Py_ssize_t number; /* the key, if that is an int; the largest one for those that do not fit */
    int32_t base;      /* the step that it starts from, or -1 */
    int32_t slot;      /* of an ARGUMENT: where the tuple stands among the roots */
    uint8_t kind;
} Step;

/* From a tuple of (kind, base, key); NULL with an exception. To be freed with PyMem_Free(). `roots`: how many arguments there
 * are. */
Step *steps_parse(PyObject *tuple, Py_ssize_t roots);

/* All steps up to `index`, from the roots. A borrowed reference. */
ReadResult read_value(const Step *steps, Py_ssize_t index, PyObject *const *roots, Py_ssize_t root_count, PyObject **value);

/* One step, from the value that it starts from (of a step without a base: unused). A borrowed reference. */
ReadResult read_step(const Step *step, PyObject *const *roots, PyObject *base, PyObject **value);

/* The same; what has to stay as it is for the step to lead to the same value is noted. */
struct Recording;
ReadResult record_step(const Step *step, PyObject *const *roots, PyObject *base, PyObject **value,
                       struct Recording *recording);

/* `dim` is for sizes and strides. READ_ABSENT: of a value that cannot have one. */
ReadResult read_word(PyObject *value, WordKind kind, int64_t dim, int64_t *word);

#endif
