/* Walks the steps once, with a recording, and tests the values that they lead to. Runs no user code. */
#include "guards/recording.h"
#include "guards/steady.h"

#include "guards/guard_checks.h"

static int
take_step_at(Recording *recording, const Plan *plan, Py_ssize_t index, PyObject *const *roots)
{
    const Step *step = &plan->steps[index];
    PyObject *value, *base = step->base < 0 ? NULL : recording->values[step->base];
    Py_ssize_t facts = recording->memo->fact_count;
    if (record_step(step, roots, base, &value, recording) != READ_FOUND) {
        return 0;
    }
    record_value(recording, index, value, facts);
    return 1;
}

/* Each value is tested before a step starts from it. */
static Outcome
take_steps(Recording *recording, const Plan *plan, PyObject *const *roots, int tested)
{
    const Test *test = plan->tests, *end = test == NULL || !tested ? test : test + plan->test_count;
    for (Py_ssize_t i = 0; i < plan->step_count; i++) {
        if (!take_step_at(recording, plan, i, roots)) {
            return UNSURE;
        }
        for (; test != end && test->step == i; test++) {
            Outcome outcome = test_holds(test, recording->values);
            if (outcome != HOLDS) {
                return outcome;
            }
        }
    }
    return HOLDS;
}

/* The values that are held, which may have to be apart. */
static Outcome
take_held(Recording *recording, const Plan *plan, int tested)
{
    PyObject **held = recording->memo->held;
    for (Py_ssize_t i = 0; i < plan->held_count; i++) {
        held[i] = recording->values[plan->held[i]];
    }
    int apart = tested && plan->apart ? all_distinct(held, plan->held_count) : 1;
    return apart < 0 ? UNSURE : apart ? HOLDS : FAILS;
}

Memo *
memo_record(const Plan *plan, PyObject *const *roots, Outcome *outcome)
{
    int collects = PyGC_Disable(); /* an instance dict may be made, and objects must not go away meanwhile */
    Recording recording;
    int has_room = recording_init(&recording, plan->step_count, plan->root_count, plan->held_count);
    Outcome found = has_room ? take_steps(&recording, plan, roots, outcome != NULL) : UNSURE;
    if (found == HOLDS) {
        for (Py_ssize_t i = 0; i < plan->root_count; i++) {
            recording.memo->roots[i] = roots[i];
        }
        found = take_held(&recording, plan, outcome != NULL);
    }
    if (collects) {
        PyGC_Enable();
    }
    recording_clear(&recording);
    PyErr_Clear();
    if (outcome != NULL) {
        *outcome = found;
    }
    if (found != HOLDS) {
        memo_free(recording.memo);
        return NULL;
    }
    memo_fit(recording.memo);
    return recording.memo;
}
