#include "guards/dict_words.h"

#if PY_VERSION_HEX >= 0x030E0000
#include "pointer_map.h"

typedef struct DictWord {
    uint64_t version; /* no other word ever has the same one */
    struct DictWord *next_free;
} DictWord;

/* The GIL protects it. */
static struct {
    int watcher;
    uint64_t last_version;
    PointerMap of_dicts; /* DictWord, by the address of a dict that is alive */
    DictWord *free;
} words;

static int
note_change(PyDict_WatchEvent event, PyObject *dict, PyObject *Py_UNUSED(key), PyObject *Py_UNUSED(value))
{
    DictWord *word = pointer_map_get(&words.of_dicts, dict);
    if (word != NULL) {
        word->version = ++words.last_version;
    }
    if (word != NULL && event == PyDict_EVENT_DEALLOCATED) {
        pointer_map_remove(&words.of_dicts, dict);
        word->next_free = words.free;
        words.free = word;
    }
    return 0;
}

/* NULL with MemoryError. */
static DictWord *
take_word(void)
{
    DictWord *word = words.free;
    if (word != NULL) {
        words.free = word->next_free;
    }
    else if ((word = PyMem_Malloc(sizeof(DictWord))) == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    word->version = ++words.last_version;
    return word;
}

const uint64_t *
dict_word(PyObject *dict)
{
    DictWord *word = pointer_map_get(&words.of_dicts, dict);
    if (word != NULL) {
        return &word->version;
    }
    word = take_word();
    if (word == NULL) {
        return NULL;
    }
    if (pointer_map_set(&words.of_dicts, dict, word) < 0 || PyDict_Watch(words.watcher, dict) < 0) {
        pointer_map_remove(&words.of_dicts, dict);
        word->next_free = words.free;
        words.free = word;
        return NULL;
    }
    return &word->version;
}

int
dict_words_init(void)
{
    words.watcher = PyDict_AddWatcher(note_change);
    if (words.watcher < 0) {
        PyErr_SetString(PyExc_ImportError, "tracer._C: no watcher of dicts is left in this process");
        return -1;
    }
    return 0;
}
#else
int
dict_words_init(void)
{
    return 0;
}
#endif
