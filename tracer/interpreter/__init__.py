"""The symbolic interpreter: translator, opcode handlers, calls, and CPython's object model."""
