"""Models of builtins and library functions, by the module that they model."""
