"""Sources: how a value is reached again from the inputs of a frame. One small frozen class per kind, by family,
imported from the module of the family.

`base` has what they share, `reading` the functions that read objects without running user code.
"""
