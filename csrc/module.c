/* tracer._C: puts the parts together. Each type or concern is one file with its header. Folders include in one direction: hook and
 * tensors stand on nothing but compat.h and word.h, guards on tensors, dispatch on all three. So the hook is told here who
 * serves its frames. */
#include "compat.h"

#include "annotations.h"
#include "dispatch/active_region.h"
#include "dispatch/decision.h"
#include "dispatch/dispatcher.h"
#include "dispatch/entry.h"
#include "dispatch/frame_server.h"
#include "dispatch/graph_call.h"
#include "dispatch/profiler_flag.h"
#include "dispatch/region.h"
#include "dispatch/steady_call.h"
#include "guards/checklist.h"
#include "guards/counter.h"
#include "guards/dict_words.h"
#include "guards/guard_checks.h"
#include "guards/kinds.h"
#include "guards/metaclass.h"
#include "guards/steady.h"
#include "guards/unchanged.h"
#include "hook/code_marks.h"
#include "hook/eval_chain.h"
#include "hook/frame_eval.h"
#include "hook/thread_context.h"
#include "tensors/profiled.h"
#include "tensors/tensor_checks.h"
#include "value.h"

static PyMethodDef module_methods[] = {
    {"swap_active", py_swap_active, METH_O,
     "swap_active(region_or_None) -> the region that was active on this thread before, or None"},
    {"active_region", py_active_region, METH_NOARGS, "active_region() -> the region active on this thread, or None"},
    {"set_stance_c", py_set_stance, METH_O,
     "set_stance_c(mode) -> the mode of this thread before. 0: normal, 1: run only, 2: disabled, -1: that of the process"},
    {"set_stance_of_process", py_set_stance_of_process, METH_O,
     "set_stance_of_process(mode) -> the mode before, of the threads that have taken none. 0: normal, 1: run only, 2: "
     "disabled"},
    {"force_compiler", py_force_compiler, METH_O,
     "force_compiler(object_or_None) -> the one before. Lookups of all regions see entries with this object as `compiler`"},
    {"watch_profiler_flag", py_watch_profiler_flag, METH_VARARGS,
     "watch_profiler_flag(namespace, name): calls ask torch for a profiler only while this item of a dict is not False"},
    {"never_trace", (PyCFunction)(void (*)(void))py_never_trace, METH_VARARGS | METH_KEYWORDS,
     "never_trace(code, *, callees=False): no region is ever asked about this code; with `callees`, nor about what it "
     "calls"},
    {"let_go", py_let_go, METH_NOARGS,
     "let_go(): empties the list in which this frame, which begins, was handed its arguments"},
    {"drop_metaclass", py_drop_metaclass, METH_O, "drop_metaclass(cls): its metaclass becomes the base of the present one"},
    {"remember_annotations", (PyCFunction)(void (*)(void))py_remember_annotations, METH_FASTCALL,
     "remember_annotations(function, annotations): the function has been asked for its annotations, which are this dict"},
    {"known_annotations", py_known_annotations, METH_O,
     "known_annotations(function) -> the dict or tuple that it holds; None if it has none, or was not asked for them yet"},
    {"is_failure", py_is_failure, METH_O,
     "is_failure(error) -> whether the program's own code is to raise this in place of a graph. Not so what ends the "
     "program,\n"
     "or a recomputation of torch.utils.checkpoint, nor a TracerError"},
    {"hook_count", py_hook_count, METH_NOARGS, "hook_count() -> how many threads have an active region"},
    {NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tracer._C",
    .m_doc = PyDoc_STR("The frame hook, the cache of entries and what check functions call."),
    .m_size = -1,
    .m_methods = module_methods,
};

static int
fill_module(PyObject *module)
{
    frame_eval_init(serve_frame);
    if (PyModule_AddType(module, &Entry_Type) < 0 || PyModule_AddType(module, &Region_Type) < 0
        || PyModule_AddType(module, &Dispatcher_Type) < 0 || PyModule_AddType(module, &Unchanged_Type) < 0
        || PyModule_AddType(module, &Steady_Type) < 0 || PyModule_AddType(module, &Decision_Type) < 0
        || PyModule_AddType(module, &Checklist_Type) < 0 || PyModule_AddType(module, &SteadyCall_Type) < 0
        || PyModule_AddType(module, &Value_Type) < 0 || PyModule_AddType(module, &Counter_Type) < 0) {
        return -1;
    }
    if (PyModule_AddFunctions(module, guard_check_methods) < 0 || kinds_init(module) < 0) {
        return -1;
    }
    if (thread_context_init() < 0 || code_marks_init() < 0 || dict_words_init() < 0 || region_init(module) < 0) {
        return -1;
    }
    if (tensor_checks_init(module) < 0 || tensor_words_init(module) < 0 || profiled_init(module) < 0) {
        return -1;
    }
    if (memory_checks_init(module) < 0 || global_state_init(module) < 0) {
        return -1;
    }
    return gradient_hooks_init(module);
}

PyMODINIT_FUNC
PyInit__C(void)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "tracer works in the main interpreter only, as torch does");
        return NULL;
    }
    PyObject *module = PyModule_Create(&module_def);
    if (module != NULL && fill_module(module) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
