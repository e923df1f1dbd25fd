"""The public functions, which `tracer` re-exports: decorators, marks, stances, export, explain."""
