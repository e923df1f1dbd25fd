/* Open addressing with linear probing; a removed slot keeps its key until the map is rebuilt. */
#include "pointer_map.h"

static size_t
hash_pointer(const void *key)
{
    uintptr_t bits = (uintptr_t)key >> 4; /* objects are aligned to 16 bytes */
    return (size_t)(bits ^ (bits >> 9) ^ (bits >> 18));
}

/* The slot of `key`, or the free one where it would stand. The map has a free slot. */
static PointerMapSlot *
find_slot(PointerMapSlot *slots, size_t capacity, const void *key)
{
    size_t mask = capacity - 1;
    size_t at = hash_pointer(key) & mask;
    while (slots[at].key != NULL && slots[at].key != key) {
        at = (at + 1) & mask;
    }
    return &slots[at];
}

static int
rebuild(PointerMap *map)
{
    size_t capacity = 8;
    while (capacity < map->live * 3 + 3) {
        capacity *= 2;
    }
    PointerMapSlot *slots = PyMem_Calloc(capacity, sizeof(PointerMapSlot));
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].value != NULL) {
            *find_slot(slots, capacity, map->slots[i].key) = map->slots[i];
        }
    }
    PyMem_Free(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    map->used = map->live;
    return 0;
}

void *
pointer_map_get(const PointerMap *map, const void *key)
{
    return map->capacity == 0 ? NULL : find_slot(map->slots, map->capacity, key)->value;
}

int
pointer_map_set(PointerMap *map, const void *key, void *value)
{
    if ((map->used + 1) * 3 > map->capacity * 2 && rebuild(map) < 0) {
        return -1;
    }
    PointerMapSlot *slot = find_slot(map->slots, map->capacity, key);
    map->used += slot->key == NULL;
    map->live += slot->value == NULL;
    slot->key = key;
    slot->value = value;
    return 0;
}

void *
pointer_map_remove(PointerMap *map, const void *key)
{
    if (map->capacity == 0) {
        return NULL;
    }
    PointerMapSlot *slot = find_slot(map->slots, map->capacity, key);
    void *value = slot->value;
    if (value != NULL) {
        slot->value = NULL;
        map->live--;
    }
    return value;
}

void
pointer_map_free(PointerMap *map)
{
    PyMem_Free(map->slots);
    *map = (PointerMap){0};
}
