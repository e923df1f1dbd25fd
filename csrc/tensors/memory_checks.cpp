/* Which memory tensors lie in, and whose writes count as writes to them. A check_fn asks that where a graph writes to its inputs: the
 * graph is right only for inputs that overlap as those it was traced with. No C++ exception leaves this file. */
#include "tensors/tensor_checks.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

namespace {

/* Addresses [start, end) of the elements of a tensor, or of its whole storage; nothing if it has no element, or none in
 * memory (meta tensors). */
struct Extent {
    const c10::StorageImpl *storage = nullptr;
    uintptr_t start = 0, end = 0;
    int64_t offset = 0, nbytes = 0;

    bool is_nothing() const { return start == end; }
};

bool
is_before(const Extent &left, const Extent &right)
{
    return left.start < right.start;
}

/* false for what is no tensor with plain memory. May throw. */
bool
read_or_throw(PyObject *object, bool whole, Extent &extent)
{
    if (!THPVariable_Check(object)) {
        return false;
    }
    const at::Tensor &tensor = THPVariable_Unpack(object);
    const c10::TensorImpl *impl = tensor.defined() ? tensor.unsafeGetTensorImpl() : nullptr;
    if (impl == nullptr || !impl->has_storage() || impl->has_symbolic_sizes_strides()) {
        return false;
    }
    const c10::Storage &storage = impl->unsafe_storage();
    extent.storage = storage.unsafeGetStorageImpl();
    extent.offset = impl->storage_offset();
    extent.nbytes = static_cast<int64_t>(storage.nbytes());
    uintptr_t data = reinterpret_cast<uintptr_t>(storage.data());
    if (data == 0 || impl->numel() == 0) {
        return true;
    }
    int64_t last = 0;
    for (int64_t dim = 0; dim < impl->dim(); dim++) {
        last += (impl->sizes()[static_cast<size_t>(dim)] - 1) * impl->strides()[static_cast<size_t>(dim)];
    }
    int64_t item = static_cast<int64_t>(impl->itemsize());
    extent.start = whole ? data : data + static_cast<uintptr_t>(extent.offset * item);
    extent.end = whole ? data + static_cast<uintptr_t>(extent.nbytes)
                       : data + static_cast<uintptr_t>((extent.offset + last + 1) * item);
    return true;
}

bool
read_extent(PyObject *object, bool whole, Extent &extent)
{
    try {
        return read_or_throw(object, whole, extent);
    }
    catch (...) {
        PyErr_Clear();
        return false;
    }
}

/* One extent for each group of tensors that overlap one another, by where they begin; false where two groups overlap. */
bool
read_groups(PyObject *sizes, bool whole, PyObject *const *&tensors, std::vector<Extent> &groups)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); i++) {
        Extent group;
        for (long size = PyLong_AsLong(PyTuple_GET_ITEM(sizes, i)); size > 0; size--, tensors++) {
            Extent one;
            if (!read_extent(*tensors, whole, one)) {
                return false;
            }
            if (group.is_nothing()) {
                group = one;
            }
            else if (!one.is_nothing()) {
                group.start = std::min(group.start, one.start);
                group.end = std::max(group.end, one.end);
            }
        }
        if (!group.is_nothing()) {
            groups.push_back(group);
        }
    }
    std::sort(groups.begin(), groups.end(), is_before);
    for (size_t i = 1; i < groups.size(); i++) {
        if (groups[i].start < groups[i - 1].end) {
            return false;
        }
    }
    return true;
}

bool
overlaps_any(const std::vector<Extent> &groups, const Extent &extent)
{
    auto next = std::upper_bound(groups.begin(), groups.end(), extent, is_before); /* the first that begins later */
    return (next != groups.end() && next->start < extent.end) || (next != groups.begin() && (next - 1)->end > extent.start);
}

PyObject *
memory_apart(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t grouped = 0;
    for (Py_ssize_t i = 0; count >= 2 && PyTuple_Check(args[0]) && i < PyTuple_GET_SIZE(args[0]); i++) {
        grouped += PyLong_AsSsize_t(PyTuple_GET_ITEM(args[0], i));
    }
    if (count < 2 || !PyTuple_Check(args[0]) || grouped > count - 2 || PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "memory_apart(sizes of groups, whole storages, *tensors, those of groups first)");
        return nullptr;
    }
    bool whole = args[1] == Py_True;
    PyObject *const *next = args + 2, *const *end = args + count;
    std::vector<Extent> groups;
    try {
        if (!read_groups(args[0], whole, next, groups)) {
            Py_RETURN_FALSE;
        }
    }
    catch (const std::exception &error) {
        PyErr_SetString(PyExc_MemoryError, error.what());
        return nullptr;
    }
    for (; next < end; next++) {
        Extent extent;
        if (!read_extent(*next, whole, extent) || (!extent.is_nothing() && overlaps_any(groups, extent))) {
            Py_RETURN_FALSE;
        }
    }
    Py_RETURN_TRUE;
}

PyObject *
memory_shared(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    if (count < 3 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != count - 2) {
        PyErr_SetString(PyExc_TypeError, "memory_shared(offsets, bytes of the storage, *tensors)");
        return nullptr;
    }
    int64_t nbytes = PyLong_AsLongLong(args[1]);
    const c10::StorageImpl *storage = nullptr;
    for (Py_ssize_t i = 0; i < count - 2; i++) {
        Extent extent;
        if (!read_extent(args[i + 2], true, extent) || extent.nbytes != nbytes
            || extent.offset != PyLong_AsLongLong(PyTuple_GET_ITEM(args[0], i))
            || (storage != nullptr && extent.storage != storage)) {
            Py_RETURN_FALSE;
        }
        storage = extent.storage;
    }
    if (PyErr_Occurred()) {
        return nullptr;
    }
    Py_RETURN_TRUE;
}

PyObject *
memory_extent(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    Extent extent;
    if (count != 2 || !read_extent(args[0], args[1] == Py_True, extent)) {
        PyErr_SetString(PyExc_TypeError, "memory_extent(tensor, whole storage): a tensor with memory of its own");
        return nullptr;
    }
    return Py_BuildValue("(KKKLL)", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(extent.storage)),
                         static_cast<unsigned long long>(extent.start), static_cast<unsigned long long>(extent.end),
                         static_cast<long long>(extent.offset), static_cast<long long>(extent.nbytes));
}

PyObject *
share_version(PyObject *, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !THPVariable_Check(args[0]) || !THPVariable_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "share_version(tensor, other)");
        return nullptr;
    }
    c10::TensorImpl *impl = THPVariable_Unpack(args[0]).unsafeGetTensorImpl();
    c10::TensorImpl *other = THPVariable_Unpack(args[1]).unsafeGetTensorImpl();
    if (impl->is_inference() || other->is_inference()) {
        PyErr_SetString(PyExc_TypeError, "share_version(tensor, other): writes to inference tensors are not counted");
        return nullptr;
    }
    impl->set_version_counter(other->version_counter());
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"memory_apart", (PyCFunction)(void (*)(void))memory_apart, METH_FASTCALL,
     "memory_apart(sizes, whole, *tensors) -> whether no tensor overlaps a group that it is not of. The first tensors are "
     "those of the groups, which have these sizes; the rest may overlap one another. With `whole` the storages are meant."},
    {"memory_shared", (PyCFunction)(void (*)(void))memory_shared, METH_FASTCALL,
     "memory_shared(offsets, nbytes, *tensors) -> whether they begin at these offsets of one storage of nbytes bytes"},
    {"memory_extent", (PyCFunction)(void (*)(void))memory_extent, METH_FASTCALL,
     "memory_extent(tensor, whole) -> (storage, address, address of the end, storage offset, bytes of the storage)"},
    {"share_version", (PyCFunction)(void (*)(void))share_version, METH_FASTCALL,
     "share_version(tensor, other): writes to either count as writes to both, as those to a tensor and its detach() do"},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

int
memory_checks_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
