/* Torch's stacks of modes on a thread, as they were at some moment. For files with torch's headers. */
#ifndef TRACER_MODE_STACKS_H
#define TRACER_MODE_STACKS_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <vector>

namespace tracer {

/* A mode on a stack. Device contexts are the same if their devices are, other torch-function modes if their classes are: what a trace
 * read of such a mode has guards of its own. So are fake modes: a graph does under each what it does under another. Other dispatch
 * modes are the same if they are the same object, which is not kept alive, unless it allows no weak reference. */
struct Mode {
    PyTypeObject *type; /* strong */
    PyObject *held;     /* strong: a weak reference to the mode, the mode, the device, or None */
    enum { Weak, Strong, Device, Class } by;
};

/* What a stack held. The references are released by clear(), not by the destructor: the garbage collector does so too. */
class ModeStack {
  public:
    enum Kind { OfFunctions, OfDispatch }; /* __torch_function__, __torch_dispatch__ */

    explicit ModeStack(Kind kind) : kind_(kind) {} /* an empty one */

    /* That of now. An exception may be set. */
    static ModeStack of_now(Kind kind);

    bool empty() const { return modes_.empty(); }

    /* Whether the stack of now is the same; it has `count` modes. */
    bool is_that_of_now(size_t count) const { return modes_.size() == count && (count == 0 || has_the_modes_of_now()); }

    /* The same for logs, which need not be fast; and the modes in words, by class and device. */
    bool is_that_of_now() const;
    PyObject *words() const; /* a new list of str, or nullptr with an exception */
    PyObject *words_of_now() const;

    int traverse(visitproc visit, void *arg) const;
    void clear();

  private:
    bool has_the_modes_of_now() const;

    Kind kind_;
    std::vector<Mode> modes_;
};

int mode_stacks_init();

/* A new reference to module.name, or nullptr with an exception. */
PyObject *import_name(const char *module_name, const char *name);

} // namespace tracer

#endif
