#include "tensors/profiled.h"

#include <array>
#include <string>

#include <ATen/record_function.h>

struct ProfiledRange {
    at::RecordFunction record;
};

namespace {

std::array<std::string, 2> labels; /* by ProfiledPart; set from Python, under the GIL */

std::string
text_of(ProfiledPart part, PyObject *of)
{
    std::string text = labels[part];
    if (of != nullptr) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        const char *name = PyUnicode_AsUTF8(of);
        text += ": ";
        text += name == nullptr ? "?" : name; /* a lone surrogate */
        PyErr_Restore(type, value, traceback);
    }
    return text;
}

PyObject *
set_profile_labels(PyObject *, PyObject *args)
{
    const char *lookup, *run;
    if (!PyArg_ParseTuple(args, "ss:set_profile_labels", &lookup, &run)) {
        return nullptr;
    }
    labels = {lookup, run};
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_profile_labels", set_profile_labels, METH_VARARGS,
     "set_profile_labels(lookup, run): what a profile shows of the search for an entry, and, with the name of the function, "
     "of\n"
     "a call that an entry serves"},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

ProfiledRange *
profiled_begin(ProfiledPart part, PyObject *of)
{
    auto listeners = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (C10_LIKELY(!listeners.has_value())) {
        return nullptr;
    }
    auto *range = new ProfiledRange{at::RecordFunction(std::move(*listeners))};
    range->record.before(text_of(part, of));
    return range;
}

void
profiled_end(ProfiledRange *range)
{
    delete range;
}

int
profiled_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
