/* What needs torch's headers, seen from C: TensorMatch, dispatch_keys (tensor_checks.cpp), words of tensors
 * (tensor_words.cpp), which memory tensors lie in (memory_checks.cpp), GlobalState (global_state.cpp), hooks of gradients
 * (gradient_hooks.cpp). No other file includes them, but for headers that these share. */
#ifndef TRACER_TENSOR_CHECKS_H
#define TRACER_TENSOR_CHECKS_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include "word.h"

#ifdef __cplusplus
extern "C" {
#endif

/* read_word() for the kinds that are of tensors. */
ReadResult tensor_word(PyObject *value, WordKind kind, int64_t dim, int64_t *word);

/* Whether each tensor is as the TensorMatch says; runs no user code where its specs have dispatch keys of plain tensors. */
int tensors_match(PyObject *match, PyObject *const *tensors);
Py_ssize_t tensor_match_count(PyObject *match); /* -1: that is no TensorMatch */

int global_state_holds(PyObject *state);
int is_global_state(PyObject *object);

int tensor_checks_init(PyObject *module);
int tensor_words_init(PyObject *module);
int memory_checks_init(PyObject *module);
int global_state_init(PyObject *module);
int gradient_hooks_init(PyObject *module);

#ifdef __cplusplus
}
#endif

#endif
