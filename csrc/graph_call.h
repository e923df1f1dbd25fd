/* GraphCall: an entry whose code calls a graph, returns its first result and does nothing else is run without that code. */
#ifndef TRACER_GRAPH_CALL_H
#define TRACER_GRAPH_CALL_H

#include "checklist.h"
#include "frame_locals.h"
#include "thread_context.h"

typedef struct {
    PyObject *graph;        /* NULL: the code is run */
    PyCodeObject *original; /* run on the argument slots where the graph raises */
    Py_ssize_t *inputs;     /* each a slot, or -1 - i for what check_fn hands out at i */
    Py_ssize_t input_count, fetched_count;
    int as_fetched; /* the inputs are what check_fn hands out, as it stands */
} GraphCall;

/* From (graph, inputs, original); -1 with an exception. */
int graph_call_parse(GraphCall *self, PyObject *tuple, PyObject *check_fn, PyCodeObject *code);
void graph_call_free(GraphCall *self);

/* Whether the guards hold; then site->inputs are set. UNSURE: check_fn has to be called, and the code run. */
Outcome graph_call_bind(const GraphCall *self, PyObject *check_fn, CallSite *site);

/* Calls the graph with site->inputs. */
PyObject *graph_call_run(const GraphCall *self, ThreadContext *context, const CallSite *site, PyObject *globals);

#endif
