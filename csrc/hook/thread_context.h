/* What this extension knows about one thread: which region is active, the stance, the calls in progress. */
#ifndef TRACER_THREAD_CONTEXT_H
#define TRACER_THREAD_CONTEXT_H

#include "compat.h"

/* A Python object that frames are offered to. Its inside is known to csrc/dispatch alone. */
typedef struct Region Region;

typedef enum {
    STANCE_OF_PROCESS = -1, /* of a thread only: it has taken none, and that of the process holds */
    STANCE_NORMAL = 0,
    STANCE_RUN_ONLY = 1, /* entries may hit; a miss runs in CPython, the callback is not asked */
    STANCE_DISABLED = 2, /* everything runs in CPython */
} Stance;

/* A dispatcher call with a resume limit that is in progress. Lives on the C stack of that call. */
typedef struct CallRecord {
    PyCodeObject *code;
    Py_ssize_t depth; /* how many records of this code there are, this one included */
    struct CallRecord *outer;
} CallRecord;

typedef struct {
    PyThreadState *thread;
    Region *active;              /* strong; NULL: no frame of this thread is offered to anyone */
    Stance stance;               /* what the thread has taken; thread_context_stance() says which holds */
    PyFunctionObject *unoffered; /* borrowed: the next frame of this very function is offered to nobody */
    CallRecord *calls;
    PyObject *argument_list; /* borrowed: what the frame that begins now may empty once it has its arguments, or NULL */
    int quiet;               /* how many lookups and entries run now that evaluation functions of others are not to see */
} ThreadContext;

int thread_context_init(void);

/* The one last used by this system thread, or NULL. */
extern _Thread_local ThreadContext *thread_context_last __attribute__((visibility("hidden")));

ThreadContext *thread_context_find(PyThreadState *thread);

/* The context of the current thread, made at the first call. NULL with an exception. */
static inline ThreadContext *
thread_context_get(void)
{
    PyThreadState *thread = PyThreadState_Get();
    ThreadContext *last = thread_context_last;
    return last != NULL && last->thread == thread ? last : thread_context_find(thread);
}

/* The context of `thread`, which is the current one; NULL, without an exception, when it has none yet. */
ThreadContext *thread_context_peek(PyThreadState *thread);

/* The one that threads have which took none. */
extern Stance thread_context_stance_of_process __attribute__((visibility("hidden")));

static inline Stance
thread_context_stance(const ThreadContext *context)
{
    return context->stance == STANCE_OF_PROCESS ? thread_context_stance_of_process : context->stance;
}

/* Whether CPython is to run everything on this thread, as it was written. */
static inline int
thread_context_is_disabled(const ThreadContext *context)
{
    return thread_context_stance(context) == STANCE_DISABLED || thread_is_debugged(context->thread);
}

/* Makes `region` active (steals the reference; NULL: none) and gives back the one before, now the caller's.
 * The frame hook is installed while any thread has an active region. */
Region *thread_context_exchange(ThreadContext *context, Region *region);

/* Between the two no frame of this thread is offered to anyone. The region that was active keeps its claim on the frame hook. */
Region *thread_context_mute(ThreadContext *context);
void thread_context_unmute(ThreadContext *context, Region *region);

/* Between begin and end, our evaluation function hands the frames of this thread to CPython, and not to those that others have
 * installed: torch.compile would trace the tracer, and what the tracer has made. Needed only where is_shared() says so. */
int thread_context_is_shared(const ThreadContext *context);
void thread_context_begin_quiet(ThreadContext *context);
void thread_context_end_quiet(ThreadContext *context);
int thread_context_is_quiet(PyThreadState *thread);

/* Empties the list that the arguments of the frame that begins now were handed over in, if they were: the frame has references
 * of its own now. 0, or -1 with an exception. */
int thread_context_release_arguments(ThreadContext *context);

/* Python: let_go(), called by cached code as it begins. */
PyObject *py_let_go(PyObject *module, PyObject *unused);

/* Python: set_stance_c(mode), set_stance_of_process(mode) */
PyObject *py_set_stance(PyObject *module, PyObject *stance);
PyObject *py_set_stance_of_process(PyObject *module, PyObject *stance);

#endif
