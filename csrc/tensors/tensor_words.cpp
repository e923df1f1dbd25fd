/* The words of tensors (word.h), and their sizes, strides and offsets for Python. A tensor of a subclass, or with symbolic sizes, may
 * have to be asked in Python; then no word is given. No C++ exception leaves this file. */
#include "tensors/tensor_checks.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include "tensors/tensor_spec.h"

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

/* The number that a method of the tensor gives; __torch_function__ is not asked. */
PyObject *
ask_tensor(const char *method, PyObject *const *args, Py_ssize_t count)
{
    const auto before = at::impl::PythonTorchFunctionTLS::get_disabled_state();
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
    PyObject *answer = count == 1 ? PyObject_CallMethod(args[0], method, nullptr)
                                  : PyObject_CallMethod(args[0], method, "O", args[1]);
    at::impl::PythonTorchFunctionTLS::set_disabled_state(before);
    return answer;
}

PyObject *
number_of(WordKind kind, const char *method, PyObject *const *args, Py_ssize_t count, Py_ssize_t wanted)
{
    if (count != wanted || (count == 2 && !PyLong_CheckExact(args[1]))) {
        PyErr_Format(PyExc_TypeError, "tensor_%s() takes a tensor%s", method, wanted == 2 ? " and an int" : "");
        return nullptr;
    }
    const int64_t dim = count == 2 ? PyLong_AsLongLong(args[1]) : 0;
    if (dim == -1 && PyErr_Occurred()) {
        return nullptr;
    }
    int64_t word;
    return tensor_word(args[0], kind, dim, &word) == READ_FOUND ? PyLong_FromLongLong(word)
                                                                : ask_tensor(method, args, count);
}

PyObject *
tensor_size(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    return number_of(WORD_SIZE, "size", args, count, 2);
}

PyObject *
tensor_stride(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    return number_of(WORD_STRIDE, "stride", args, count, 2);
}

PyObject *
tensor_storage_offset(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    return number_of(WORD_OFFSET, "storage_offset", args, count, 1);
}

PyMethodDef functions[] = {
    {"tensor_size", (PyCFunction)(void (*)(void))tensor_size, METH_FASTCALL,
     "tensor_size(tensor, dim) -> the size, whatever __torch_function__ says"},
    {"tensor_stride", (PyCFunction)(void (*)(void))tensor_stride, METH_FASTCALL,
     "tensor_stride(tensor, dim) -> the stride, whatever __torch_function__ says"},
    {"tensor_storage_offset", (PyCFunction)(void (*)(void))tensor_storage_offset, METH_FASTCALL,
     "tensor_storage_offset(tensor) -> the offset, whatever __torch_function__ says"},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

int
tensor_words_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}

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
