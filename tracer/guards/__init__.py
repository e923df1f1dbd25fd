"""Guards: what a trace assumed, as frozen statements about sources, and the `check_fn` that is made of them.

One small class per kind, by topic: `identity`, `values`, `containers`, `iterators`, `attributes`, `class_shape`, `unchanged`,
`lifetimes`, `arguments`, `arrays`, `tensors`, `memory`, `state`, `shapes`. `base` has what kinds share. A new kind goes into
the file of its topic, and is imported from there. `demands` has the words in which a kind says what it demands: `checklist`,
`steady`, `decision` and `implication` go by these.

`order` says what is checked first, `code` prints the function, `manager` compiles and explains it, `checklist` hands to C what
C can compare, and `steady` finds what need not be compared again. Between the entries of one code object, `decision` says which
may hold, and `implication` whether the guards of one follow from those of another.
"""
