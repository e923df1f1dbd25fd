/* A hash map from the address of an object to a pointer. Holds no references. */
#ifndef TRACER_POINTER_MAP_H
#define TRACER_POINTER_MAP_H

#include "compat.h"

typedef struct {
    const void *key; /* NULL: never used */
    void *value;     /* NULL: removed */
} PointerMapSlot;

typedef struct {
    PointerMapSlot *slots;
    size_t capacity; /* zero or a power of two */
    size_t used;     /* slots with a key, removed ones included */
    size_t live;     /* slots with a value */
} PointerMap;

void *pointer_map_get(const PointerMap *map, const void *key);
int pointer_map_set(PointerMap *map, const void *key, void *value); /* -1 and MemoryError; value is not NULL */
void *pointer_map_remove(PointerMap *map, const void *key);         /* the value removed, or NULL */
void pointer_map_free(PointerMap *map);

#endif
