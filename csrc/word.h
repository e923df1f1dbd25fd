/* Words: 64 bits read of a value, which tell it from others. Guards read them of any value; csrc/tensors reads those of tensors. */
#ifndef TRACER_WORD_H
#define TRACER_WORD_H

typedef enum {
    READ_UNKNOWN = -1, /* nothing can be said without running more than C does here */
    READ_ABSENT = 0,   /* the value has no such thing */
    READ_FOUND = 1,
} ReadResult;

/* What a word says of a value. Python knows these names as `_C.WORD`. */
#define WORDS(X)                                                   \
    X(TYPE)    /* the address of the type */                       \
    X(ADDRESS) /* of the object */                                 \
    X(INT)     /* with a dim that is not 0: only an int will do */ \
    X(FLOAT)   /* the bits of one */                               \
    X(HASH)    /* of a str */                                      \
    X(LENGTH)                                                      \
    X(RANK) /* from here on, of a tensor */                        \
    X(SIZE)                                                        \
    X(STRIDE)                                                      \
    X(OFFSET)                                                      \
    X(DTYPE) /* the address of the dtype */                        \
    X(KEYS)  /* dispatch keys as TensorMatch compares them */      \
    X(GRAD)                                                        \
    X(LEAF)

#define WORD_ENUMERATOR(name) WORD_##name,
typedef enum { WORDS(WORD_ENUMERATOR) WORD_KIND_COUNT } WordKind;
#undef WORD_ENUMERATOR

#endif
