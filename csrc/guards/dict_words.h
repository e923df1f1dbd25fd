/* Versions of dicts where CPython keeps none (from 3.14 on): a watcher is told before each change, and counts it in a word. */
#ifndef TRACER_DICT_WORDS_H
#define TRACER_DICT_WORDS_H

#include "compat.h"

#if PY_VERSION_HEX >= 0x030E0000
/* The word of a dict, which is watched from now on; NULL with MemoryError. It is never freed: once the dict is gone, it holds
 * another value, and may become the word of another dict. */
const uint64_t *dict_word(PyObject *dict);
#endif

/* 0, or -1 with ImportError where other libraries have taken all watchers. */
int dict_words_init(void);

#endif
