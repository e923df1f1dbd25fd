/* TensorMatch: what check_fn knows of tensors, all of them checked in one call. With memory_checks.cpp and global_state.cpp
 * the only file that includes torch's headers. No C++ exception leaves this file. */
#include "tensor_checks.h"

#include <structmember.h>

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/version.h>

namespace {

constexpr int64_t kOpen = INT64_MIN; /* a size or stride that may be anything */

/* What one tensor must be. A field that the Python side gave as None is not checked. */
struct Spec {
    PyTypeObject *cls = nullptr; /* borrowed from TensorMatch.specs */
    bool has_keys = false, has_dtype = false, has_device = false, has_grad = false, has_sizes = false,
         has_strides = false;
    uint64_t keys = 0;
    at::ScalarType dtype = at::ScalarType::Undefined;
    c10::DeviceType device_type = c10::DeviceType::CPU;
    int64_t device_index = -1;
    bool requires_grad = false;
    std::vector<int64_t> sizes, strides;
};

/* The same in few bytes, for a spec that leaves no field open; its sizes and strides stand one after the other in `dims`. */
struct QuickSpec {
    PyTypeObject *cls = nullptr; /* nullptr: this spec has fields that are open */
    uint64_t keys = 0;
    at::ScalarType dtype = at::ScalarType::Undefined;
    c10::Device device = c10::Device(c10::DeviceType::CPU);
    bool requires_grad = false;
    uint32_t dim_count = 0, first_dim = 0;
};

enum class Field { None, Class, Keys, Dtype, Device, Grad, Rank, Size, Stride, Symbolic, Unreadable };

struct Mismatch {
    Field field = Field::None;
    int64_t dim = 0;
};

struct TensorMatch {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *specs;
    std::vector<Spec> *parsed;
    std::vector<QuickSpec> *quick;
    std::vector<int64_t> *dims;
};

uint64_t
effective_keys(const at::Tensor &tensor, const c10::impl::LocalDispatchKeySet &local)
{
    return ((tensor.key_set() | local.included_) - local.excluded_).raw_repr();
}

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
    if (!PyType_Check(field[0])
        || !PyType_IsSubtype((PyTypeObject *)field[0], (PyTypeObject *)THPVariableClass)) {
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

QuickSpec
quick_spec(const Spec &spec, std::vector<int64_t> &dims)
{
    QuickSpec quick;
    if (!spec.has_keys || !spec.has_dtype || !spec.has_device || !spec.has_grad || !spec.has_sizes
        || !spec.has_strides) {
        return quick;
    }
    quick.cls = spec.cls;
    quick.keys = spec.keys;
    quick.dtype = spec.dtype;
    quick.device = c10::Device(spec.device_type, static_cast<c10::DeviceIndex>(spec.device_index));
    quick.requires_grad = spec.requires_grad;
    quick.dim_count = static_cast<uint32_t>(spec.sizes.size());
    quick.first_dim = static_cast<uint32_t>(dims.size());
    dims.insert(dims.end(), spec.sizes.begin(), spec.sizes.end());
    dims.insert(dims.end(), spec.strides.begin(), spec.strides.end());
    return quick;
}

/* ---- the type ---- */

bool
same_dims(const int64_t *expected, c10::IntArrayRef seen)
{
    for (size_t i = 0; i < seen.size(); i++) {
        if (expected[i] != seen[i] && expected[i] != kOpen) {
            return false;
        }
    }
    return true;
}

/* As compare_or_throw(), for most tensors; false says nothing. */
bool
matches_quickly(const QuickSpec &spec, const int64_t *dims, PyObject *object,
                const c10::impl::LocalDispatchKeySet &local)
{
    if (Py_TYPE(object) != spec.cls) {
        return false;
    }
    const at::Tensor &tensor = THPVariable_Unpack(object);
    const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    if (!tensor.defined() || impl->has_symbolic_sizes_strides() || effective_keys(tensor, local) != spec.keys
        || impl->device() != spec.device || tensor.scalar_type() != spec.dtype) {
        return false;
    }
    c10::IntArrayRef sizes = impl->sizes();
    return sizes.size() == spec.dim_count && same_dims(dims + spec.first_dim, sizes)
           && same_dims(dims + spec.first_dim + spec.dim_count, impl->strides())
           && impl->requires_grad() == spec.requires_grad;
}

/* Whether each tensor of the specs matches; `tensors` are as many. */
bool
all_match(const TensorMatch *self, PyObject *const *tensors)
{
    const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
    const std::vector<QuickSpec> &quick = *self->quick;
    const int64_t *dims = self->dims->data();
    size_t i = 0;
    try {
        while (i < quick.size() && matches_quickly(quick[i], dims, tensors[i], local)) {
            i++;
        }
    }
    catch (...) {
        PyErr_Clear();
    }
    for (; i < quick.size(); i++) {
        if (compare((*self->parsed)[i], tensors[i], local).field != Field::None) {
            return false;
        }
    }
    return true;
}

PyObject *
match_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *keywords)
{
    const std::vector<Spec> &specs = *reinterpret_cast<TensorMatch *>(callable)->parsed;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    if (keywords != nullptr || count != static_cast<Py_ssize_t>(specs.size())) {
        PyErr_Format(PyExc_TypeError, "this TensorMatch takes %zd tensors, positionally; %zd were given", specs.size(),
                     count);
        return nullptr;
    }
    return PyBool_FromLong(all_match(reinterpret_cast<TensorMatch *>(callable), args));
}

PyObject *
match_all(PyObject *object, PyObject *tensors)
{
    const std::vector<Spec> &specs = *reinterpret_cast<TensorMatch *>(object)->parsed;
    if (!PyTuple_CheckExact(tensors) || PyTuple_GET_SIZE(tensors) != static_cast<Py_ssize_t>(specs.size())) {
        PyErr_Format(PyExc_TypeError, "all() of this TensorMatch takes a tuple of %zd tensors", specs.size());
        return nullptr;
    }
    return PyBool_FromLong(all_match(reinterpret_cast<TensorMatch *>(object), &PyTuple_GET_ITEM(tensors, 0)));
}

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

/* (what, expected, seen) of a mismatch; `spec` is the tuple that was given. May throw. */
PyObject *
describe(PyObject *spec, const Mismatch &mismatch, PyObject *object)
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
        return Py_BuildValue("(sOK)", "dispatch_keys", expected(1),
                             static_cast<unsigned long long>(
                                 effective_keys(tensor, c10::impl::tls_local_dispatch_key_set())));
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

PyObject *
describe_safely(PyObject *spec, const Mismatch &mismatch, PyObject *object)
{
    try {
        return describe(spec, mismatch, object);
    }
    catch (...) {
        PyErr_Clear();
        return Py_BuildValue("(sss)", "sizes", "readable", "unreadable");
    }
}

PyObject *
match_first_mismatch(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    TensorMatch *self = reinterpret_cast<TensorMatch *>(object);
    Py_ssize_t expected = PyTuple_GET_SIZE(self->specs);
    if (count != expected) {
        return Py_BuildValue("(nsnn)", Py_MIN(count, expected), "count", expected, count);
    }
    const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
    for (Py_ssize_t i = 0; i < count; i++) {
        Mismatch mismatch = compare((*self->parsed)[static_cast<size_t>(i)], args[i], local);
        if (mismatch.field == Field::None) {
            continue;
        }
        PyObject *words = describe_safely(PyTuple_GET_ITEM(self->specs, i), mismatch, args[i]);
        if (words == nullptr) {
            return nullptr;
        }
        PyObject *result = Py_BuildValue("(nOOO)", i, PyTuple_GET_ITEM(words, 0), PyTuple_GET_ITEM(words, 1),
                                         PyTuple_GET_ITEM(words, 2));
        Py_DECREF(words);
        return result;
    }
    Py_RETURN_NONE;
}

/* nullptr with an exception. */
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
match_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *keywords[] = {"specs", nullptr};
    PyObject *specs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:TensorMatch", const_cast<char **>(keywords), &PyTuple_Type,
                                     &specs)) {
        return nullptr;
    }
    std::vector<Spec> *parsed = read_specs(specs);
    if (parsed == nullptr) {
        return nullptr;
    }
    TensorMatch *self = reinterpret_cast<TensorMatch *>(type->tp_alloc(type, 0));
    if (self == nullptr) {
        delete parsed;
        return nullptr;
    }
    self->vectorcall = match_call;
    self->specs = Py_NewRef(specs);
    self->parsed = parsed;
    self->quick = new std::vector<QuickSpec>();
    self->dims = new std::vector<int64_t>();
    for (const Spec &spec : *parsed) {
        self->quick->push_back(quick_spec(spec, *self->dims));
    }
    return reinterpret_cast<PyObject *>(self);
}

int
match_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(reinterpret_cast<TensorMatch *>(self)->specs);
    return 0;
}

/* The specs stay until the end, for `parsed` borrows from them; a cycle through a class is broken at the class. */
void
match_dealloc(PyObject *object)
{
    TensorMatch *self = reinterpret_cast<TensorMatch *>(object);
    PyObject_GC_UnTrack(object);
    delete self->parsed;
    delete self->quick;
    delete self->dims;
    Py_CLEAR(self->specs);
    Py_TYPE(object)->tp_free(object);
}

PyObject *
match_repr(PyObject *self)
{
    return PyUnicode_FromFormat("TensorMatch(%R)", reinterpret_cast<TensorMatch *>(self)->specs);
}

PyMethodDef match_methods[] = {
    {"all", match_all, METH_O, "all(tensors) -> whether each tensor of the tuple matches its spec"},
    {"first_mismatch", (PyCFunction)(void (*)(void))match_first_mismatch, METH_FASTCALL,
     "first_mismatch(*tensors) -> (index, what, expected, seen), or None if all match"},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef match_members[] = {
    {"specs", T_OBJECT_EX, offsetof(TensorMatch, specs), READONLY, "One spec for each tensor."},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject *
match_type()
{
    static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "tracer._C.TensorMatch";
    type.tp_doc = PyDoc_STR("TensorMatch(specs)\n--\n\nCalled with as many tensors: whether each is as its spec says, "
                            "(cls, dispatch_keys, dtype, device_type, device_index, requires_grad, sizes, strides).\n"
                            "None is not checked, for a field, a size or a stride (device_index: -1).");
    type.tp_basicsize = sizeof(TensorMatch);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = offsetof(TensorMatch, vectorcall);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = match_new;
    type.tp_dealloc = match_dealloc;
    type.tp_traverse = match_traverse;
    type.tp_repr = match_repr;
    type.tp_methods = match_methods;
    type.tp_members = match_members;
    return &type;
}

PyObject *
dispatch_keys(PyObject *, PyObject *object)
{
    try {
        if (THPVariable_Check(object)) {
            return PyLong_FromUnsignedLongLong(
                effective_keys(THPVariable_Unpack(object), c10::impl::tls_local_dispatch_key_set()));
        }
    }
    catch (python_error &error) {
        error.restore();
        return nullptr;
    }
    PyErr_Format(PyExc_TypeError, "dispatch_keys() takes a tensor, not %.100s", Py_TYPE(object)->tp_name);
    return nullptr;
}

PyMethodDef functions[] = {
    {"dispatch_keys", dispatch_keys, METH_O,
     "dispatch_keys(tensor) -> its dispatch keys with what is included and excluded on this thread, as one int"},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

int
tensor_checks_init(PyObject *module)
{
    if (THPVariableClass == nullptr) {
        PyErr_SetString(PyExc_ImportError, "tracer._C needs torch: import torch before it");
        return -1;
    }
    if (PyModule_AddFunctions(module, functions) < 0 || PyModule_AddType(module, match_type()) < 0) {
        return -1;
    }
    return PyModule_AddStringConstant(module, "built_for_torch", TORCH_VERSION);
}
