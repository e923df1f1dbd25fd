/* What needs torch's headers, seen from C: TensorMatch, dispatch_keys (tensor_checks.cpp), which memory tensors lie in
 * (memory_checks.cpp), GlobalState (global_state.cpp). */
#ifndef TRACER_TENSOR_CHECKS_H
#define TRACER_TENSOR_CHECKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

int tensor_checks_init(PyObject *module);
int memory_checks_init(PyObject *module);
int global_state_init(PyObject *module);

#ifdef __cplusplus
}
#endif

#endif
