/* A frame is the second way in which a call reaches the entries of a region; the first is the call of a dispatcher. Here the
 * arguments lie in the frame already, and CPython can always run the frame itself. */
#include "dispatch/frame_server.h"

#include "dispatch/cache_lookup.h"
#include "dispatch/region.h"

int
serve_frame(ThreadContext *context, Frame *frame, PyObject **result)
{
    *result = NULL;
    CallSite site;
    int bound = call_site_from_frame(&site, context->active, frame);
    if (bound <= 0) {
        return bound < 0;
    }
    site.region->offered++;
    Entry *entry = NULL;
    LookupResult found = cache_lookup(context, &site, NULL, &entry);
    if (found == LOOKUP_ENTRY) {
        site.region->served++;
        *result = run_entry(context, &site, entry, 0);
        Py_DECREF(entry);
    }
    call_site_clear(&site);
    return found != LOOKUP_ORIGINAL;
}
