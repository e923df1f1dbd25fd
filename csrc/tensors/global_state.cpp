/* GlobalState: torch's settings of a moment that change what a trace would record, namely some numbers and the stacks of modes. A
 * check reads them where they lie in memory (thread_places.h), which saves a call into torch for each. */
#include "tensors/tensor_checks.h"

#include <array>
#include <cstdint>

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/AutogradState.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "tensors/mode_stacks.h"
#include "tensors/thread_places.h"

using tracer::ModeStack;
using tracer::ThreadPlaces;

namespace {

/* ---- settings that are one number ---- */

enum class Kind { Bool, Dtype, Number };

struct Setting {
    const char *name;
    Kind kind;
    int64_t (*read)();
};

PyObject *peek_interpreter_stack = nullptr; /* functorch's own header cannot be included from outside of torch */

/* What the innermost functorch interpreter answers to `method` (level or key); -1 if there is none. While functorch
 * works on an operator it takes its key off the thread; then it changes no trace. */
int64_t
functorch(const char *method)
{
    if (!c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) {
        return -1;
    }
    PyObject *interpreter = PyObject_CallNoArgs(peek_interpreter_stack);
    PyObject *answer = interpreter == nullptr || interpreter == Py_None ? nullptr
                                                                        : PyObject_CallMethod(interpreter, method, nullptr);
    PyObject *number = answer == nullptr ? nullptr : PyNumber_Long(answer);
    int64_t value = number == nullptr ? -1 : PyLong_AsLongLong(number);
    PyErr_Clear();
    Py_XDECREF(number);
    Py_XDECREF(answer);
    Py_XDECREF(interpreter);
    return value;
}

/* Whether a level of forward AD is open, in which tensors have tangents. Levels belong to the process, not to a thread. */
bool
dual_level()
{
    return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
}

template <at::DeviceType device>
int64_t
autocast_enabled()
{
    return at::autocast::is_autocast_enabled(device);
}

template <at::DeviceType device>
int64_t
autocast_dtype()
{
    return static_cast<int64_t>(at::autocast::get_autocast_dtype(device));
}

constexpr std::array<Setting, 14> settings{{
    {"grad_mode", Kind::Bool, [] { return int64_t(c10::GradMode::is_enabled()); }},
    {"inference_mode", Kind::Bool, [] { return int64_t(c10::InferenceMode::is_enabled()); }},
    {"default_dtype", Kind::Dtype, [] { return int64_t(c10::get_default_dtype_as_scalartype()); }},
    {"deterministic_algorithms", Kind::Bool, [] { return int64_t(at::globalContext().deterministicAlgorithms()); }},
    {"deterministic_warn_only", Kind::Bool, [] { return int64_t(at::globalContext().deterministicAlgorithmsWarnOnly()); }},
    {"autocast_cpu", Kind::Bool, autocast_enabled<at::kCPU>},
    {"autocast_cpu_dtype", Kind::Dtype, autocast_dtype<at::kCPU>},
    {"autocast_cuda", Kind::Bool, autocast_enabled<at::kCUDA>},
    {"autocast_cuda_dtype", Kind::Dtype, autocast_dtype<at::kCUDA>},
    {"autocast_cache", Kind::Bool, [] { return int64_t(at::autocast::is_autocast_cache_enabled()); }},
    {"torch_function_disabled", Kind::Number,
     [] { return int64_t(at::impl::PythonTorchFunctionTLS::get_disabled_state()); }},
    {"functorch_level", Kind::Number, [] { return functorch("level"); }},
    {"functorch_transform", Kind::Number, [] { return functorch("key"); }},
    {"dual_level", Kind::Bool, [] { return int64_t(dual_level()); }},
}};

PyObject *
setting_value(Kind kind, int64_t value)
{
    switch (kind) {
    case Kind::Bool:
        return PyBool_FromLong(static_cast<long>(value));
    case Kind::Dtype:
        return Py_NewRef((PyObject *)torch::getTHPDtype(static_cast<at::ScalarType>(value)));
    default:
        return PyLong_FromLongLong(value);
    }
}

/* ---- words for what changed ---- */

/* Steals the three last; appends "name was x, is y". */
int
append_change(PyObject *list, const char *name, PyObject *was, PyObject *is, const char *note)
{
    PyObject *text = was == nullptr || is == nullptr ? nullptr
                                                     : PyUnicode_FromFormat("%s was %R, is %R%s", name, was, is, note);
    int failed = text == nullptr ? -1 : PyList_Append(list, text);
    Py_XDECREF(text);
    Py_XDECREF(was);
    Py_XDECREF(is);
    return failed;
}

int
append_stack_change(PyObject *list, const char *name, const ModeStack &modes)
{
    if (modes.is_that_of_now()) {
        return 0;
    }
    PyObject *was = modes.words(), *is = modes.words_of_now();
    int alike = was != nullptr && is != nullptr && PyObject_RichCompareBool(was, is, Py_EQ) == 1;
    return append_change(list, name, was, is, alike ? " (other objects)" : "");
}

/* ---- the type ---- */

struct GlobalState {
    PyObject_HEAD
    std::array<int64_t, settings.size()> values;
    ModeStack *function_modes, *dispatch_modes; /* NULL before they are filled in */
};

ModeStack *
make_stack(ModeStack::Kind kind, bool of_now)
{
    return new ModeStack(of_now ? ModeStack::of_now(kind) : ModeStack(kind));
}

PyObject *
state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *keywords[] = {"numbers", nullptr};
    PyObject *numbers = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O!:GlobalState", const_cast<char **>(keywords), &PyTuple_Type,
                                     &numbers)) {
        return nullptr;
    }
    if (numbers != nullptr && PyTuple_GET_SIZE(numbers) != static_cast<Py_ssize_t>(settings.size())) {
        PyErr_SetString(PyExc_ValueError, "these are not the numbers of a GlobalState");
        return nullptr;
    }
    GlobalState *self = reinterpret_cast<GlobalState *>(type->tp_alloc(type, 0));
    if (self == nullptr) {
        return nullptr;
    }
    for (size_t i = 0; i < settings.size(); i++) {
        PyObject *number = numbers == nullptr ? nullptr : PyTuple_GET_ITEM(numbers, static_cast<Py_ssize_t>(i));
        self->values[i] = number == nullptr ? settings[i].read() : PyLong_AsLongLong(number);
    }
    self->function_modes = make_stack(ModeStack::OfFunctions, numbers == nullptr);
    self->dispatch_modes = make_stack(ModeStack::OfDispatch, numbers == nullptr);
    if (PyErr_Occurred()) {
        Py_DECREF(self);
        return nullptr;
    }
    return reinterpret_cast<PyObject *>(self);
}

/* As all the settings would be read, with fewer calls. */
bool
same_settings(const std::array<int64_t, settings.size()> &values, const ThreadPlaces &here)
{
    static const at::Context *const context = &at::globalContext();
    const c10::AutogradState &autograd = here.autograd();
    const c10::impl::LocalDispatchKeySet keys = here.keys();
    const auto autocast_off = [&keys](at::DeviceType device) {
        return keys.excluded_.has(at::autocast::get_autocast_dispatch_key_from_device_type(device));
    };
    const bool transformed = keys.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
    return values[0] == int64_t(autograd.get_grad_mode()) && values[1] == int64_t(autograd.get_inference_mode())
           && values[2] == int64_t(c10::get_default_dtype_as_scalartype())
           && values[3] == int64_t(context->deterministicAlgorithms())
           && values[4] == int64_t(context->deterministicAlgorithmsWarnOnly())
           && values[5] == int64_t(!autocast_off(at::kCPU)) && values[6] == autocast_dtype<at::kCPU>()
           && values[7] == int64_t(!autocast_off(at::kCUDA)) && values[8] == autocast_dtype<at::kCUDA>()
           && values[9] == int64_t(at::autocast::is_autocast_cache_enabled())
           && values[10] == int64_t(here.functions_disabled()) && values[11] == (transformed ? functorch("level") : -1)
           && values[12] == (transformed ? functorch("key") : -1) && values[13] == int64_t(dual_level());
}

bool
same_state(const GlobalState *self)
{
    const ThreadPlaces &here = ThreadPlaces::here();
    return same_settings(self->values, here) && self->function_modes->is_that_of_now(here.function_mode_count())
           && self->dispatch_modes->is_that_of_now(here.dispatch_mode_count());
}

PyObject *
state_check(PyObject *object, PyObject *)
{
    return PyBool_FromLong(same_state(reinterpret_cast<GlobalState *>(object)));
}

int
append_changes(GlobalState *self, PyObject *list)
{
    for (size_t i = 0; i < settings.size(); i++) {
        const Setting &setting = settings[i];
        int64_t now = setting.read();
        if (now != self->values[i]
            && append_change(list, setting.name, setting_value(setting.kind, self->values[i]),
                             setting_value(setting.kind, now), "")
                   < 0) {
            return -1;
        }
    }
    if (append_stack_change(list, "torch_function_modes", *self->function_modes) < 0) {
        return -1;
    }
    return append_stack_change(list, "torch_dispatch_modes", *self->dispatch_modes);
}

PyObject *
state_changes(PyObject *object, PyObject *)
{
    PyObject *list = PyList_New(0);
    if (list != nullptr && append_changes(reinterpret_cast<GlobalState *>(object), list) < 0) {
        Py_CLEAR(list);
    }
    return list;
}

/* What a state of another process is made from; None if modes were on the stacks, which are objects of this one. */
PyObject *
state_numbers(PyObject *object, PyObject *)
{
    GlobalState *self = reinterpret_cast<GlobalState *>(object);
    if (!self->function_modes->empty() || !self->dispatch_modes->empty()) {
        Py_RETURN_NONE;
    }
    PyObject *numbers = PyTuple_New(static_cast<Py_ssize_t>(settings.size()));
    for (size_t i = 0; numbers != nullptr && i < settings.size(); i++) {
        PyObject *number = PyLong_FromLongLong(self->values[i]);
        if (number == nullptr) {
            Py_CLEAR(numbers);
            break;
        }
        PyTuple_SET_ITEM(numbers, static_cast<Py_ssize_t>(i), number);
    }
    return numbers;
}

PyObject *
state_settings(PyObject *object, PyObject *)
{
    GlobalState *self = reinterpret_cast<GlobalState *>(object);
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != nullptr && i < settings.size(); i++) {
        PyObject *value = setting_value(settings[i].kind, self->values[i]);
        if (value == nullptr || PyDict_SetItemString(found, settings[i].name, value) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(value);
    }
    return found;
}

int
state_traverse(PyObject *object, visitproc visit, void *arg)
{
    GlobalState *self = reinterpret_cast<GlobalState *>(object);
    for (const ModeStack *modes : {self->function_modes, self->dispatch_modes}) {
        const int stop = modes == nullptr ? 0 : modes->traverse(visit, arg);
        if (stop != 0) {
            return stop;
        }
    }
    return 0;
}

int
state_clear(PyObject *object)
{
    GlobalState *self = reinterpret_cast<GlobalState *>(object);
    for (ModeStack *modes : {self->function_modes, self->dispatch_modes}) {
        if (modes != nullptr) {
            modes->clear();
        }
    }
    return 0;
}

void
state_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    state_clear(object);
    delete reinterpret_cast<GlobalState *>(object)->function_modes;
    delete reinterpret_cast<GlobalState *>(object)->dispatch_modes;
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef state_methods[] = {
    {"check", state_check, METH_NOARGS, "check() -> whether all is as it was when this was made"},
    {"changes", state_changes, METH_NOARGS, "changes() -> what differs, one str each"},
    {"numbers", state_numbers, METH_NOARGS, "numbers() -> what GlobalState(numbers) makes it of again, or None"},
    {"settings", state_settings, METH_NOARGS, "settings() -> {name: value}, without the stacks of modes"},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject *
state_type()
{
    static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)
    };
    type.tp_name = "tracer._C.GlobalState";
    type.tp_doc = PyDoc_STR(
        "GlobalState(numbers=<those of now>)\n--\n\ntorch's settings on this thread that change what a trace records.");
    type.tp_basicsize = sizeof(GlobalState);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    type.tp_new = state_new;
    type.tp_dealloc = state_dealloc;
    type.tp_traverse = state_traverse;
    type.tp_clear = state_clear;
    type.tp_methods = state_methods;
    return &type;
}

} // namespace

int
global_state_holds(PyObject *state)
{
    return same_state(reinterpret_cast<GlobalState *>(state));
}

int
is_global_state(PyObject *object)
{
    return Py_IS_TYPE(object, state_type());
}

int
global_state_init(PyObject *module)
{
    peek_interpreter_stack = tracer::import_name("torch._C._functorch", "peek_interpreter_stack");
    if (peek_interpreter_stack == nullptr || tracer::mode_stacks_init() < 0) {
        return -1;
    }
    return PyModule_AddType(module, state_type());
}
