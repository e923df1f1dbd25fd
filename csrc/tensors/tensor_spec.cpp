/* A spec is compared field by field, the cheapest first, and the first that differs is named. Torch throws where a tensor has no
 * strides, or computes its sizes in Python: such a tensor matches nothing. */
#include "tensors/tensor_spec.h"

#include <string>

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

namespace tracer {

namespace {

int64_t
first_difference(const std::vector<int64_t> &expected, c10::IntArrayRef seen)
{
    for (size_t i = 0; i < expected.size(); i++) {
        if (expected[i] != kOpen && expected[i] != seen[i]) {
            return static_cast<int64_t>(i);
        }
    }
    return -1;
}

Mismatch
compare_geometry(const Spec &spec, const at::Tensor &tensor)
{
    const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    if (impl->dim() != static_cast<int64_t>(spec.sizes.size())) {
        return {Field::Rank, 0};
    }
    if (impl->has_symbolic_sizes_strides()) {
        return {Field::Symbolic, 0};
    }
    int64_t dim = first_difference(spec.sizes, impl->sizes());
    if (dim >= 0) {
        return {Field::Size, dim};
    }
    dim = spec.has_strides ? first_difference(spec.strides, impl->strides()) : -1;
    return dim >= 0 ? Mismatch{Field::Stride, dim} : Mismatch{};
}

/* May throw: some tensors have no strides, or compute their sizes in Python. */
Mismatch
compare_or_throw(const Spec &spec, PyObject *object, const c10::impl::LocalDispatchKeySet &local)
{
    if (Py_TYPE(object) != spec.cls) {
        return {Field::Class, 0};
    }
    const at::Tensor &tensor = THPVariable_Unpack(object);
    if (!tensor.defined()) {
        return {Field::Unreadable, 0};
    }
    if (spec.has_keys && effective_keys(tensor, local) != spec.keys) {
        return {Field::Keys, 0};
    }
    if (spec.has_dtype && tensor.scalar_type() != spec.dtype) {
        return {Field::Dtype, 0};
    }
    if (spec.has_device) {
        c10::Device device = tensor.device();
        if (device.type() != spec.device_type || device.index() != spec.device_index) {
            return {Field::Device, 0};
        }
    }
    if (spec.has_grad && tensor.requires_grad() != spec.requires_grad) {
        return {Field::Grad, 0};
    }
    return spec.has_sizes ? compare_geometry(spec, tensor) : Mismatch{};
}

/* ---- reading specs ---- */

[[noreturn]] void
bad_spec(const char *message)
{
    PyErr_Format(PyExc_TypeError,
                 "TensorMatch: %s; a spec is (cls, dispatch_keys, dtype, device_type, device_index, requires_grad, "
                 "sizes, strides)",
                 message);
    throw python_error();
}

std::vector<int64_t>
read_dims(PyObject *dims)
{
    if (!PyTuple_Check(dims)) {
        bad_spec("sizes and strides are tuples of int or None, or None");
    }
    std::vector<int64_t> result;
    result.reserve(static_cast<size_t>(PyTuple_GET_SIZE(dims)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dims); i++) {
        PyObject *item = PyTuple_GET_ITEM(dims, i);
        int64_t value = item == Py_None ? kOpen : PyLong_AsLongLong(item);
        if (value == -1 && PyErr_Occurred()) {
            throw python_error();
        }
        result.push_back(value);
    }
    return result;
}

/* "cpu" -> CPU; the reading is torch's own. */
c10::DeviceType
read_device_type(PyObject *name)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    if (text == nullptr) {
        bad_spec("device_type is a str");
    }
    try {
        return c10::Device(std::string(text)).type();
    }
    catch (const c10::Error &) {
        bad_spec("device_type is no device of torch");
    }
}

void
read_device(Spec &spec, PyObject *type, PyObject *index)
{
    spec.has_device = type != Py_None;
    if (!spec.has_device) {
        return;
    }
    spec.device_type = read_device_type(type);
    spec.device_index = index == Py_None ? -1 : PyLong_AsLongLong(index);
    if (PyErr_Occurred()) {
        throw python_error();
    }
}

Spec
read_spec(PyObject *item)
{
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 8) {
        bad_spec("a spec is a tuple of 8");
    }
    PyObject **field = &PyTuple_GET_ITEM(item, 0);
    Spec spec;
    if (!PyType_Check(field[0]) || !PyType_IsSubtype((PyTypeObject *)field[0], (PyTypeObject *)THPVariableClass)) {
        bad_spec("cls is torch.Tensor or a subclass");
    }
    spec.cls = (PyTypeObject *)field[0];
    if ((spec.has_keys = field[1] != Py_None)) {
        spec.keys = PyLong_AsUnsignedLongLong(field[1]);
        if (PyErr_Occurred()) {
            throw python_error();
        }
    }
    if ((spec.has_dtype = field[2] != Py_None)) {
        if (!THPDtype_Check(field[2])) {
            bad_spec("dtype is a torch.dtype");
        }
        spec.dtype = reinterpret_cast<THPDtype *>(field[2])->scalar_type;
    }
    read_device(spec, field[3], field[4]);
    if ((spec.has_grad = field[5] != Py_None)) {
        spec.requires_grad = field[5] == Py_True;
    }
    if ((spec.has_sizes = field[6] != Py_None)) {
        spec.sizes = read_dims(field[6]);
    }
    if ((spec.has_strides = field[7] != Py_None)) {
        spec.strides = read_dims(field[7]);
        if (!spec.has_sizes || spec.strides.size() != spec.sizes.size()) {
            bad_spec("strides come with sizes, as many");
        }
    }
    return spec;
}

/* ---- words ---- */

PyObject *
device_tuple(const char *type, int64_t index)
{
    return Py_BuildValue("(sL)", type, static_cast<long long>(index));
}

PyObject *
seen_device(const at::Tensor &tensor)
{
    c10::Device device = tensor.device();
    return device_tuple(c10::DeviceTypeName(device.type(), true).c_str(), device.index());
}

/* May throw. */
PyObject *
describe_or_throw(PyObject *spec, const Mismatch &mismatch, PyObject *object)
{
    auto expected = [&](int at) { return PyTuple_GET_ITEM(spec, at); };
    auto dim_of = [&](int at) { return PyTuple_GET_ITEM(PyTuple_GET_ITEM(spec, at), mismatch.dim); };
    if (mismatch.field == Field::Class) {
        return Py_BuildValue("(sOO)", "class", expected(0), Py_TYPE(object));
    }
    const at::Tensor &tensor = THPVariable_Unpack(object);
    std::string dim = "[" + std::to_string(mismatch.dim) + "]";
    switch (mismatch.field) {
    case Field::Keys:
        return Py_BuildValue(
            "(sOK)", "dispatch_keys", expected(1),
            static_cast<unsigned long long>(effective_keys(tensor, c10::impl::tls_local_dispatch_key_set())));
    case Field::Dtype:
        return Py_BuildValue("(sOO)", "dtype", expected(2), torch::getTHPDtype(tensor.scalar_type()));
    case Field::Device:
        return Py_BuildValue("(s(OO)N)", "device", expected(3), expected(4), seen_device(tensor));
    case Field::Grad:
        return Py_BuildValue("(sOO)", "requires_grad", expected(5), tensor.requires_grad() ? Py_True : Py_False);
    case Field::Rank:
        return Py_BuildValue("(snL)", "ndim", PyTuple_GET_SIZE(expected(6)), static_cast<long long>(tensor.dim()));
    case Field::Size:
        return Py_BuildValue("(sOL)", ("size" + dim).c_str(), dim_of(6),
                             static_cast<long long>(tensor.sizes()[static_cast<size_t>(mismatch.dim)]));
    case Field::Stride:
        return Py_BuildValue("(sOL)", ("stride" + dim).c_str(), dim_of(7),
                             static_cast<long long>(tensor.strides()[static_cast<size_t>(mismatch.dim)]));
    case Field::Symbolic:
        return Py_BuildValue("(sOs)", "sizes", expected(6), "symbolic");
    default:
        return Py_BuildValue("(sss)", "sizes", "readable", "unreadable");
    }
}

} // namespace

Mismatch
compare(const Spec &spec, PyObject *object, const c10::impl::LocalDispatchKeySet &local)
{
    try {
        return compare_or_throw(spec, object, local);
    }
    catch (...) {
        PyErr_Clear();
        return {Field::Unreadable, 0};
    }
}

std::vector<Spec> *
read_specs(PyObject *specs)
{
    std::vector<Spec> *parsed = new std::vector<Spec>();
    try {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(specs); i++) {
            parsed->push_back(read_spec(PyTuple_GET_ITEM(specs, i)));
        }
        return parsed;
    }
    catch (python_error &error) {
        error.restore();
    }
    catch (const std::exception &error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    delete parsed;
    return nullptr;
}

PyObject *
describe(PyObject *spec, const Mismatch &mismatch, PyObject *object)
{
    try {
        return describe_or_throw(spec, mismatch, object);
    }
    catch (...) {
        PyErr_Clear();
        return Py_BuildValue("(sss)", "sizes", "readable", "unreadable");
    }
}

} // namespace tracer
