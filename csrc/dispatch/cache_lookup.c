/* The steps of a lookup:
 *   1. the bucket of the code and the globals is found, and entries that have become invalid are dropped from it;
 *   2. one entry is checked as it is. Of several, a Decision leaves those that may hold, and the one that held last is checked
 *      first. An entry that holds ends the lookup;
 *   3. where the region has an `agree`, that is told of hits and misses, and may make a miss of a hit;
 *   4. on a miss the region's callback is asked, unless the stance, a skip mark or the recursion limit forbids that;
 *   5. its answer is an entry, which is run, and installed if it is valid; None, or SKIP, which is noted for the code.
 * Checks and callbacks may run any code. So the bucket and its tuple of entries are held by the call site until the call ends. */
#include "dispatch/cache_lookup.h"

#include "dispatch/decision.h"
#include "dispatch/profiler_flag.h"
#include "hook/c_stack.h"
#include "tensors/profiled.h"

/* A trace takes about this many frames. Closer to the recursion limit, tracing would meet it before the program does. */
#define FRAMES_OF_A_TRACE 300

/* An entry that may hold, with its stamp of when the search began: meanwhile it may hit in other threads. */
typedef struct {
    Entry *entry; /* borrowed; NULL: was tried */
    uint64_t stamp;
} Candidate;

enum { FEW_CANDIDATES = 16 };

/* The entry not tried yet that was installed or has held last; NULL if all were tried. */
static Entry *
next_candidate(Candidate *candidates, Py_ssize_t count)
{
    Candidate *latest = NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (candidates[i].entry != NULL && (latest == NULL || candidates[i].stamp > latest->stamp)) {
            latest = &candidates[i];
        }
    }
    Entry *entry = latest == NULL ? NULL : latest->entry;
    if (latest != NULL) {
        latest->entry = NULL;
    }
    return entry;
}

static CheckResult
try_entry(Entry *entry, CallSite *site)
{
    CheckResult result = entry->valid ? entry_check(entry, site) : CHECK_MISS;
    if (result == CHECK_HIT && !entry->valid) { /* what it guards died during the check */
        call_site_drop_found(site);
        result = CHECK_MISS;
    }
    return result;
}

/* Tries those of `entries` that may hold, the last hit first. CHECK_HIT sets *found, borrowed. */
static CheckResult
search_among(PyObject *entries, const Py_ssize_t *indices, Py_ssize_t count, CallSite *site, Entry **found)
{
    Candidate few[FEW_CANDIDATES], *candidates = few;
    if (count > FEW_CANDIDATES) {
        candidates = PyMem_New(Candidate, count);
        if (candidates == NULL) {
            return CHECK_EXHAUSTED;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Entry *entry = (Entry *)PyTuple_GET_ITEM(entries, indices[i]);
        candidates[i] = (Candidate){entry, entry->stamp};
    }
    CheckResult result = CHECK_MISS;
    while (result == CHECK_MISS && (*found = next_candidate(candidates, count)) != NULL) {
        result = try_entry(*found, site);
    }
    if (candidates != few) {
        PyMem_Free(candidates);
    }
    return result;
}

static CheckResult
search_decided(Bucket *bucket, PyObject *entries, CallSite *site, Entry **found)
{
    PyObject *decision = bucket_decision(bucket, entries, site->region->decide);
    if (decision == NULL) {
        return CHECK_ERROR;
    }
    Py_ssize_t count;
    const Py_ssize_t *indices = decision_candidates(decision, site->slots, site->check_count, &count);
    if (count == 1) { /* the tuple of entries is held by the site */
        *found = (Entry *)PyTuple_GET_ITEM(entries, indices[0]);
        Py_DECREF(decision);
        return try_entry(*found, site);
    }
    CheckResult result = search_among(entries, indices, count, site, found);
    Py_DECREF(decision);
    return result;
}

/* CHECK_HIT sets *found to a new reference. */
static CheckResult
search(Bucket *bucket, CallSite *site, Entry **found)
{
    bucket_tidy(bucket);
    PyObject *entries = Py_NewRef(bucket->entries);
    Py_XSETREF(site->searched[1], entries);
    CheckResult result = CHECK_MISS;
    if (PyTuple_GET_SIZE(entries) == 1) {
        *found = (Entry *)PyTuple_GET_ITEM(entries, 0);
        result = try_entry(*found, site);
    }
    else if (PyTuple_GET_SIZE(entries) > 1) { /* none is left where all have died */
        result = search_decided(bucket, entries, site, found);
    }
    if (result == CHECK_HIT) {
        Py_INCREF(*found);
        (*found)->hits++;
        entry_stamp(*found);
    }
    else {
        *found = NULL;
    }
    return result;
}

/* The region's callback about this site: a new reference. */
static PyObject *
ask_callback(const CallSite *site)
{
    PyObject *arguments = PyTuple_New(site->argument_count);
    if (arguments == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < site->argument_count; i++) {
        PyTuple_SET_ITEM(arguments, i, Py_NewRef(site->slots[i]));
    }
    PyObject *callback = Py_XNewRef(site->region->callback);
    PyObject *answer = NULL;
    if (callback == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "tracer: this region was cleared by the garbage collector");
    }
    else {
        PyObject *call[] = {NULL, (PyObject *)site->region, (PyObject *)site->function, arguments};
        answer = PyObject_Vectorcall(callback, call + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(callback);
    }
    Py_DECREF(arguments);
    return answer;
}

/* No check_fn has led to a new entry. What its check_fn hands out to its code is fetched here. 1, or 0 if that fails. */
static int
fetch_for_new(Entry *entry, CallSite *site)
{
    if (!entry->fetches || entry_check(entry, site) == CHECK_HIT) {
        return 1;
    }
    PyErr_Clear();
    return 0;
}

/* Does what the callback has answered; steals the answer. */
static LookupResult
apply_answer(CallSite *site, PyObject *answer, PyObject *globals, Entry **entry)
{
    LookupResult result = LOOKUP_ORIGINAL;
    if (answer == region_skip_sentinel) {
        result = region_skip(site->region, site->code) < 0 ? LOOKUP_FAILED : LOOKUP_ORIGINAL;
    }
    else if (Entry_Check(answer)) {
        Entry *made = (Entry *)answer;
        if (made->valid && region_install(site->region, site->code, globals, made, 0) < 0) {
            result = LOOKUP_FAILED;
        }
        else if (made->code != NULL && fetch_for_new(made, site)) {
            *entry = made;
            return LOOKUP_ENTRY;
        }
    }
    else if (answer != Py_None) {
        PyErr_Format(PyExc_TypeError, "the callback of a Region answers with an Entry, None or SKIP, not %.100s",
                     Py_TYPE(answer)->tp_name);
        result = LOOKUP_FAILED;
    }
    Py_DECREF(answer);
    return result;
}

/* Whether the callback may be asked about this site. */
static int
may_be_traced(ThreadContext *context, const CallSite *site)
{
    PyThreadState *thread = context->thread;
    return thread_context_stance(context) != STANCE_RUN_ONLY && !region_is_skipped(site->region, site->code)
           && thread_recursion_left(thread) >= FRAMES_OF_A_TRACE && !c_calls_are_low(thread);
}

/* What the region's `agree` makes of a hit or a miss. */
static CheckResult
agree(ThreadContext *context, CallSite *site, CheckResult found, Entry **entry)
{
    if (!may_be_traced(context, site)) {
        return found;
    }
    PyObject *callable = Py_NewRef(site->region->agree);
    PyObject *call[] = {NULL, (PyObject *)site->region, (PyObject *)site->function, found == CHECK_HIT ? Py_True : Py_False};
    Region *outer = thread_context_exchange(context, NULL);
    PyObject *answer = PyObject_Vectorcall(callable, call + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_XDECREF(thread_context_exchange(context, outer));
    Py_DECREF(callable);
    int stays = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    if (stays < 0) {
        Py_CLEAR(*entry);
        return CHECK_ERROR;
    }
    if (!stays && found == CHECK_HIT) {
        call_site_drop_found(site);
        (*entry)->hits--;
        Py_CLEAR(*entry);
        return CHECK_MISS;
    }
    return found;
}

static LookupResult
handle_miss(ThreadContext *context, CallSite *site, Entry **entry)
{
    if (!may_be_traced(context, site)) {
        return LOOKUP_ORIGINAL;
    }
    PyObject *globals = Py_NewRef(site->function->func_globals);
    PyObject *answer = ask_callback(site);
    LookupResult result = answer == NULL ? LOOKUP_FAILED : apply_answer(site, answer, globals, entry);
    Py_DECREF(globals);
    return result;
}

CheckResult
cache_find(ThreadContext *context, CallSite *site, Bucket *bucket, Entry **entry)
{
    if (bucket == NULL) {
        bucket = region_find_bucket(site->region, site->code, site->function->func_globals);
    }
    if (bucket == NULL || PyTuple_GET_SIZE(bucket->entries) == 0) {
        return CHECK_MISS;
    }
    Region *muted = thread_context_mute(context);
    Py_XSETREF(site->searched[0], Py_NewRef(bucket));
    ProfiledRange *range = profiler_may_record() ? profiled_begin(PROFILED_LOOKUP, NULL) : NULL;
    CheckResult found = search(bucket, site, entry);
    if (range != NULL) {
        profiled_end(range);
    }
    thread_context_unmute(context, muted);
    return found;
}

static LookupResult
look_up(ThreadContext *context, CallSite *site, Bucket *bucket, Entry **entry)
{
    CheckResult found = cache_find(context, site, bucket, entry);
    int of_entries = bucket != NULL || site->searched[0] != NULL; /* not a frame that the hook offers for the first time */
    if (site->region->agree != NULL && (found == CHECK_HIT || (found == CHECK_MISS && of_entries))) {
        found = agree(context, site, found, entry);
    }
    switch (found) {
    case CHECK_ERROR:
        return LOOKUP_FAILED;
    case CHECK_EXHAUSTED:
        return LOOKUP_ORIGINAL;
    case CHECK_HIT:
        if ((*entry)->code != NULL) {
            return LOOKUP_ENTRY;
        }
        Py_CLEAR(*entry);
        return LOOKUP_ORIGINAL;
    case CHECK_MISS:
        break;
    }
    /* Tracing takes long. This thread gives up its claim on the hook meanwhile, so that CPython inlines calls again. */
    Region *outer = thread_context_exchange(context, NULL);
    LookupResult result = handle_miss(context, site, entry);
    Py_XDECREF(thread_context_exchange(context, outer));
    return result;
}

LookupResult
cache_lookup(ThreadContext *context, CallSite *site, Bucket *bucket, Entry **entry)
{
    if (!thread_context_is_shared(context)) {
        return look_up(context, site, bucket, entry);
    }
    thread_context_begin_quiet(context);
    LookupResult result = look_up(context, site, bucket, entry);
    thread_context_end_quiet(context);
    return result;
}

static PyObject *
run_under_hook(ThreadContext *context, const CallSite *site, Entry *entry, int keep)
{
    Region *active = entry->needs_hook ? site->region : NULL;
    if (context->active == active) {
        return entry_run(context, entry, site, keep);
    }
    Region *outer = thread_context_exchange(context, (Region *)Py_XNewRef(active));
    PyObject *result = entry_run(context, entry, site, keep);
    Py_XDECREF(thread_context_exchange(context, outer));
    return result;
}

static PyObject *
run(ThreadContext *context, const CallSite *site, Entry *entry, int keep)
{
    ProfiledRange *range = profiler_may_record() ? profiled_begin(PROFILED_RUN, site->code->co_qualname) : NULL;
    PyObject *result = run_under_hook(context, site, entry, keep);
    if (range != NULL) {
        profiled_end(range);
    }
    return result;
}

PyObject *
run_entry(ThreadContext *context, const CallSite *site, Entry *entry, int keep)
{
    if (!thread_context_is_shared(context)) {
        return run(context, site, entry, keep);
    }
    thread_context_begin_quiet(context);
    PyObject *result = run(context, site, entry, keep);
    thread_context_end_quiet(context);
    return result;
}
