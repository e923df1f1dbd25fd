/* Versions: how CPython itself tells that a dict, a class or a function is what it was. Everything else asks here.
 *
 * CPython numbers each change of a class in the object itself, and until 3.13 each change of a dict. 3.14 does not: a watcher counts
 * them there (dict_words.c). */
#ifndef TRACER_VERSIONS_H
#define TRACER_VERSIONS_H

#include "compat.h"

/* Where the version of a dict stands: a word of another value after each change from now on, valid while the dict lives. No two dicts
 * of a process ever have the same one, so it also tells a dict from another that was made at its address. (Such a dict may have its
 * version in another place.) */
const uint64_t *version_of_dict_from_now(PyObject *dict);

/* From 3.13 on CPython numbers the first thousand changes of a class alone, and has no number for its subclasses either then. In
 * place of it stands one that is made of the versions of the dicts in its MRO, and is greater than any number of CPython's. */
#if PY_VERSION_HEX >= 0x030D0000
uint64_t version_by_dicts(PyTypeObject *type);
#endif

/* A number that stays as long as nothing in the class's MRO is assigned; 0 if it has none now, which a flag says before 3.13. */
static inline uint64_t
version_of_class(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030D0000
    return type->tp_version_tag != 0 ? type->tp_version_tag : version_by_dicts(type);
#else
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
#endif
}

/* The same; a class that has none is given one, if CPython has any left. */
uint64_t version_of_class_from_now(PyTypeObject *type);

/* A word that stays as long as a class (as above) or the code of a function does; 0 where there is none. */
uint64_t version_of(PyObject *class_or_function);
uint64_t version_from_now(PyObject *class_or_function);

#endif
