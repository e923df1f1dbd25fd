"""Functions, methods and other callables."""
