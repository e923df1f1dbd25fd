#include "dispatch/profiler_flag.h"

#include "guards/versions.h"

ProfilerFlag profiler_flag;

int
profiler_flag_is_set(void)
{
    if (profiler_flag.version == NULL) {
        return 1;
    }
    uint64_t version = *profiler_flag.version;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *found = PyDict_GetItemWithError(profiler_flag.namespace_, profiler_flag.name);
    PyErr_Clear(); /* the name is a str */
    PyErr_Restore(type, value, traceback);
    if (found != Py_False) {
        return 1;
    }
    profiler_flag.at_rest = version;
    return 0;
}

PyObject *
py_watch_profiler_flag(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *namespace_, *name;
    if (!PyArg_ParseTuple(args, "O!U:watch_profiler_flag", &PyDict_Type, &namespace_, &name)) {
        return NULL;
    }
    const uint64_t *version = version_of_dict_from_now(namespace_);
    if (version == NULL) {
        return NULL;
    }
    Py_XSETREF(profiler_flag.namespace_, Py_NewRef(namespace_));
    Py_XSETREF(profiler_flag.name, Py_NewRef(name));
    profiler_flag.version = version;
    profiler_flag.at_rest = *version - 1; /* the flag has not been looked at */
    Py_RETURN_NONE;
}
