/* Words: 64 bits read of a value, which tell it from others. Guards read them of any value; csrc/tensors reads those of tensors. */
#ifndef TRACER_WORD_H
#define TRACER_WORD_H

typedef enum {
    READ_UNKNOWN = -1, /* nothing can be said without running user code */
    READ_ABSENT = 0,   /* the value has no such thing */
    READ_FOUND = 1,
} ReadResult;

typedef enum {
    WORD_TYPE,    /* the address of the type */
    WORD_ADDRESS, /* of the object */
    WORD_INT,     /* with a dim that is not 0: only an int will do */
    WORD_FLOAT,   /* the bits of one */
    WORD_HASH,    /* of a str */
    WORD_LENGTH,
    WORD_RANK, /* from here on, of a tensor */
    WORD_SIZE,
    WORD_STRIDE,
    WORD_OFFSET,
    WORD_DTYPE, /* the address of the dtype */
    WORD_KEYS,  /* dispatch keys as TensorMatch compares them */
    WORD_GRAD,
    WORD_LEAF,
    WORD_KIND_COUNT,
} WordKind;

#endif
