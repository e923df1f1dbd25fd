/* What reading.h reads of tensors. No C++ exception leaves this file. */
#include "tensor_checks.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include "tensor_spec.h"

namespace {

ReadResult
word_of_dim(c10::IntArrayRef dims, int64_t dim, int64_t *word)
{
    if (dim < 0 || dim >= static_cast<int64_t>(dims.size())) {
        return READ_ABSENT;
    }
    *word = dims[static_cast<size_t>(dim)];
    return READ_FOUND;
}

/* May throw: some tensors have no strides. */
ReadResult
word_of(const at::Tensor &tensor, WordKind kind, int64_t dim, int64_t *word)
{
    const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    switch (kind) {
    case WORD_SIZE:
        return word_of_dim(impl->sizes(), dim, word);
    case WORD_STRIDE:
        return word_of_dim(impl->strides(), dim, word);
    case WORD_RANK:
        *word = impl->dim();
        return READ_FOUND;
    case WORD_OFFSET:
        *word = impl->storage_offset();
        return READ_FOUND;
    case WORD_DTYPE:
        *word = static_cast<int64_t>(reinterpret_cast<intptr_t>(torch::getTHPDtype(tensor.scalar_type())));
        return READ_FOUND;
    case WORD_KEYS:
        *word = static_cast<int64_t>(tracer::effective_keys(tensor, c10::impl::tls_local_dispatch_key_set()));
        return READ_FOUND;
    case WORD_GRAD:
        *word = tensor.requires_grad();
        return READ_FOUND;
    case WORD_LEAF:
        *word = tensor.is_leaf();
        return READ_FOUND;
    default:
        return READ_UNKNOWN;
    }
}

} // namespace

/* A subclass, and a tensor that counts in symbols, may have to be asked in Python. */
ReadResult
tensor_word(PyObject *value, WordKind kind, int64_t dim, int64_t *word)
{
    if (!THPVariable_CheckExact(value)) {
        return THPVariable_Check(value) ? READ_UNKNOWN : READ_ABSENT;
    }
    const at::Tensor &tensor = THPVariable_Unpack(value);
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
        return READ_UNKNOWN;
    }
    try {
        return word_of(tensor, kind, dim, word);
    }
    catch (...) {
        PyErr_Clear();
        return READ_UNKNOWN;
    }
}
