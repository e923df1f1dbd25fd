/* The frame evaluation function (PEP 523): offers new frames of a thread with an active region to who serves that region. */
#ifndef TRACER_FRAME_EVAL_H
#define TRACER_FRAME_EVAL_H

#include "compat.h"
#include "hook/thread_context.h"

/* Answers for a new frame of a thread with an active region. 1: it is dealt with, and *result is what it returns, or NULL with
 * an exception. 0: the frame is to run as it is; no exception is set. */
typedef int (*FrameServer)(ThreadContext *context, Frame *frame, PyObject **result);

/* Names who serves frames, before any region is active. */
void frame_eval_init(FrameServer serve);

#endif
