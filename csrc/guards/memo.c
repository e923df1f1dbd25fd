/* No references are held but to plain constants: what a word lies in is proved to be alive by the words before it. */
#include "guards/memo.h"

#include "guards/versions.h"

/* ---- room ---- */

/* Room for one more element; each step adds a few at most, so that the sizes are known beforehand. */
enum { WORDS_PER_STEP = 6 };

Memo *
memo_new(Py_ssize_t steps, Py_ssize_t roots, Py_ssize_t held)
{
    Memo *memo = PyMem_Calloc(1, sizeof(Memo));
    if (memo == NULL) {
        return NULL;
    }
    memo->root_count = roots;
    memo->held_count = held;
    memo->roots = PyMem_New(PyObject *, roots + 1);
    memo->held = PyMem_New(PyObject *, held + 1);
    memo->words = PyMem_New(Word, steps * WORDS_PER_STEP + 1);
    memo->dicts = PyMem_New(DictWatch, steps + 1);
    memo->facts = PyMem_New(Fact, steps + 1);
    memo->types = PyMem_New(TypeWatch, steps + 1);
    memo->kept = PyMem_New(PyObject *, steps + 1);
    if (!memo->roots || !memo->held || !memo->words || !memo->dicts || !memo->facts || !memo->types || !memo->kept) {
        memo_free(memo);
        return NULL;
    }
    return memo;
}

void
memo_free(Memo *memo)
{
    if (memo != NULL) {
        for (Py_ssize_t i = 0; i < memo->kept_count; i++) {
            Py_DECREF(memo->kept[i]);
        }
        PyMem_Free(memo->kept);
        PyMem_Free(memo->roots);
        PyMem_Free(memo->held);
        PyMem_Free(memo->words);
        PyMem_Free(memo->dicts);
        PyMem_Free(memo->facts);
        PyMem_Free(memo->types);
        PyMem_Free(memo);
    }
}

static void *
fitted(void *block, size_t size)
{
    void *smaller = PyMem_Realloc(block, size ? size : 1);
    return smaller == NULL ? block : smaller;
}

void
memo_fit(Memo *memo)
{
    memo->words = fitted(memo->words, (size_t)memo->word_count * sizeof(Word));
    memo->dicts = fitted(memo->dicts, (size_t)memo->dict_count * sizeof(DictWatch));
    memo->facts = fitted(memo->facts, (size_t)memo->fact_count * sizeof(Fact));
    memo->kept = fitted(memo->kept, (size_t)memo->kept_count * sizeof(PyObject *));
    memo->types = fitted(memo->types, (size_t)memo->type_count * sizeof(TypeWatch));
}

void
memo_add_word(Memo *memo, const void *address)
{
    Word *word = &memo->words[memo->word_count++];
    word->address = address;
    memcpy(&word->expected, address, sizeof(uint64_t));
}

/* ---- types ---- */

int
memo_watch_type(Memo *memo, PyTypeObject *type)
{
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        return 1;
    }
    for (Py_ssize_t i = memo->type_count; i-- > 0;) {
        if (memo->types[i].type == type) {
            return 1;
        }
    }
    uint64_t version = version_of_class_from_now(type);
    memo->types[memo->type_count++] = (TypeWatch){type, version};
    return version != 0;
}

/* ---- dicts ---- */

Py_ssize_t
memo_watch_dict(Memo *memo, PyObject *dict)
{
    DictWatch *watch = &memo->dicts[memo->dict_count];
    *watch = (DictWatch){dict, memo->word_count, -1, 0};
    memo_add_word(memo, version_of_dict_from_now(dict));
    return memo->dict_count++;
}

void
memo_add_fact(Memo *memo, Py_ssize_t watch, PyObject *key, PyObject *value)
{
    memo->facts[memo->fact_count] = (Fact){key, value, NULL, memo->dicts[watch].fact};
    memo->dicts[watch].fact = memo->fact_count++;
}
