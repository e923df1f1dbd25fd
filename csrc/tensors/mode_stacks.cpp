/* A mode is remembered by a weak reference, so that a trace keeps no mode of its user alive. Names of classes and devices say in
 * words what a stack held. */
#include "tensors/mode_stacks.h"

#include <memory>

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/utils/pythoncapi_compat.h> /* PyWeakref_GetRef, before 3.13 */

namespace tracer {

namespace {

PyTypeObject *device_context_class = nullptr; /* what set_default_device() and `with torch.device(...)` push */
PyTypeObject *fake_mode_class = nullptr;

using Kind = ModeStack::Kind;

int64_t
size_now(Kind kind)
{
    return kind == Kind::OfFunctions ? at::impl::PythonTorchFunctionTLS::stack_len()
                                     : c10::impl::TorchDispatchModeTLS::stack_len();
}

/* Borrowed. */
PyObject *
mode_now(Kind kind, int64_t index)
{
    return kind == Kind::OfFunctions ? at::impl::PythonTorchFunctionTLS::get_stack_at(index)->ptr(getPyInterpreter())
                                     : c10::impl::TorchDispatchModeTLS::get_stack_at(index)->ptr(getPyInterpreter());
}

/* The device of a device context: new reference, or nullptr without an exception. */
PyObject *
context_device(PyObject *mode)
{
    if (Py_TYPE(mode) != device_context_class) {
        return nullptr;
    }
    PyObject **dict = _PyObject_GetDictPtr(mode);
    PyObject *device = dict == nullptr || *dict == nullptr ? nullptr : PyDict_GetItemString(*dict, "device");
    return device != nullptr && THPDevice_Check(device) ? Py_NewRef(device) : nullptr;
}

Mode
remember(Kind kind, PyObject *object)
{
    Mode mode{(PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(object)), context_device(object), Mode::Device};
    if (mode.held == nullptr && (kind == Kind::OfFunctions || mode.type == fake_mode_class)) {
        mode.held = Py_NewRef(Py_None);
        mode.by = Mode::Class;
    }
    if (mode.held == nullptr) {
        mode.held = PyWeakref_NewRef(object, nullptr);
        mode.by = Mode::Weak;
    }
    if (mode.held == nullptr) {
        PyErr_Clear();
        mode.held = Py_NewRef(object);
        mode.by = Mode::Strong;
    }
    return mode;
}

bool
same_device(PyObject *held, PyObject *object)
{
    PyObject *device = context_device(object);
    bool same = device != nullptr && ((THPDevice *)device)->device == ((THPDevice *)held)->device;
    Py_XDECREF(device);
    return same;
}

bool
is_target(PyObject *reference, PyObject *object)
{
    PyObject *target = nullptr;
    (void)PyWeakref_GetRef(reference, &target); /* fails for what is no weak reference */
    Py_XDECREF(target);
    return target == object;
}

bool
is_same(const Mode &mode, PyObject *object)
{
    if (Py_TYPE(object) != mode.type) {
        return false;
    }
    switch (mode.by) {
    case Mode::Weak:
        return is_target(mode.held, object);
    case Mode::Strong:
        return mode.held == object;
    case Mode::Class:
        return true; /* the types are the same */
    default:
        return same_device(mode.held, object);
    }
}

PyObject *
mode_word(PyTypeObject *type, PyObject *device)
{
    return device == nullptr ? PyUnicode_FromString(type->tp_name) : PyUnicode_FromFormat("%s(%S)", type->tp_name, device);
}

PyObject *
words_of(const std::vector<Mode> &modes)
{
    PyObject *words = PyList_New(0);
    for (const Mode &mode : modes) {
        PyObject *word = mode_word(mode.type, mode.by == Mode::Device ? mode.held : nullptr);
        if (word == nullptr || PyList_Append(words, word) < 0) {
            Py_CLEAR(words);
        }
        Py_XDECREF(word);
        if (words == nullptr) {
            break;
        }
    }
    return words;
}

} // namespace

ModeStack
ModeStack::of_now(Kind kind)
{
    ModeStack stack(kind);
    for (int64_t i = 0; i < size_now(kind); i++) {
        stack.modes_.push_back(remember(kind, mode_now(kind, i)));
    }
    return stack;
}

bool
ModeStack::has_the_modes_of_now() const
{
    for (size_t i = 0; i < modes_.size(); i++) {
        if (!is_same(modes_[i], mode_now(kind_, static_cast<int64_t>(i)))) {
            return false;
        }
    }
    return true;
}

bool
ModeStack::is_that_of_now() const
{
    return is_that_of_now(static_cast<size_t>(size_now(kind_)));
}

PyObject *
ModeStack::words() const
{
    return words_of(modes_);
}

PyObject *
ModeStack::words_of_now() const
{
    ModeStack now = of_now(kind_);
    PyObject *words = now.words();
    now.clear();
    return words;
}

int
ModeStack::traverse(visitproc visit, void *arg) const
{
    for (const Mode &mode : modes_) {
        Py_VISIT(mode.type);
        Py_VISIT(mode.held);
    }
    return 0;
}

/* Releasing a reference may run code that looks at this stack. */
void
ModeStack::clear()
{
    std::vector<Mode> gone;
    gone.swap(modes_);
    for (Mode &mode : gone) {
        Py_DECREF(mode.type);
        Py_DECREF(mode.held);
    }
}

PyObject *
import_name(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *found = module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return found;
}

int
mode_stacks_init()
{
    device_context_class = (PyTypeObject *)import_name("torch.utils._device", "DeviceContext");
    fake_mode_class = (PyTypeObject *)import_name("torch._subclasses.fake_tensor", "FakeTensorMode");
    return device_context_class == nullptr || fake_mode_class == nullptr ? -1 : 0;
}

} // namespace tracer
