/* What the active region answers to a frame that the hook offers. */
#ifndef TRACER_FRAME_SERVER_H
#define TRACER_FRAME_SERVER_H

#include "hook/thread_context.h"

/* A FrameServer, see hook/frame_eval.h. */
int serve_frame(ThreadContext *context, Frame *frame, PyObject **result);

#endif
