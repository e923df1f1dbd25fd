/* Whether a node of autograd's graph has hooks for the gradients that come to it. Torch tells nobody in Python. No C++ exception leaves
 * this file. */
#include "tensors/tensor_checks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>

namespace {

/* nullptr for what is no node. */
torch::autograd::Node *
node_of(PyObject *object)
{
    if (THPFunction_Check(object)) {
        return ((THPFunction *)object)->cdata.get();
    }
    if (torch::autograd::THPCppFunction_Check(object)) {
        return ((torch::autograd::THPCppFunction *)object)->cdata.get();
    }
    return nullptr;
}

PyObject *
has_gradient_hooks(PyObject *Py_UNUSED(module), PyObject *object)
{
    torch::autograd::Node *node = node_of(object);
    if (node == nullptr) {
        return PyErr_Format(PyExc_TypeError, "has_gradient_hooks() takes a node of autograd's graph, not %s",
                            Py_TYPE(object)->tp_name);
    }
    return PyBool_FromLong(!node->tensor_pre_hooks().empty() || !node->pre_hooks().empty());
}

PyMethodDef functions[] = {
    {"has_gradient_hooks", has_gradient_hooks, METH_O,
     "has_gradient_hooks(node) -> whether hooks of a tensor, or of the node, are called with the gradients that come to it"},
    {nullptr},
};

} // namespace

int
gradient_hooks_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
