/* GraphCall: an entry whose code calls a graph, returns its first result and does nothing else is run without that code. */
#ifndef TRACER_GRAPH_CALL_H
#define TRACER_GRAPH_CALL_H

#include "dispatch/call_site.h"
#include "guards/checklist.h"
#include "hook/thread_context.h"

/* Inputs of the graph that lie side by side where they come from, in the same order. */
typedef struct {
    int of_slots; /* they are argument slots; else what the guards have read */
    Py_ssize_t first, count;
} Stretch;

typedef struct {
    PyObject *graph;        /* NULL: the code is run */
    PyCodeObject *original; /* run on the argument slots where the graph raises */
    Stretch *inputs;
    Py_ssize_t stretch_count, input_count;
} GraphCall;

/* From (graph, inputs, original); -1 with an exception. */
int graph_call_parse(GraphCall *self, PyObject *tuple, PyObject *check_fn, PyCodeObject *code);
void graph_call_free(GraphCall *self);

/* Whether the guards hold; check_fn is a Checklist. HOLDS sets site->inputs. UNSURE: check_fn has to be called, and the code of the
 * entry run. */
Outcome graph_call_bind(const GraphCall *self, PyObject *check_fn, CallSite *site);

/* Python: is_failure(error): whether the program's own code is to raise this in place of the graph. Not so what ends the program
 * (KeyboardInterrupt, SystemExit), nor what a hook of torch.utils.checkpoint ends a recomputation with, nor errors of the tracer's own,
 * which say something of the graph. */
PyObject *py_is_failure(PyObject *module, PyObject *error);

/* Calls the graph with site->inputs; its first result, or NULL with an exception. `globals` are those of the original code. */
PyObject *graph_call_run(const GraphCall *self, ThreadContext *context, const CallSite *site, PyObject *globals);

#endif
