/* TensorMatch: checks in one call what a check_fn demands of all its tensors. Most tensors are compared by a few words of memory
 * (tensor_quick.h); where that does not say yes, field by field (tensor_spec.h). No C++ exception leaves this file. */
#include "tensors/tensor_checks.h"

#include <structmember.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/version.h>

#include "tensors/tensor_quick.h"

using tracer::compare;
using tracer::effective_keys;
using tracer::Field;
using tracer::Mismatch;
using tracer::Spec;

namespace {

struct TensorMatch {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *specs;
    std::vector<Spec> *parsed;
    tracer::QuickSpecs *quick;
};

/* Whether each tensor of the specs matches; `tensors` are as many. */
bool
all_match(const TensorMatch *self, PyObject *const *tensors)
{
    const c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
    const tracer::ThreadKeys keys(local);
    const tracer::QuickSpecs &quick = *self->quick;
    for (size_t i = 0, count = self->parsed->size(); i < count; i++) {
        if (!quick.matches(i, tensors[i], keys) && compare((*self->parsed)[i], tensors[i], local).field != Field::None) {
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
        PyObject *words = tracer::describe(PyTuple_GET_ITEM(self->specs, i), mismatch, args[i]);
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

PyObject *
match_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *keywords[] = {"specs", nullptr};
    PyObject *specs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:TensorMatch", const_cast<char **>(keywords), &PyTuple_Type, &specs)) {
        return nullptr;
    }
    std::vector<Spec> *parsed = tracer::read_specs(specs);
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
    self->quick = new tracer::QuickSpecs(*parsed);
    return reinterpret_cast<PyObject *>(self);
}

int
match_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(reinterpret_cast<TensorMatch *>(self)->specs);
    return 0;
}

/* There is no tp_clear: `parsed` borrows classes from the specs. A cycle that goes through a class is broken at the class. */
void
match_dealloc(PyObject *object)
{
    TensorMatch *self = reinterpret_cast<TensorMatch *>(object);
    PyObject_GC_UnTrack(object);
    delete self->parsed;
    delete self->quick;
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
    static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)
    };
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
tensors_match(PyObject *match, PyObject *const *tensors)
{
    return all_match(reinterpret_cast<TensorMatch *>(match), tensors);
}

Py_ssize_t
tensor_match_count(PyObject *match)
{
    return Py_IS_TYPE(match, match_type()) ? PyTuple_GET_SIZE(reinterpret_cast<TensorMatch *>(match)->specs) : -1;
}

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
