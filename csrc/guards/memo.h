/* Memo: words of memory that have to stay as they are, and what was read of dicts. */
#ifndef TRACER_MEMO_H
#define TRACER_MEMO_H

#include "compat.h"

/* A word of memory and what stood there. Each lies in an object that the words before it prove to be alive. */
typedef struct {
    const void *address;
    uint64_t expected;
} Word;

/* What was read of a dict: the value of a key, borrowed, or NULL for none. */
typedef struct {
    PyObject *key;
    PyObject *value;
    PyTypeObject
        *type;       /* NULL, or that of the value, whose objects never get another: no word of its own is needed for it */
    Py_ssize_t next; /* another of the same dict, or -1 */
} Fact;

typedef struct {
    PyObject *dict;  /* borrowed */
    Py_ssize_t word; /* its version */
    Py_ssize_t fact; /* the first of them, or -1 */
    int whole;       /* whatever changes matters */
} DictWatch;

typedef struct {
    PyTypeObject *type; /* borrowed: the type of an object that the words prove to be alive */
    uint64_t version;
} TypeWatch;

/* How everything was. References are held to plain constants alone. An address may have been given to another object since:
 * what depends on which object it is has a version that no other has, is a constant and kept, or is watched by the
 * guards, whose entry dies with it. */
typedef struct {
    Py_ssize_t root_count, word_count, dict_count, fact_count, type_count, held_count, kept_count;
    PyObject **roots;
    Word *words;
    DictWatch *dicts;
    Fact *facts;
    TypeWatch *types;
    PyObject **held;
    PyObject **kept; /* strong */
} Memo;

/* Room for what as many steps note; NULL if there is no memory. */
Memo *memo_new(Py_ssize_t steps, Py_ssize_t roots, Py_ssize_t held);
void memo_free(Memo *memo);
/* Gives back the room that was not needed. */
void memo_fit(Memo *memo);

void memo_add_word(Memo *memo, const void *address);
/* Whether the type says by its version that nothing was assigned to it. */
int memo_watch_type(Memo *memo, PyTypeObject *type);
/* The index of a new watch. */
Py_ssize_t memo_watch_dict(Memo *memo, PyObject *dict);
void memo_add_fact(Memo *memo, Py_ssize_t watch, PyObject *key, PyObject *value);

#endif
