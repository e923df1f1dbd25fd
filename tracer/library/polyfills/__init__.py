"""Functions of the standard library as plain Python, to be traced through. Importing a module of this package registers
what it replaces."""
