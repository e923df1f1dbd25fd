/* What one tensor must be, read from what the Python side gives, compared, and put in words. For files with torch's headers. */
#ifndef TRACER_TENSOR_SPEC_H
#define TRACER_TENSOR_SPEC_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tracer {

constexpr int64_t kOpen = INT64_MIN; /* a size or stride that may be anything */

/* What one tensor must be. A field that the Python side gave as None is not checked. */
struct Spec {
    PyTypeObject *cls = nullptr; /* borrowed from TensorMatch.specs */
    bool has_keys = false, has_dtype = false, has_device = false, has_grad = false, has_sizes = false, has_strides = false;
    uint64_t keys = 0;
    at::ScalarType dtype = at::ScalarType::Undefined;
    c10::DeviceType device_type = c10::DeviceType::CPU;
    int64_t device_index = -1;
    bool requires_grad = false;
    std::vector<int64_t> sizes, strides;
};

enum class Field { None, Class, Keys, Dtype, Device, Grad, Rank, Size, Stride, Symbolic, Unreadable };

struct Mismatch {
    Field field = Field::None;
    int64_t dim = 0;
};

inline uint64_t
effective_keys(const at::Tensor &tensor, const c10::impl::LocalDispatchKeySet &local)
{
    return ((tensor.key_set() | local.included_) - local.excluded_).raw_repr();
}

/* Whether, and if not in what first, the object is as the spec says. Never throws. */
Mismatch compare(const Spec &spec, PyObject *object, const c10::impl::LocalDispatchKeySet &local);

/* From a tuple of specs; nullptr with an exception. */
std::vector<Spec> *read_specs(PyObject *specs);

/* (what, expected, seen) of a mismatch; `spec` is the tuple that was given. nullptr with an exception. */
PyObject *describe(PyObject *spec, const Mismatch &mismatch, PyObject *object);

} // namespace tracer

#endif
