"""Interfaces between the parts of the tracer: `VariableTracker`, `Tracer`, the registry of models, class attribute lookups."""
